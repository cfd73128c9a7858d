#include "chat/call_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/to_size.h"
#include "chat/json_scanner.h"
#include "grammar/written.h"
#include "weft/error.h"

namespace weft::chat {

using grammar::tag_end;
using grammar::written;

namespace {

Grammar optional(Grammar part) { return Grammar::repeat(std::move(part), 0, 1); }

/// White space that models write after tags.
Grammar space() { return Grammar::regex("[ \\n]{0,4}"); }

/// Any characters up to a closing tag, and the white space that follows the tag.
Grammar until(std::string_view closing) {
  const std::string_view tag = trimmed(closing);
  const std::size_t behind = to_size(tag.data() - closing.data()) + tag.size();
  return Grammar::sequence({Grammar::until(tag), Grammar::literal(closing.substr(behind))});
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_escaped(json, text);
  return json + '"';
}

constexpr int kMostParameters = 64;       // For functions with unknown parameters.
constexpr std::int64_t kPartStates = 64;  // A grammar of any JSON value has about as many states.

/// Writes the schemas of functions. All schemas of a request share one budget. Functions beyond it are open;
/// open functions share another one, and a request beyond that throws OverBudget.
class ArgumentWriter {
 public:
  ArgumentWriter(bool hold, std::vector<std::string>& warnings)
      : hold_(hold), warnings_(warnings), warned_(warnings.begin(), warnings.end()) {}

  /// write(tool), or write of a function of that name without a schema, where the schema takes too much.
  template <typename Write>
  Grammar in_budget(const Tool& tool, const Write& write) {
    try {
      return write(tool);
    } catch (const grammar::OverBudget& error) {
      leave_free(tool, error.what());
      return write(Tool{.name = tool.name, .index = tool.index});
    }
  }

  Grammar arguments(const Tool& tool) {
    if (!tool.schema) {
      open_budget_.add_states(kPartStates);
      return Grammar::json_object();
    }
    const auto write = [&](const JsonSchemaOptions& options) { return tool.schema->whole(budget_, options); };
    return held(tool, write, [] { return Grammar::json_object(); });
  }
  Grammar json(const Tool& tool, const ToolParameter& parameter) {
    const auto write = [&](const JsonSchemaOptions& options) {
      return tool.schema->json(parameter, budget_, options);
    };
    return held(tool, write, [] { return Grammar::json_schema("{}"); });
  }
  /// A value that is_text, up to `end`.
  Grammar text(const Tool& tool, const ToolParameter& parameter, std::string_view end) {
    const auto write = [&](const JsonSchemaOptions& options) {
      return tool.schema->bare(parameter, end, budget_, options);
    };
    return held(tool, write,
                [&] { return Grammar::free_text({{std::string(end), Grammar::literal("")}}, 0, 0); });
  }
  /// The arguments are more than a list of properties, in a format that can be held to a list only.
  void leave_open(const Tool& tool) {
    open_budget_.add_states(kPartStates);
    if (tool.schema)
      leave_free(
          tool, "the schema is not a plain list of properties, which the model's format of tool calls needs");
  }

 private:
  template <typename Write, typename Free>
  Grammar held(const Tool& tool, const Write& write, const Free& free) {
    budget_.add_states(kPartStates);
    if (!hold_ && !tool.strict) return free();
    std::vector<std::string> notes;
    try {
      Grammar grammar = write({.left_free = tool.strict ? nullptr : &notes});
      for (const std::string& note : notes) leave_free(tool, note);
      return grammar;
    } catch (const grammar::OverBudget&) {
      throw;
    } catch (const Error& error) {
      leave_free(tool, error.what());
      return free();
    }
  }
  void leave_free(const Tool& tool, const std::string& why) {
    const std::string message = "the parameters of the function \"" + tool.name + "\": " + why;
    if (tool.strict) throw ToolSchemaError(tool.index, message + " (the function is \"strict\")");
    if (warned_.insert(message).second) warnings_.push_back(message);
  }

  const bool hold_;
  std::vector<std::string>& warnings_;
  std::unordered_set<std::string> warned_;
  grammar::Budget budget_{GrammarLimits{}};
  grammar::Budget open_budget_{GrammarLimits{}};
};

class CallGrammar {
 public:
  CallGrammar(const CallFormat& format, ArgumentWriter& writer) : format_(format), writer_(writer) {}

  /// Between the opening tag of a call and its closing one.
  Grammar call(const Tool& tool) const {
    return writer_.in_budget(tool, [&](const Tool& written_tool) { return write(written_tool); });
  }

 private:
  Grammar write(const Tool& tool) const {
    switch (format_.style) {
      case CallStyle::kObject:
        return object(tool);
      case CallStyle::kNamed:
        return named(tool);
      case CallStyle::kParameters:
        return parameters(tool);
      case CallStyle::kPython:
        return listed(tool, tool.name + "(", "=", ", ", ")");
      case CallStyle::kUnquoted:
        return listed(tool, format_.name_prefix + tool.name + "{", ":", ",", "}");
    }
    return Grammar::literal("");
  }

  Grammar object(const Tool& tool) const {
    const Grammar id = Grammar::regex("[a-zA-Z0-9]{1,9}");
    std::vector<Grammar> parts = {Grammar::literal("{")};
    const bool has_id = !format_.id_key.empty();
    if (has_id && format_.id_first) {
      parts.push_back(Grammar::literal(json_string(format_.id_key) + ": \""));
      parts.push_back(id);
      parts.push_back(Grammar::literal("\", "));
    }
    parts.push_back(Grammar::literal(json_string(format_.name_key) + ": " + json_string(tool.name) + ", " +
                                     json_string(format_.arguments_key) + ": "));
    parts.push_back(writer_.arguments(tool));
    if (has_id && !format_.id_first) {
      parts.push_back(Grammar::literal(", " + json_string(format_.id_key) + ": \""));
      parts.push_back(id);
      parts.push_back(Grammar::literal("\""));
    }
    parts.push_back(Grammar::literal("}"));
    return Grammar::sequence(std::move(parts));
  }

  Grammar named(const Tool& tool) const {
    std::vector<Grammar> parts;
    if (!format_.id_end.empty()) {
      parts.push_back(Grammar::regex("[a-zA-Z0-9_-]{1,40}"));
      parts.push_back(written(format_.id_end));
    }
    parts.push_back(written(format_.name_prefix + tool.name));
    if (!format_.index_mark.empty()) {
      parts.push_back(Grammar::literal(format_.index_mark));
      parts.push_back(Grammar::regex("[0-9]{1,4}"));
    }
    parts.push_back(written(format_.name_end));
    parts.push_back(writer_.arguments(tool));
    return Grammar::sequence(std::move(parts));
  }

  Grammar value(const Tool& tool, const ToolParameter& parameter) const {
    return Grammar::sequence({is_text(parameter) ? writer_.text(tool, parameter, trimmed(format_.value_end))
                                                 : writer_.json(tool, parameter),
                              written(format_.value_end)});
  }

  Grammar any_parameters() const {
    Grammar one = Grammar::sequence({written(format_.key_begin), Grammar::regex("[a-zA-Z0-9_.-]{1,64}"),
                                     written(format_.key_end + format_.text_kind + format_.value_begin),
                                     until(format_.value_end)});
    return Grammar::repeat(std::move(one), 0, kMostParameters);
  }

  Grammar parameters(const Tool& tool) const {
    std::vector<Grammar> parts = {written(format_.name_prefix + tool.name + format_.name_end)};
    if (!tool.schema || tool.open) {
      writer_.leave_open(tool);
      parts.push_back(any_parameters());
      return Grammar::sequence(std::move(parts));
    }
    for (const ToolParameter& parameter : tool.properties) {
      const std::string& kind = is_text(parameter) ? format_.text_kind : format_.other_kind;
      Grammar whole = Grammar::sequence(
          {written(format_.key_begin + parameter.name + format_.key_end + kind + format_.value_begin),
           value(tool, parameter)});
      parts.push_back(parameter.required ? std::move(whole) : optional(std::move(whole)));
    }
    return Grammar::sequence(std::move(parts));
  }

  Grammar entry(const Tool& tool, const ToolParameter& parameter, std::string_view equals) const {
    Grammar key = Grammar::literal(parameter.name + std::string(equals));
    if (format_.quote.empty() || parameter.types != grammar::kStringBit)
      return Grammar::sequence({std::move(key), writer_.json(tool, parameter)});
    return Grammar::sequence({std::move(key), Grammar::tag(format_.quote),
                              writer_.text(tool, parameter, format_.quote), Grammar::tag(format_.quote)});
  }

  /// key=value, key=value: the required ones first, so that commas are certain.
  Grammar listed(const Tool& tool, std::string_view begin, std::string_view equals, std::string_view comma,
                 std::string_view end) const {
    if (!tool.schema || tool.open) {
      writer_.leave_open(tool);
      Grammar any = Grammar::sequence({Grammar::regex("[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
                                       Grammar::literal(equals), Grammar::json_schema("{}")});
      return Grammar::sequence(
          {written(begin), optional(Grammar::list(std::move(any), Grammar::literal(comma), kMostParameters)),
           Grammar::literal(end)});
    }
    std::vector<Grammar> parts = {written(begin)}, others;
    for (const ToolParameter& parameter : tool.properties) {
      if (!parameter.required) {
        others.push_back(entry(tool, parameter, equals));
        continue;
      }
      if (parts.size() > 1) parts.push_back(Grammar::literal(comma));
      parts.push_back(entry(tool, parameter, equals));
    }
    if (!others.empty()) {
      Grammar list = Grammar::some_of(others, Grammar::literal(comma));
      if (parts.size() > 1) list = Grammar::sequence({Grammar::literal(comma), std::move(list)});
      parts.push_back(optional(std::move(list)));
    }
    parts.push_back(Grammar::literal(end));
    return Grammar::sequence(std::move(parts));
  }

  const CallFormat& format_;
  ArgumentWriter& writer_;
};

/// Grammars of whole responses.
class ResponseGrammar {
 public:
  ResponseGrammar(const Format& format, const std::vector<Tool>& tools, const ChatTurn& turn,
                  ReasoningState reasoning, std::vector<std::string>& warnings)
      : format_(format),
        tools_(tools),
        turn_(turn),
        reasoning_(reasoning),
        writer_(turn.hold_arguments, warnings) {}

  /// Calls and nothing else. They begin with the opening tag or, if `opened`, after its first tag.
  Grammar calls(bool opened, int most) {
    if (format_.channels) return channel_call();
    const CallFormat& format = format_.calls.front();
    const CallGrammar grammar(format, writer_);
    std::vector<Grammar> choices;
    for (const Tool& tool : tools_) choices.push_back(grammar.call(tool));
    Grammar one = Grammar::sequence({Grammar::choice(std::move(choices)), written(format.call_end)});
    const bool tagged = !format_.bare_object || opened;
    const std::string opener = tagged ? format.section_begin + format.call_begin : format.call_begin;
    std::vector<Grammar> parts = {written(opened ? opener.substr(first_tag().size()) : opener)};
    parts.push_back(Grammar::list(std::move(one), written(format.separator + format.call_begin), most));
    if (tagged) parts.push_back(written(format.section_end));
    return Grammar::sequence(std::move(parts));
  }

  /// A forced call is a single one, unless the client requests more. A named function is called once.
  int most_calls() const {
    if (turn_.tool_choice == ToolChoice::kNamed) return 1;
    const bool several = turn_.parallel_tool_calls.value_or(turn_.tool_choice == ToolChoice::kAuto);
    return several ? ChatTurn::kMostCalls : 1;
  }

  /// Text that is held to the schemas where it calls: one section of calls, or calls without a section.
  Grammar free_with_calls() {
    if (format_.channels) return Grammar::choice({channel_call(), channel_text(Grammar::free_text({}))});
    const int most = most_calls();
    if (format_.bare_object)
      return Grammar::choice({Grammar::regex("([ \\n]{0,8}[^ \\n{][\\s\\S]*)?"), calls(false, most)});
    const bool sections = !format_.calls.front().section_begin.empty();
    std::vector<std::pair<std::string, Grammar>> tags = {{first_tag(), calls(true, sections ? most : 1)}};
    for (const std::string& wrapper : format_.wrappers) tags.emplace_back(wrapper, Grammar::literal(""));
    return Grammar::free_text(std::move(tags), 0,
                              (sections ? 1 : most) + static_cast<int>(format_.wrappers.size()));
  }

  Grammar content(const Grammar& grammar) const {
    if (format_.channels) return channel_text(grammar);
    if (format_.wrappers.size() < 2) return grammar;
    return Grammar::sequence(
        {optional(Grammar::tag(format_.wrappers[0])), grammar, optional(Grammar::tag(format_.wrappers[1]))});
  }

  Grammar behind_reasoning(Grammar answer) const {
    if (format_.channels) {
      Grammar thought = Grammar::sequence({written("<|channel|>analysis<|message|>"),
                                           Grammar::until("<|end|>"), written("<|start|>assistant")});
      return Grammar::sequence({optional(std::move(thought)), std::move(answer)});
    }
    if (reasoning_ == ReasoningState::kNone) return answer;
    Grammar thought = Grammar::sequence({Grammar::until(trimmed(format_.reasoning_end)), space()});
    if (reasoning_ == ReasoningState::kOpen)
      return Grammar::sequence({std::move(thought), std::move(answer)});
    thought = Grammar::sequence({written(trimmed(format_.reasoning_begin)), std::move(thought)});
    return Grammar::sequence({optional(std::move(thought)), std::move(answer)});
  }

 private:
  /// The string that begins calls in free content: a whole tag where the opener begins with one.
  std::string first_tag() const {
    const std::string& opener = format_.calls.front().opener();
    const std::size_t end = tag_end(opener, 0);
    return end > 0 ? opener.substr(0, end) : opener;
  }

  Grammar channel_call() {
    std::vector<Grammar> choices;
    for (const Tool& tool : tools_) {
      // The token that ends the call ends the response, too.
      choices.push_back(Grammar::sequence(
          {written("<|channel|>commentary to=functions." + tool.name + " <|constrain|>json<|message|>"),
           writer_.in_budget(tool,
                             [&](const Tool& written_tool) { return writer_.arguments(written_tool); })}));
    }
    return Grammar::choice(std::move(choices));
  }
  Grammar channel_text(const Grammar& text) const {
    return Grammar::sequence({written("<|channel|>final<|message|>"), text});
  }

  const Format& format_;
  const std::vector<Tool>& tools_;
  const ChatTurn& turn_;
  ReasoningState reasoning_;
  ArgumentWriter writer_;
};

}  // namespace

std::optional<Grammar> response_grammar(const Format& format, const std::vector<Tool>& tools,
                                        const ChatTurn& turn, ReasoningState reasoning,
                                        std::vector<std::string>& warnings) {
  ResponseGrammar grammar(format, tools, turn, reasoning, warnings);
  if (turn.tool_choice == ToolChoice::kRequired || turn.tool_choice == ToolChoice::kNamed) {
    return grammar.behind_reasoning(grammar.calls(false, grammar.most_calls()));
  }
  if (turn.content_grammar) {
    Grammar content = grammar.content(*turn.content_grammar);
    if (tools.empty()) return grammar.behind_reasoning(std::move(content));
    return grammar.behind_reasoning(
        Grammar::choice({std::move(content), grammar.calls(false, grammar.most_calls())}));
  }
  if (std::none_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.strict; }))
    return std::nullopt;
  std::vector<Tool> held = tools;
  for (Tool& tool : held) {
    if (!tool.strict) tool = {.name = tool.name, .index = tool.index};
  }
  ResponseGrammar strict(format, held, turn, reasoning, warnings);
  return strict.behind_reasoning(strict.free_with_calls());
}

}  // namespace weft::chat
