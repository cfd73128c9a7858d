#pragma once
// Who waits in a batcher, and who is let in: in the order of their rank, as far as there are sequences and
// cells for them. One whose beginning another one is just computing waits for it.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/batching/prefix_cache.h"
#include "engine/batching/stream.h"

namespace weft::engine {

class Admission {
 public:
  using StreamPtr = std::shared_ptr<Stream>;

  /// At most `n_running` streams run at the same time. The others must outlive it.
  Admission(Context& context, PrefixCache& cache, int n_running)
      : context_(context), cache_(cache), n_running_(n_running) {}

  void wait(const StreamPtr& stream) { waiting_.emplace(stream->key(), stream); }
  /// Those for which `gone(stream)` is true wait no longer.
  template <typename F>
  void erase_if(F&& gone) {
    std::erase_if(waiting_, [&](const auto& entry) { return gone(entry.second); });
  }
  std::size_t n_waiting() const { return waiting_.size(); }

  /// Moves to `running` who can go on now; each has a sequence then. Says of all that run where their next
  /// step has to pause, because others want to begin like that.
  void admit(std::vector<StreamPtr>& running);

 private:
  bool should_wait(const Stream& stream, int n_cached, const std::vector<StreamPtr>& running) const;
  bool take_up(Stream& stream);

  Context& context_;
  PrefixCache& cache_;
  const int n_running_;
  std::map<std::pair<std::int64_t, std::int64_t>, StreamPtr> waiting_;  // By who goes first.
};

}  // namespace weft::engine
