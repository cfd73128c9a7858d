#include "weft/chat.h"

#include <algorithm>
#include <utility>

#include "chat/abilities.h"
#include "chat/call_grammar.h"
#include "chat/derived_format.h"
#include "chat/divergences.h"
#include "chat/messages.h"
#include "chat/reader_state.h"
#include "chat/reasoning_limit.h"
#include "chat/request_json.h"
#include "text/named_templates.h"

namespace weft {

namespace {

using nlohmann::ordered_json;

/// Marks the end of the message that is to be continued. No template contains it.
constexpr std::string_view kContinues = "\xEE\x80\x80weft continues here\xEE\x80\x80";

bool comes_from(const chat::Format& format, std::string_view source) {
  const auto stands = [source](const std::string& mark) { return source.find(mark) != source.npos; };
  return std::all_of(format.marks.begin(), format.marks.end(), stands) &&
         std::none_of(format.not_marks.begin(), format.not_marks.end(), stands);
}

const chat::Format& format_named(std::string_view name) {
  for (const chat::Format& format : chat::known_formats()) {
    if (format.name == name) return format;
  }
  std::string names;
  for (const std::string& known : Chat::formats()) names += (names.empty() ? "" : ", ") + known;
  chat::refuse("unknown chat format \"" + std::string(name) + "\"; known are " + names);
}

bool holds_mark(const std::vector<PromptPiece>& prompt) {
  return std::any_of(prompt.begin(), prompt.end(), [](const PromptPiece& piece) {
    return piece.text.find(kContinues) != std::string::npos;
  });
}

/// The prompt up to the mark, which is removed.
void cut_at_mark(std::vector<PromptPiece>& prompt) {
  for (std::size_t i = prompt.size(); i-- > 0;) {
    const std::size_t at = prompt[i].text.rfind(kContinues);
    if (at == std::string::npos) continue;
    prompt[i].text.resize(at);
    prompt.resize(i + 1);
    return;
  }
  chat::refuse(
      "the chat template does not render the end of the last message, so the message cannot be continued");
}

/// Sets every switch in the defaults, because a template may read one name before another.
void replace_switches(ordered_json& all, bool reasons) {
  for (const char* name : chat::kReasoningSwitches)
    if (all.contains(name)) all[name] = reasons;
}

void add_variables(ordered_json& all, std::string_view variables_json) {
  if (variables_json.empty()) return;
  const ordered_json given = chat::parse_request_json(variables_json, "the template's variables");
  if (!given.is_object()) chat::refuse("the template's variables must be a JSON object");
  for (const char* name : chat::kReasoningSwitches)
    if (const auto found = given.find(name); found != given.end() && found->is_boolean())
      replace_switches(all, found->get<bool>());
  all.update(given);
}

/// Marks the end of the message. True if its reasoning ends there: it has no content yet, or the content is
/// the beginning of reasoning.
bool mark_end(chat::Message& message, const chat::Format& format) {
  const std::string_view begin = chat::trimmed(format.reasoning_begin),
                         end = chat::trimmed(format.reasoning_end);
  const std::string_view content = chat::trimmed(message.content);
  if (!begin.empty() && message.reasoning.empty() && content.starts_with(begin) &&
      content.find(end) == content.npos) {
    const std::size_t at = message.content.find(begin) + begin.size();
    message.reasoning = message.content.substr(
        std::min(message.content.find_first_not_of(" \n", at), message.content.size()));
    message.content.clear();
  }
  const bool reasons = !begin.empty() && !message.reasoning.empty() && message.content.empty();
  (reasons ? message.reasoning : message.content) += kContinues;
  return reasons;
}

/// Whether the prompt ends with `tag`, written by the template and not by a message.
bool ends_in(const std::vector<PromptPiece>& prompt, std::string_view tag) {
  if (tag.empty() || prompt.empty() || !prompt.back().from_template) return false;
  return chat::trimmed(prompt.back().text).ends_with(chat::trimmed(tag));
}

}  // namespace

struct Chat::Impl {
  ChatTemplate chat_template;
  chat::Abilities abilities;
  chat::Format format;

  std::string variables(const ChatTurn& turn, std::string_view tools_json) const;
  const chat::CallFormat* calls() const { return format.calls.empty() ? nullptr : &format.calls.front(); }
};

/// The template's variables. Later ones override earlier ones: reasoning, defaults, reasoning effort, the
/// request's own variables.
std::string Chat::Impl::variables(const ChatTurn& turn, std::string_view tools_json) const {
  ordered_json all = ordered_json::object();
  if (abilities.functions) all["functions"] = chat::functions_text(tools_json);
  const std::optional<bool> reasoning = turn.reasoning_budget == 0 ? std::optional(false) : turn.reasoning;
  if (reasoning && !abilities.reasoning_switch.empty()) all[abilities.reasoning_switch] = *reasoning;
  add_variables(all, turn.default_variables_json);
  if (const std::string& effort = turn.reasoning_effort; !effort.empty()) {
    constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high"};
    if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
      chat::refuse("reasoning_effort must be \"none\", \"minimal\", \"low\", \"medium\" or \"high\", not \"" +
                   effort + "\"");
    }
    replace_switches(all, effort != "none");
    if (!abilities.reasoning_switch.empty()) all[abilities.reasoning_switch] = effort != "none";
    // Templates support three efforts.
    if (abilities.reasoning_effort) {
      all["reasoning_effort"] = effort == "none" || effort == "minimal" ? "low" : effort;
    }
  }
  add_variables(all, turn.variables_json);
  return all.empty() ? std::string() : all.dump();
}

namespace {

/// The format of a template: a known one, if its readers find what the template writes, or what the template
/// shows of its own.
chat::Format find_format(const ChatTemplate& chat_template, const chat::Abilities& abilities) {
  const std::vector<chat::Format>& all = chat::known_formats();
  const std::string_view source = chat_template.source();
  const chat::Format& known = *std::find_if(
      all.begin(), all.end(), [&](const chat::Format& format) { return comes_from(format, source); });
  const auto written = chat::write_probe_calls(chat_template, abilities);
  if (!written || chat::reads_back(known, *written)) return known;
  std::optional<chat::Format> derived = chat::derive_format(*written);
  if (!derived) return known;
  derived->reasoning_begin = known.reasoning_begin;
  derived->reasoning_end = known.reasoning_end;
  return *std::move(derived);
}

}  // namespace

Chat::Chat(ChatTemplate chat_template, std::string_view format) {
  chat::Abilities abilities = chat::find_abilities(chat_template);
  chat::Format chosen = format.empty() ? find_format(chat_template, abilities) : format_named(format);
  if (format.empty() && !abilities.tools && !abilities.calls && !chosen.channels) {
    // Its system message will describe the syntax of calls.
    chosen.calls.insert(chosen.calls.begin(), chat::known_formats().back().calls.front());
  }
  impl_ =
      std::make_shared<const Impl>(Impl{std::move(chat_template), std::move(abilities), std::move(chosen)});
}

Chat Chat::chatml(const Tokenizer& tokenizer) {
  Chat chat(ChatTemplate("chatml", tokenizer));
  Impl impl = *chat.impl_;
  impl.format.stop = {"<|im_end|>", "<|im_start|>"};
  chat.impl_ = std::make_shared<const Impl>(std::move(impl));
  return chat;
}

Chat::~Chat() = default;
Chat::Chat(const Chat&) = default;
Chat& Chat::operator=(const Chat&) = default;

ChatOpening Chat::open(const ChatTurn& turn) const {
  const Impl& impl = *impl_;
  std::vector<chat::Tool> tools = chat::read_tools(turn.tools_json);
  const bool must_call = turn.tool_choice == ToolChoice::kRequired || turn.tool_choice == ToolChoice::kNamed;
  if (must_call && tools.empty()) chat::refuse("tool_choice requires a call, but there are no tools");
  if (turn.tool_choice == ToolChoice::kNamed && !chat::find_tool(tools, turn.tool_name)) {
    chat::refuse("tool_choice names the function \"" + turn.tool_name + "\", which is not one of the tools");
  }
  if (turn.tool_choice == ToolChoice::kNone) tools.clear();
  const bool calls = !tools.empty();

  ChatOpening opening;
  std::vector<chat::Message> messages = chat::read_messages(turn.messages_json, opening.warnings);
  const bool continues = !turn.add_generation_prompt && messages.back().role == "assistant";
  if (continues && !messages.back().calls.empty()) {
    chat::refuse("the last message has tool calls, so it cannot be continued");
  }
  const bool continues_reasoning = continues && mark_end(messages.back(), impl.format);
  const std::string_view tools_json = calls ? std::string_view(turn.tools_json) : std::string_view();
  const auto adapted = [&](std::vector<chat::Message> given) {
    return chat::adapted(std::move(given), impl.abilities, impl.calls(), tools_json);
  };
  const bool finds_divergences = turn.find_divergences && turn.add_generation_prompt;
  const std::vector<chat::Message> given = finds_divergences ? messages : std::vector<chat::Message>();
  messages = adapted(std::move(messages));

  ChatTemplate::Options options;
  options.add_generation_prompt = turn.add_generation_prompt;
  if (impl.abilities.tools) options.tools_json = tools_json;
  if (impl.abilities.needs_tools && !calls) options.tools_json = "[]";
  options.variables_json = impl.variables(turn, tools_json);

  const auto render_these = [&](const std::vector<chat::Message>& these) {
    return impl.chat_template.render_json(to_json(these, impl.abilities).dump(), options);
  };
  const auto render = [&] { return render_these(messages); };
  opening.prompt = render();
  if (continues_reasoning && !holds_mark(opening.prompt)) {
    // The template drops reasoning: it is the content then.
    chat::Message& last = messages.back();
    last.content = impl.format.reasoning_begin + std::exchange(last.reasoning, {});
    opening.prompt = render();
  }
  if (continues) cut_at_mark(opening.prompt);
  if (finds_divergences)
    opening.divergences = chat::find_divergences(
        join(opening.prompt), given,
        [&](const std::vector<chat::Message>& others) { return join(render_these(adapted(others))); });
  const bool reasons = continues_reasoning ||
                       (turn.add_generation_prompt && ends_in(opening.prompt, impl.format.reasoning_begin));
  std::vector<chat::Tool> callable = tools;
  if (turn.tool_choice == ToolChoice::kNamed) callable = {*chat::find_tool(tools, turn.tool_name)};
  const auto reasoning = reasons ? chat::ReasoningState::kOpen
                         : has_reasoning() && !impl.format.reasoning_end.empty()
                             ? chat::ReasoningState::kPossible
                             : chat::ReasoningState::kNone;
  if (!continues)
    opening.grammar = chat::response_grammar(impl.format, callable, turn, reasoning, opening.warnings);
  chat::ReaderState answer(
      std::make_shared<const chat::ResponseFormat>(impl.format, std::move(tools), calls, reasons));
  const bool is_off = turn.reasoning_effort == "none";
  if (const int budget = is_off ? std::max(turn.reasoning_budget, 0) : turn.reasoning_budget; budget >= 0)
    if (chat::ReasoningEnd end = chat::reasoning_end(impl.format, turn.reasoning_budget_message);
        !end.tag.empty())
      opening.reasoning_limit = ReasoningLimit(std::make_shared<const ReasoningLimit::State>(
          ReasoningLimit::State{answer, budget, std::move(end)}));
  opening.reader.state_ = std::make_unique<ResponseReader::State>(ResponseReader::State{std::move(answer)});
  opening.stop = impl.format.stop;
  return opening;
}

std::string_view Chat::format() const { return impl_->format.name; }
bool Chat::has_tools() const { return impl_->abilities.tools; }
bool Chat::has_reasoning() const {
  const chat::Format& format = impl_->format;
  return format.channels || !impl_->abilities.reasoning_switch.empty() ||
         (!format.reasoning_begin.empty() && impl_->chat_template.source().find(chat::trimmed(
                                                 format.reasoning_begin)) != std::string_view::npos);
}

std::vector<std::string> Chat::template_names() { return text::template_names(); }

std::vector<std::string> Chat::formats() {
  std::vector<std::string> names;
  for (const chat::Format& format : chat::known_formats()) names.push_back(format.name);
  return names;
}

}  // namespace weft
