// Responses: the output of a request, taken by any thread.
#include <algorithm>
#include <new>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/response_state.h"

namespace weft::engine {

void Wakeup::call() {
  {
    const std::lock_guard lock(mutex);
    attention = true;
  }
  changed.notify_all();
}

void Waker::call() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (wake_) wake_();
  } catch (...) {
  }
}

// --- The response's side

ResponseState::ResponseState(int n, int n_unread, std::shared_ptr<Wakeup> service)
    : n_unread_(n_unread), service_(std::move(service)), parts_(to_size(n)) {
  for (int i = 0; i < n; ++i) parts_[to_size(i)].unread.completion = i;
  news_.reserve(parts_.size());
}

void ResponseState::set_id(RequestId id) {
  id_ = id;
  for (Part& part : parts_) part.unread.request = id;
}

Response::Poll ResponseState::poll(Output& output, std::chrono::milliseconds at_most) {
  {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return has_news(); };
    if (at_most > kForever) {
      changed_.wait(lock, ready);
    } else if (at_most.count() > 0) {
      changed_.wait_for(lock, at_most, ready);
    }
    if (!take(output)) return at_end() ? Response::Poll::kEnd : Response::Poll::kNothingYet;
    if (!is_full(output)) return Response::Poll::kOutput;
    has_room_again_ = true;
  }
  service_->call();
  return Response::Poll::kOutput;
}

void ResponseState::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (at_end() || std::exchange(wants_cancel_, true)) return;
  }
  service_->call();
}

void ResponseState::on_ready(std::function<void()> wake) {
  waker_.set(std::move(wake), [&] {  // Later output calls `wake`.
    const std::lock_guard lock(mutex_);
    return has_news();
  });
}

bool ResponseState::take(Output& output) {
  if (news_.empty()) return false;
  Part& part = parts_[to_size(news_.front())];
  news_.erase(news_.begin());
  part.is_news = false;
  part.taken_to_end = part.unread.done;
  n_taken_to_end_ += part.taken_to_end ? 1 : 0;
  output = std::exchange(part.unread, Output{.request = id_, .completion = part.unread.completion});
  return true;
}

bool ResponseState::is_full(const Output& output) const {
  return static_cast<int>(output.tokens.size() + output.prompt.size()) >= n_unread_ && !output.done;
}

// --- The service's side

bool ResponseState::add(const Output& output) {
  bool wants_more = true;
  {
    const std::lock_guard lock(mutex_);
    Part& part = parts_[to_size(output.completion)];
    Output& unread = part.unread;
    if (!part.lost && !append(unread, output)) {
      part.lost = true;
      if (!output.done && parts_.size() == 1) return false;  // The request's other completions continue.
    }
    if (output.done) {
      unread.done = true;
      unread.stop = part.lost ? StopReason::kError : output.stop;
      unread.stop_string = part.lost ? -1 : output.stop_string;
      unread.stats = output.stats;
      part.is_held = true;
      part.is_news = false;
      std::erase(news_, output.completion);
      return true;
    }
    note(part);
    wants_more = !wants_cancel_;
  }
  tell();
  return wants_more;
}

bool ResponseState::append(Output& unread, const Output& output) {
  try {
    unread.text += output.text;
    unread.tokens.insert(unread.tokens.end(), output.tokens.begin(), output.tokens.end());
    unread.prompt.insert(unread.prompt.end(), output.prompt.begin(), output.prompt.end());
    unread.embedding.assign(output.embedding.begin(), output.embedding.end());
    unread.error = output.error;
    unread.not_numbers = output.not_numbers;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void ResponseState::pause_if_full(int completion, Batcher& batcher) {
  const std::lock_guard lock(mutex_);
  Part& part = parts_[to_size(completion)];
  if (part.paused || !is_full(part.unread)) return;
  part.paused = true;
  batcher.pause(in_batcher_, completion);
}

void ResponseState::show_ends() {
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (Part& part : parts_) {
      if (!std::exchange(part.is_held, false)) continue;
      note(part);
      any = true;
    }
  }
  if (any) tell();
}

void ResponseState::end_all(StopReason stop, std::string_view why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (Part& part : parts_) {
      part.unread.done = true;
      part.unread.stop = stop;
      try {
        part.unread.error = why;
      } catch (const std::bad_alloc&) {  // The message is lost, not the error.
      }
      note(part);
    }
  }
  tell();
}

void ResponseState::handle_flags(Batcher& batcher) {
  const std::lock_guard lock(mutex_);
  if (wants_cancel_) batcher.cancel(in_batcher_);
  if (!std::exchange(has_room_again_, false)) return;
  for (Part& part : parts_) {
    if (!part.paused || is_full(part.unread)) continue;
    part.paused = false;
    batcher.resume(in_batcher_, part.unread.completion);
  }
}

bool ResponseState::is_over() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.unread.done || part.taken_to_end; });
}

void ResponseState::note(Part& part) {
  if (std::exchange(part.is_news, true)) return;
  news_.push_back(part.unread.completion);
}

void ResponseState::tell() {
  changed_.notify_all();
  waker_.call();
}

}  // namespace weft::engine

namespace weft {

Response::Response() = default;
Response::Response(std::shared_ptr<State> state) : state_(std::move(state)) {}
Response::Response(Response&&) noexcept = default;
Response& Response::operator=(Response&& other) noexcept {
  if (this == &other) return *this;
  const Response gone(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
Response::~Response() {
  if (!state_) return;
  on_ready(nullptr);
  cancel();
}

RequestId Response::id() const { return state_ ? state_->id() : 0; }
Response::Poll Response::poll(Output& output, std::chrono::milliseconds at_most) {
  return state_ ? state_->poll(output, at_most) : Poll::kEnd;
}
bool Response::next(Output& output) {
  return poll(output, std::chrono::milliseconds::max()) == Poll::kOutput;
}
void Response::cancel() {
  if (state_) state_->cancel();
}
void Response::on_ready(std::function<void()> wake) {
  if (state_) state_->on_ready(std::move(wake));
}

}  // namespace weft
