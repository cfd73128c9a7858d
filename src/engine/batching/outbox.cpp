#include "engine/batching/outbox.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace weft::engine {

void Outbox::reserve(std::size_t n_streams) {
  for (std::vector<StreamPtr>* box : {&streams_, &taken_})
    if (box->capacity() < n_streams) box->reserve(2 * n_streams);
}

void Outbox::add(const StreamPtr& stream) {
  if (stream->in_outbox() || !stream->has_output()) return;
  stream->set_in_outbox(true);
  streams_.push_back(stream);
}

void Outbox::deliver(RequestId last, const std::function<void(const Stream&)>& ended,
                     const std::function<void(const Stream&)>& refused) {
  std::exception_ptr thrown;
  delivering_ = true;
  const auto is_next = [&] {
    return std::any_of(streams_.begin(), streams_.end(),
                       [&](const StreamPtr& stream) { return stream->request().id <= last; });
  };
  while (is_next()) {
    std::swap(streams_, taken_);
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const StreamPtr stream = taken_[i];  // A copy: a receiver that submits may reallocate `taken_`.
      stream->set_in_outbox(false);
      if (!stream->has_output()) continue;
      if (stream->request().id > last) {
        add(stream);
        continue;
      }
      const bool is_end = stream->done();
      if (is_end) ended(*stream);
      bool wants_more = false;
      try {
        wants_more = stream->deliver();
      } catch (...) {
        if (!thrown) thrown = std::current_exception();
      }
      if (!wants_more && !is_end) refused(*stream);
    }
    taken_.clear();
  }
  delivering_ = false;
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace weft::engine
