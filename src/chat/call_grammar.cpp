#include "chat/call_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "chat/json_scanner.h"
#include "weft/error.h"

namespace weft::chat {

namespace {

Grammar optional(Grammar part) { return Grammar::repeat(std::move(part), 0, 1); }

/// White space that models write behind tags.
Grammar space() { return Grammar::regex("[ \\n]{0,4}"); }

/// Where a tag ends that begins at `from`: <...> without white space, or [CAPITALS]; `from` where none does.
std::size_t tag_end(std::string_view text, std::size_t from) {
  if (text[from] == '<') {
    const std::size_t end = text.find_first_of("> \n", from);
    return end != text.npos && text[end] == '>' ? end + 1 : from;
  }
  if (text[from] != '[') return from;
  std::size_t end = from + 1;
  while (end < text.size() &&
         ((text[end] >= 'A' && text[end] <= 'Z') || text[end] == '_' || text[end] == '/'))
    ++end;
  return end < text.size() && text[end] == ']' && end > from + 1 ? end + 1 : from;
}

/// A part of a format: its tags may be special tokens.
Grammar written(std::string_view text) {
  std::vector<Grammar> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = tag_end(text, at);
    if (end == at) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back(Grammar::literal(text.substr(begin, at - begin)));
    parts.push_back(Grammar::tag(text.substr(at, end - at)));
    begin = at = end;
  }
  if (begin < text.size()) parts.push_back(Grammar::literal(text.substr(begin)));
  return Grammar::sequence(std::move(parts));
}

/// Any text up to a closing tag, and what belongs behind it.
Grammar until(std::string_view closing) {
  const std::string_view tag = trimmed(closing);
  const std::size_t behind = static_cast<std::size_t>(tag.data() - closing.data()) + tag.size();
  return Grammar::sequence({Grammar::until(tag), Grammar::literal(closing.substr(behind))});
}

Grammar schema_of(const std::string& schema, const Tool& tool) {
  try {
    return Grammar::json_schema(schema);
  } catch (const Error& error) {
    throw Error(error.code(), "the parameters of the function \"" + tool.name + "\": " + error.what());
  }
}

Grammar arguments_of(const Tool& tool) {
  return tool.parameters.empty() ? Grammar::json_object() : schema_of(tool.parameters, tool);
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_escaped(json, text);
  return json + '"';
}

class CallGrammar {
 public:
  explicit CallGrammar(const CallFormat& format) : format_(format) {}

  /// Between the opening tag of a call and its closing one.
  Grammar call(const Tool& tool) const {
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

 private:
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
    parts.push_back(arguments_of(tool));
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
    parts.push_back(arguments_of(tool));
    return Grammar::sequence(std::move(parts));
  }

  Grammar value(const Tool& tool, const ToolParameter& parameter) const {
    if (!parameter.text)
      return Grammar::sequence({schema_of(parameter.schema, tool), written(format_.value_end)});
    if (!parameter.choices) return until(format_.value_end);
    // Of strings with further keywords enum is held; others are held in JSON only.
    const nlohmann::json schema = nlohmann::json::parse(parameter.schema);
    if (!schema.contains("enum")) return until(format_.value_end);
    std::vector<Grammar> all;
    for (const nlohmann::json& choice : schema["enum"])
      all.push_back(Grammar::literal(choice.get<std::string>()));
    return Grammar::sequence({Grammar::choice(std::move(all)), written(format_.value_end)});
  }

  Grammar parameters(const Tool& tool) const {
    std::vector<Grammar> parts = {written(format_.name_prefix + tool.name + format_.name_end)};
    if (tool.parameters.empty() || tool.open) {
      parts.push_back(Grammar::repeat(
          Grammar::sequence({written(format_.key_begin), Grammar::regex("[a-zA-Z0-9_.-]{1,64}"),
                             written(format_.key_end + format_.text_kind + format_.value_begin),
                             until(format_.value_end)}),
          0, -1));
      return Grammar::sequence(std::move(parts));
    }
    for (const ToolParameter& parameter : tool.properties) {
      const std::string& kind = parameter.text ? format_.text_kind : format_.other_kind;
      Grammar whole = Grammar::sequence(
          {written(format_.key_begin + parameter.name + format_.key_end + kind + format_.value_begin),
           value(tool, parameter)});
      parts.push_back(parameter.required ? std::move(whole) : optional(std::move(whole)));
    }
    return Grammar::sequence(std::move(parts));
  }

  /// key=value, key=value: the required ones first, so that commas are certain.
  Grammar listed(const Tool& tool, std::string_view begin, std::string_view equals, std::string_view comma,
                 std::string_view end) const {
    const auto entry = [&](const ToolParameter& parameter) {
      const std::string key = parameter.name + std::string(equals);
      if (!format_.quote.empty() && parameter.text && !parameter.choices) {
        return Grammar::sequence(
            {Grammar::literal(key), Grammar::tag(format_.quote), Grammar::until(format_.quote)});
      }
      return Grammar::sequence({Grammar::literal(key), schema_of(parameter.schema, tool)});
    };
    const auto followed = [&](const ToolParameter& parameter) {
      return Grammar::sequence({Grammar::literal(comma), entry(parameter)});
    };
    std::vector<const ToolParameter*> all;
    for (const bool required : {true, false}) {
      for (const ToolParameter& parameter : tool.properties) {
        if (parameter.required == required) all.push_back(&parameter);
      }
    }
    const std::size_t n_required = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const ToolParameter* p) { return p->required; }));
    // Any of the optional ones may be the first, if no other is.
    std::vector<Grammar> lists;
    for (std::size_t first = 0; first < (n_required > 0 ? 1 : all.size()); ++first) {
      std::vector<Grammar> parts = {entry(*all[first])};
      for (std::size_t i = first + 1; i < all.size(); ++i) {
        parts.push_back(i < n_required ? followed(*all[i]) : optional(followed(*all[i])));
      }
      lists.push_back(Grammar::sequence(std::move(parts)));
    }
    std::vector<Grammar> parts = {written(begin)};
    if (!lists.empty()) {
      Grammar list = Grammar::choice(std::move(lists));
      parts.push_back(n_required > 0 ? std::move(list) : optional(std::move(list)));
    }
    parts.push_back(Grammar::literal(end));
    return Grammar::sequence(std::move(parts));
  }

  const CallFormat& format_;
};

/// Grammars of whole answers.
class AnswerGrammar {
 public:
  AnswerGrammar(const Format& format, const std::vector<Tool>& tools, const ChatTurn& turn,
                ReasoningState reasoning)
      : format_(format), tools_(tools), turn_(turn), reasoning_(reasoning) {}

  /// Calls and nothing else, from the opening tag on or behind its first tag.
  Grammar calls(bool opened) const {
    if (format_.channels) return channel_call();
    const CallFormat& format = format_.calls.front();
    const CallGrammar grammar(format);
    std::vector<Grammar> choices;
    for (const Tool& tool : tools_) choices.push_back(grammar.call(tool));
    const Grammar one = Grammar::sequence({Grammar::choice(std::move(choices)), written(format.call_end)});
    const bool tagged = !format_.bare_object || opened;
    const std::string opener = tagged ? format.section_begin + format.call_begin : format.call_begin;
    std::vector<Grammar> parts = {written(opened ? opener.substr(first_tag().size()) : opener), one};
    if (turn_.parallel_tool_calls) {
      parts.push_back(
          Grammar::repeat(Grammar::sequence({written(format.separator + format.call_begin), one}), 0, -1));
    }
    if (tagged) parts.push_back(written(format.section_end));
    return Grammar::sequence(std::move(parts));
  }

  /// Text that is held to the schemas where it calls.
  Grammar free_with_calls() const {
    if (format_.channels) return Grammar::choice({channel_call(), channel_text(Grammar::free_text({}))});
    if (format_.bare_object) {
      return Grammar::choice({Grammar::regex("([ \\n]*[^ \\n{][\\s\\S]*)?"), calls(false)});
    }
    std::vector<std::pair<std::string, Grammar>> tags = {{first_tag(), calls(true)}};
    for (const std::string& wrapper : format_.wrappers) tags.emplace_back(wrapper, Grammar::literal(""));
    return Grammar::free_text(std::move(tags));
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
  /// What free text is searched for: a whole tag where the opener begins with one.
  std::string first_tag() const {
    const std::string& opener = format_.calls.front().opener();
    const std::size_t end = tag_end(opener, 0);
    return end > 0 ? opener.substr(0, end) : opener;
  }

  Grammar channel_call() const {
    std::vector<Grammar> choices;
    for (const Tool& tool : tools_) {
      // The token that ends the call ends the answer, too.
      choices.push_back(Grammar::sequence(
          {written("<|channel|>commentary to=functions." + tool.name + " <|constrain|>json<|message|>"),
           arguments_of(tool)}));
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
};

}  // namespace

std::optional<Grammar> answer_grammar(const Format& format, const std::vector<Tool>& tools,
                                      const ChatTurn& turn, ReasoningState reasoning) {
  const AnswerGrammar grammar(format, tools, turn, reasoning);
  if (turn.tool_choice == ToolChoice::kRequired || turn.tool_choice == ToolChoice::kNamed) {
    return grammar.behind_reasoning(grammar.calls(false));
  }
  if (turn.content_grammar) {
    Grammar content = grammar.content(*turn.content_grammar);
    if (tools.empty()) return grammar.behind_reasoning(std::move(content));
    return grammar.behind_reasoning(Grammar::choice({std::move(content), grammar.calls(false)}));
  }
  if (std::none_of(tools.begin(), tools.end(), [](const Tool& tool) { return tool.strict; }))
    return std::nullopt;
  std::vector<Tool> held = tools;
  for (Tool& tool : held) {
    if (!tool.strict) tool = {.name = tool.name};
  }
  const AnswerGrammar strict(format, held, turn, reasoning);
  return strict.behind_reasoning(strict.free_with_calls());
}

}  // namespace weft::chat
