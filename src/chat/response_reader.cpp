#include <utility>

#include "chat/reader_state.h"

namespace weft {

ResponseReader::ResponseReader() = default;
ResponseReader::~ResponseReader() = default;
ResponseReader::ResponseReader(ResponseReader&&) noexcept = default;
ResponseReader& ResponseReader::operator=(ResponseReader&&) noexcept = default;
ResponseReader::ResponseReader(const ResponseReader& other)
    : state_(other.state_ ? std::make_unique<State>(*other.state_) : nullptr) {}
ResponseReader& ResponseReader::operator=(const ResponseReader& other) {
  if (this != &other) state_ = other.state_ ? std::make_unique<State>(*other.state_) : nullptr;
  return *this;
}

std::vector<ResponseEvent> ResponseReader::push(std::string_view text) {
  if (state_) return state_->answer.read(text, false);
  if (text.empty()) return {};
  return {{ResponseEvent::Kind::kContent, std::string(text)}};
}

std::vector<ResponseEvent> ResponseReader::finish(bool was_cut) {
  if (!state_) return {};
  std::vector<ResponseEvent> events = state_->answer.read({}, true);
  if (was_cut)
    std::erase_if(events, [](const ResponseEvent& e) { return e.kind == ResponseEvent::Kind::kContent; });
  return events;
}

int ResponseReader::n_calls() const { return state_ ? state_->answer.n_calls() : 0; }

void ChatResponse::add(const ResponseEvent& event) {
  switch (event.kind) {
    case ResponseEvent::Kind::kContent:
      content += event.text;
      break;
    case ResponseEvent::Kind::kReasoning:
      reasoning += event.text;
      break;
    case ResponseEvent::Kind::kToolCall:
      calls.push_back({event.id, event.name, ""});
      is_calling = true;
      break;
    case ResponseEvent::Kind::kToolArguments:
      calls.back().arguments += event.text;
      break;
    case ResponseEvent::Kind::kToolCallEnd:
      is_calling = false;
      break;
  }
}

}  // namespace weft
