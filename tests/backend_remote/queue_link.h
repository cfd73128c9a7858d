#pragma once
// Two ends of a way between two threads.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "backend/remote/link.h"
#include "weft/error.h"

namespace weft::test {

class QueueLink final : public remote::Link {
 public:
  struct Way {
    std::mutex mutex;
    std::condition_variable news;
    std::deque<remote::Message> messages;
    std::size_t n_bytes = 0;
    bool broken = false;  ///< Messages are lost, with an error.
    bool silent = false;  ///< Messages are lost without an error.
  };
  QueueLink(std::shared_ptr<Way> out, std::shared_ptr<Way> in) : out_(std::move(out)), in_(std::move(in)) {}

  void send(remote::Message message) override {
    const std::scoped_lock lock(out_->mutex);
    if (out_->broken) throw Error(ErrorCode::kDevice, "the line is cut");
    if (out_->silent) return;
    out_->n_bytes += message.size();
    out_->messages.push_back(std::move(message));
    out_->news.notify_all();
  }
  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    std::unique_lock lock(in_->mutex);
    in_->news.wait_until(lock, deadline, [&] { return in_->broken || !in_->messages.empty(); });
    if (in_->broken) throw Error(ErrorCode::kDevice, "the line is cut");
    if (in_->messages.empty()) return std::nullopt;
    remote::Message message = std::move(in_->messages.front());
    in_->messages.pop_front();
    return message;
  }

  void give_up() noexcept override {
    for (const auto& way : {out_, in_}) {
      const std::scoped_lock lock(way->mutex);
      way->broken = true;
      way->news.notify_all();
    }
  }

 private:
  const std::shared_ptr<Way> out_, in_;
};

}  // namespace weft::test
