#include "conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr SeqId kSequence = 0;

std::size_t common_prefix(const std::vector<Token>& a, const std::vector<Token>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

Conversation::Conversation(Context& context, const ChatTemplate& chat_template, std::string variables,
                           const SamplerParams& sampling, std::string system)
    : context_(&context), template_(&chat_template), sampling_(sampling) {
  template_options_.variables_json = std::move(variables);
  // One seed for the whole conversation; each answer draws from it plus its number.
  sampling_.seed = Sampler(sampling_, context.model().info().n_vocab).seed();
  set_system(std::move(system));
}

Conversation::Turn Conversation::ask(const std::string& text, Media media, const GenerateParams& params) {
  messages_.push_back({{"user", text}, std::move(media)});
  try {
    Turn turn = answer(params);
    if (messages_.back().role == "user") messages_.pop_back();
    return turn;
  } catch (...) {
    messages_.pop_back();
    throw;
  }
}

Conversation::Turn Conversation::regenerate(const GenerateParams& params) {
  const Message last = messages_.back();
  messages_.pop_back();
  try {
    Turn turn = answer(params);
    if (messages_.back().role == "user") messages_.push_back(last);
    return turn;
  } catch (...) {
    messages_.push_back(last);
    throw;
  }
}

bool Conversation::can_regenerate() const {
  return !messages_.empty() && messages_.back().role == "assistant";
}

Conversation::Turn Conversation::answer(const GenerateParams& params) {
  Turn turn;
  PromptWithMedia rendered = render();
  // An answer needs room, too.
  const auto limit =
      static_cast<std::size_t>(context_->cells_total() - std::min(256, context_->cells_total() / 4));
  while (rendered.tokens.size() > limit && forget_oldest()) {
    turn.n_forgotten += 2;
    rendered = render();
  }
  std::vector<Token>& prompt = rendered.tokens;

  // The last token is always computed: its logits are wanted.
  std::size_t reused = std::min(common_prefix(cached_, prompt), prompt.size() - 1);
  // A picture or a sound is used again as a whole.
  for (const EmbeddedPart& part : rendered.parts) {
    const auto first = static_cast<std::size_t>(part.first);
    if (first < reused && reused < first + static_cast<std::size_t>(part.n)) reused = first;
  }
  // A running state cannot go back a few tokens, nor a window beyond what is kept of it.
  if (!context_->can_cut(kSequence, static_cast<Pos>(reused))) reused = 0;
  GenerateParams of_rest = params;
  for (EmbeddedPart& part : rendered.parts) {
    part.first -= static_cast<int>(reused);
    if (part.first >= 0) {
      of_rest.parts.push_back(std::move(part));
    } else {
      of_rest.n_skipped += part.n - part.extent();
    }
  }
  context_->remove(kSequence, static_cast<Pos>(reused));
  cached_.resize(reused);
  turn.n_reused = static_cast<int>(reused);

  SamplerParams sampling = sampling_;
  sampling.seed += turns_++;
  Sampler sampler(sampling, context_->model().info().n_vocab);
  for (const Token id : cached_)
    if (id >= 0) sampler.accept(id);  // Others are pictures and sounds.

  const std::span<const Token> rest = std::span(prompt).subspan(reused);
  try {
    turn.generation = generate(*context_, sampler, rest, of_rest, kSequence);
  } catch (...) {
    context_->remove(kSequence);
    cached_.clear();
    throw;
  }
  cached_ = std::move(prompt);
  cached_.insert(cached_.end(), turn.generation.tokens.begin(), turn.generation.tokens.end());
  // A last token that was not computed, or a cancelled prompt: the context knows what it has.
  cached_.resize(std::min(cached_.size(), static_cast<std::size_t>(context_->next_pos(kSequence))));
  if (!turn.generation.text.empty()) messages_.push_back({{"assistant", turn.generation.text}});
  return turn;
}

PromptWithMedia Conversation::render() const {
  std::vector<ChatMessage> messages;
  Media media;
  for (const Message& message : messages_) {
    messages.push_back(message);
    std::string& content = messages.back().content;
    for ([[maybe_unused]] const auto& one : message.media) content.insert(0, media_mark_);
    media.insert(media.end(), message.media.begin(), message.media.end());
  }
  PromptWithMedia prompt = place_media(context_->model().tokenizer(),
                                       template_->render(messages, template_options_), media, media_mark_);
  if (prompt.tokens.empty()) throw Error(ErrorCode::kInvalidArgument, "the chat template renders to nothing");
  return prompt;
}

bool Conversation::forget_oldest() {
  const std::size_t first = !messages_.empty() && messages_.front().role == "system" ? 1 : 0;
  // A question and its answer go together; the last question stays.
  if (messages_.size() < first + 3) return false;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                  messages_.begin() + static_cast<std::ptrdiff_t>(first + 2));
  return true;
}

void Conversation::set_messages(const std::vector<ChatMessage>& messages) {
  messages_.clear();
  for (const ChatMessage& message : messages) messages_.push_back({message});
}

void Conversation::clear() {
  std::erase_if(messages_, [](const ChatMessage& message) { return message.role != "system"; });
}

void Conversation::set_system(std::string system) {
  std::erase_if(messages_, [](const ChatMessage& message) { return message.role == "system"; });
  if (!system.empty()) messages_.insert(messages_.begin(), Message{{"system", std::move(system)}});
}

}  // namespace weft::cli
