#include "conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "constraint_options.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr SeqId kSequence = 0;

std::size_t common_prefix(const std::vector<Token>& a, const std::vector<Token>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// The prompt's tokens, with the ids of images and audio as negative tokens.
std::vector<Token> keys_of(const PromptWithMedia& prompt) {
  std::vector<Token> keys = prompt.tokens;
  for (const EmbeddedPart& part : prompt.parts)
    std::fill_n(keys.begin() + part.first, part.n, kMediaToken - part.id);
  return keys;
}

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

Conversation::Conversation(Context& context, Chat chat, const SamplerParams& sampling, Params params)
    : context_(&context), chat_(std::move(chat)), sampling_(sampling), params_(std::move(params)) {
  // One seed for the whole conversation; each response adds its number to it.
  sampling_.seed = Sampler(sampling_, context.model().tokenizer()).seed();
  set_system(params_.system);
}

Conversation::Turn Conversation::ask(const std::string& text, Media media, const Wishes& wishes) {
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
                                       const Wishes& wishes) {
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

Conversation::Turn Conversation::regenerate(const Wishes& wishes) {
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

Conversation::Turn Conversation::answer(ToolChoice choice, const Wishes& wishes) {
  Turn turn;
  ChatOpening opening = open(choice);
  PromptWithMedia rendered = place(opening);
  const bool reads_source = context_->model().info().reads_source;
  // Leaves room for the response.
  const auto limit = static_cast<std::size_t>(context_->cache().cells_total() -
                                              std::min(256, context_->cache().cells_total() / 4));
  // An encoder input contains only the last question, so dropping older ones does not shorten it.
  while (!reads_source && rendered.tokens.size() > limit) {
    const std::size_t n_before = messages_.size();
    if (!forget_oldest()) break;
    turn.n_forgotten += static_cast<int>(n_before - messages_.size());
    opening = open(choice);
    rendered = place(opening);
  }
  const std::vector<Token>& prompt = rendered.tokens;

  // The last token is always computed: its logits are wanted.
  std::vector<Token> keys = keys_of(rendered);
  std::size_t reused = std::min(common_prefix(cached_, keys), prompt.size() - 1);
  // An image or audio clip is reused as a whole.
  for (const EmbeddedPart& part : rendered.parts) {
    const auto first = static_cast<std::size_t>(part.first);
    if (first < reused && reused < first + static_cast<std::size_t>(part.n)) reused = first;
  }
  // A recurrent state cannot go back a few tokens, and a sliding window only within the cells it keeps.
  if (!context_->cache().can_cut(kSequence, static_cast<Pos>(reused)) || reads_source) reused = 0;
  GenerateParams of_rest = wishes.generate;
  for (EmbeddedPart& part : rendered.parts) {
    part.first -= static_cast<int>(reused);
    if (part.first >= 0) {
      of_rest.parts.push_back(std::move(part));
    } else {
      of_rest.n_skipped += part.n - part.extent();
    }
  }
  std::unique_ptr<TokenConstraint> constraint;
  if (opening.grammar) {
    if (!compiler_) compiler_.emplace(context_->model().tokenizer());
    constraint = compile(*compiler_, *opening.grammar)->constraint();
  }
  of_rest.constraint = constraint.get();
  of_rest.special = true;  // Formats are written with control tokens.
  of_rest.stop.insert(of_rest.stop.end(), opening.stop.begin(), opening.stop.end());
  const auto tell = [&](const std::vector<ResponseEvent>& events) {
    bool goes_on = true;
    for (const ResponseEvent& event : events) {
      turn.answer.add(event);
      if (wishes.on_event) goes_on = wishes.on_event(event) && goes_on;
    }
    return goes_on;
  };
  of_rest.on_text = [&](std::string_view text) { return tell(opening.reader.push(text)); };

  context_->cache().remove(kSequence, static_cast<Pos>(reused));
  cached_.resize(reused);
  turn.n_reused = static_cast<int>(reused);

  SamplerParams sampling = sampling_;
  sampling.seed += turns_++;
  Sampler sampler(sampling, context_->model().tokenizer());
  for (const Token id : cached_)
    if (id >= 0) sampler.accept(id);  // Negative ids are images and audio.

  const std::span<const Token> rest = std::span(prompt).subspan(reused);
  try {
    turn.generation = generate(*context_, sampler, rest, of_rest, kSequence);
  } catch (...) {
    context_->cache().remove(kSequence);
    cached_.clear();
    throw;
  }
  cached_ = std::move(keys);
  cached_.insert(cached_.end(), turn.generation.tokens.begin(), turn.generation.tokens.end());
  // The last token may not be computed, and a prompt may be cancelled: the context has the count.
  cached_.resize(std::min(cached_.size(), static_cast<std::size_t>(context_->cache().next_pos(kSequence))));
  if (reads_source) cached_.clear();
  const StopReason stop = turn.generation.stop;
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
                .variables_json = params_.defaults.variables_json,
                .content_grammar = params_.grammar};
  return chat_.open(turn);
}

PromptWithMedia Conversation::place(const ChatOpening& opening) const {
  std::vector<std::shared_ptr<const EncodedMedia>> media;
  for (const Message& message : messages_)
    for (const MediaFile& file : message.media) media.push_back(file.encoded);
  PromptWithMedia prompt = place_media(context_->model().tokenizer(), opening.prompt, media, media_mark_);
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
  return tools_.empty() ? 0 : Json::parse(tools_).size();
}

}  // namespace weft::cli
