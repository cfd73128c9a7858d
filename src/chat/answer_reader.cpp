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

std::vector<AnswerEvent> AnswerReader::finish() {
  if (!state_) return {};
  return state_->answer.read({}, true);
}

int AnswerReader::n_calls() const { return state_ ? state_->answer.n_calls() : 0; }

}  // namespace weft
