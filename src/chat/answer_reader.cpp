#include <utility>

#include "chat/answer_state.h"

namespace weft {

AnswerReader::AnswerReader() = default;
AnswerReader::~AnswerReader() = default;
AnswerReader::AnswerReader(AnswerReader&&) noexcept = default;
AnswerReader& AnswerReader::operator=(AnswerReader&&) noexcept = default;
AnswerReader::AnswerReader(const AnswerReader& other)
    : state_(other.state_ ? std::make_unique<State>(*other.state_) : nullptr) {}
AnswerReader& AnswerReader::operator=(const AnswerReader& other) {
  if (this != &other) state_ = other.state_ ? std::make_unique<State>(*other.state_) : nullptr;
  return *this;
}

std::vector<AnswerEvent> AnswerReader::push(std::string_view text) {
  if (state_) return state_->answer.read(text, false);
  if (text.empty()) return {};
  return {{AnswerEvent::Kind::kContent, std::string(text)}};
}

std::vector<AnswerEvent> AnswerReader::finish(bool was_cut) {
  if (!state_) return {};
  std::vector<AnswerEvent> events = state_->answer.read({}, true);
  if (was_cut)
    std::erase_if(events, [](const AnswerEvent& e) { return e.kind == AnswerEvent::Kind::kContent; });
  return events;
}

int AnswerReader::n_calls() const { return state_ ? state_->answer.n_calls() : 0; }

void ChatAnswer::add(const AnswerEvent& event) {
  switch (event.kind) {
    case AnswerEvent::Kind::kContent:
      content += event.text;
      break;
    case AnswerEvent::Kind::kReasoning:
      reasoning += event.text;
      break;
    case AnswerEvent::Kind::kToolCall:
      calls.push_back({event.id, event.name, ""});
      is_calling = true;
      break;
    case AnswerEvent::Kind::kToolArguments:
      calls.back().arguments += event.text;
      break;
    case AnswerEvent::Kind::kToolCallEnd:
      is_calling = false;
      break;
  }
}

}  // namespace weft
