#include "conversation/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/to_size.h"
#include "files/json_input.h"
#include "options/constraint_options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

bool is_user(const ConversationMessage& message) { return message.role == "user"; }
bool is_system(const ConversationMessage& message) { return message.role == "system"; }

}  // namespace

Json to_json(const ConversationMessage& message, Json content) {
  Json json = {{"role", message.role}, {"content", std::move(content)}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (!message.call_id.empty()) json["tool_call_id"] = message.call_id;
  for (const ChatResponse::Call& call : message.calls)
    json["tool_calls"].push_back({{"id", call.id},
                                  {"type", "function"},
                                  {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return json;
}

Conversation::Conversation(Completer& completer, Chat chat, const SamplerParams& sampling, Params params)
    : completer_(completer), chat_(std::move(chat)), sampling_(sampling), params_(std::move(params)) {
  // One seed for the whole conversation; each response adds its number to it.
  sampling_.seed = Sampler(sampling_, completer.model().tokenizer()).seed();
  set_system(params_.system);
}

Conversation::Turn Conversation::ask(const std::string& text, Media media, const Requirements& wishes) {
  messages_.push_back({.role = "user", .content = text, .media = std::move(media)});
  try {
    Turn turn = answer(params_.tool_choice, wishes);
    turn.was_taken_back = is_user(messages_.back());
    if (turn.was_taken_back) messages_.pop_back();
    return turn;
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

Conversation::Turn Conversation::go_on(const std::vector<std::string>& results, bool may_call,
                                       const Requirements& wishes) {
  const std::vector<ChatResponse::Call> calls = messages_.back().calls;
  for (std::size_t i = 0; i < calls.size(); ++i)
    messages_.push_back({.role = "tool", .content = results.at(i), .call_id = calls[i].id});
  try {
    // kRequired was fulfilled by the last response's calls.
    Turn turn = answer(may_call ? ToolChoice::kAuto : ToolChoice::kNone, wishes);
    turn.was_taken_back = messages_.back().role == "tool";
    if (turn.was_taken_back) take_back();
    return turn;
  } catch (...) {
    take_back();
    throw;
  }
}

void Conversation::take_back() {
  const auto last = std::find_if(messages_.rbegin(), messages_.rend(), is_user);
  if (last != messages_.rend()) messages_.erase(last.base() - 1, messages_.end());
}

Conversation::Turn Conversation::regenerate(const Requirements& wishes) {
  const Message last = messages_.back();
  messages_.pop_back();
  const bool first = is_user(messages_.back());
  try {
    Turn turn = answer(first ? params_.tool_choice : ToolChoice::kAuto, wishes);
    if (messages_.back().role != "assistant") messages_.push_back(last);
    return turn;
  } catch (...) {
    messages_.push_back(last);
    throw;
  }
}

bool Conversation::can_regenerate() const {
  return messages_.size() > 1 && messages_.back().role == "assistant" &&
         !is_system(messages_[messages_.size() - 2]);
}

Conversation::Turn Conversation::answer(ToolChoice choice, const Requirements& wishes) {
  Turn turn;
  ChatOpening opening = open(choice);
  PromptWithMedia rendered = place(opening);
  const bool reads_source = completer_.model().info().reads_source;
  // Leaves room for the response.
  const int n_cells = completer_.context().cache().cells_total();
  const auto limit = to_size(n_cells - std::min(256, n_cells / 4));
  // An encoder input contains only the last question, so dropping older ones does not shorten it.
  while (!reads_source && rendered.tokens.size() > limit) {
    const std::size_t n_before = messages_.size();
    if (!forget_oldest()) break;
    turn.n_forgotten += static_cast<int>(n_before - messages_.size());
    opening = open(choice);
    rendered = place(opening);
  }
  RequestParams request{.parts = std::move(rendered.parts),
                        .sampler = sampling_,
                        .n_predict = wishes.n_predict,
                        .special = true,  // Formats are written with control tokens.
                        .stop = opening.stop,
                        .snapshot_at = token_counts(completer_.model().tokenizer(), opening.prompt,
                                                    opening.divergences, rendered.tokens)};
  request.sampler.seed += turns_++;
  if (opening.grammar) {
    if (!compiler_) compiler_.emplace(completer_.model().tokenizer());
    request.constraint = [compiled = compile(*compiler_, *opening.grammar)](int) {
      return compiled->constraint();
    };
  }
  if (opening.reasoning_limit)
    request.constraint =
        opening.reasoning_limit->constraint(completer_.model().tokenizer(), std::move(request.constraint));
  const auto tell = [&](const std::vector<ResponseEvent>& events) {
    for (const ResponseEvent& event : events) {
      turn.answer.add(event);
      if (wishes.on_event) wishes.on_event(event);
    }
  };
  turn.completion =
      completer_.complete(rendered.tokens, std::move(request),
                          {.on_text = [&](std::string_view text) { tell(opening.reader.push(text)); },
                           .goes_on = wishes.goes_on});
  const StopReason stop = turn.completion.stop;
  const bool was_cut = stop != StopReason::kEnd && stop != StopReason::kStopString;
  tell(opening.reader.finish(was_cut));
  // Calls of a stopped response may be incomplete.
  turn.cut_call = turn.answer.is_calling || (was_cut && !turn.answer.calls.empty());
  if (turn.cut_call) turn.answer.calls.clear();
  keep(turn);
  return turn;
}

void Conversation::keep(Turn& turn) {
  ChatResponse& answer = turn.answer;
  std::size_t n_calls = 0;
  for (const Message& message : messages_) n_calls += message.calls.size();
  for (ChatResponse::Call& call : answer.calls)
    if (call.id.empty()) call.id = fmt::format("call_{}", n_calls++);
  if (!answer.content.empty() || !answer.reasoning.empty() || !answer.calls.empty())
    messages_.push_back({.role = "assistant",
                         .content = answer.content,
                         .reasoning = answer.reasoning,
                         .calls = answer.calls});
}

ChatOpening Conversation::open(ToolChoice choice) const {
  Json messages = Json::array();
  for (const Message& message : messages_) {
    std::string content = message.content;
    for ([[maybe_unused]] const auto& one : message.media) content.insert(0, media_mark_);
    messages.push_back(to_json(message, std::move(content)));
  }
  ChatTurn turn{.messages_json = to_text(messages),
                .tools_json = tools_,
                .tool_choice = tools_.empty() ? ToolChoice::kAuto : choice,
                // A small model that must call may find no end.
                .parallel_tool_calls = choice != ToolChoice::kRequired,
                .reasoning = params_.defaults.reasoning,
                .reasoning_budget = params_.defaults.reasoning_budget,
                .reasoning_budget_message = params_.defaults.reasoning_budget_message,
                .variables_json = params_.defaults.variables_json,
                .find_divergences = !completer_.context().cache().cuts_anywhere(),
                .content_grammar = params_.grammar};
  return chat_.open(turn);
}

PromptWithMedia Conversation::place(const ChatOpening& opening) const {
  std::vector<std::shared_ptr<const EncodedMedia>> media;
  for (const Message& message : messages_)
    for (const MediaFile& file : message.media) media.push_back(file.encoded);
  PromptWithMedia prompt = place_media(completer_.model().tokenizer(), opening.prompt, media, media_mark_);
  if (prompt.tokens.empty()) throw Error(ErrorCode::kInvalidArgument, "the chat template renders to nothing");
  return prompt;
}

bool Conversation::forget_oldest() {
  // Drops the oldest question with its responses; the last question stays.
  const auto first = std::find_if_not(messages_.begin(), messages_.end(), is_system);
  if (first == messages_.end()) return false;
  const auto next = std::find_if(first + 1, messages_.end(), is_user);
  if (next == messages_.end()) return false;
  messages_.erase(first, next);
  return true;
}

void Conversation::clear() {
  std::erase_if(messages_, [](const Message& message) { return !is_system(message); });
}

void Conversation::set_system(std::string system) {
  std::erase_if(messages_, is_system);
  if (!system.empty()) messages_.insert(messages_.begin(), {.role = "system", .content = std::move(system)});
}

std::size_t Conversation::set_tools(const std::string& tools_json) {
  if (!tools_json.empty())
    (void)chat_.open({.messages_json = R"([{"role": "user", "content": "?"}])",
                      .tools_json = tools_json,
                      .variables_json = params_.defaults.variables_json});
  tools_ = tools_json;
  return tools_.empty() ? 0 : parse_json(tools_).size();
}

}  // namespace weft::cli
