#pragma once
// An embedder on a thread of its own, for requests of any threads. A step takes texts of all requests that
// wait, so that a long one holds up no short one, and many short ones share steps.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/embedder.h"

namespace weft::server {

struct EmbeddingRequest {
  std::vector<TokenPair> texts;  ///< At least one.
  bool scores = false;           ///< In place of vectors.
  Pooling pooling = Pooling::kMean;
  /// Asked between steps: whether nobody waits for the answer any more. Then it ends with Error kCancelled.
  std::function<bool()> is_abandoned;
  /// Called once, on the service's thread: what Embedder::embed or score gives for the texts, or an error.
  std::function<void(std::vector<float>, std::exception_ptr)> done;
};

/// All members may be called from any thread but the service's own.
class EmbeddingService {
 public:
  /// At most so many requests wait; 0: any number. `devices_lost` as ServiceParams has it.
  EmbeddingService(Embedder embedder, int n_waiting, std::function<bool()> devices_lost = nullptr);
  /// As shutdown().
  ~EmbeddingService();
  EmbeddingService(const EmbeddingService&) = delete;
  EmbeddingService& operator=(const EmbeddingService&) = delete;

  int max_tokens() const { return max_tokens_; }
  int dimensions() const { return dimensions_; }
  int n_scores() const { return n_scores_; }

  /// Throws OverloadedError, and once nothing runs any more what requests were told then.
  void submit(EmbeddingRequest request);
  /// Devices or weights of the embedder are lost: `make` makes another one of the same model, once the old
  /// one is gone; requests go on there. Throws what `make` throws: requests that wait are told that, too, and
  /// nothing runs from then on.
  void renew(const std::function<Embedder()>& make);
  /// Waits until nothing waits, at most so long.
  void drain(std::chrono::milliseconds at_most);
  /// Requests that wait are told Error kUnavailable, and nothing runs from then on.
  void shutdown();

 private:
  struct Waiting {
    EmbeddingRequest request;
    std::size_t n_read = 0;  // Of its texts ...
    std::size_t n_next = 0;  // ... and those of the step.
    std::vector<float> values;
    std::exception_ptr error;  // It ends with this one; others of its step do not.
  };
  using Requests = std::list<Waiting>;  // Moved from one to another without memory.

  void work();
  /// What happens between steps cannot fail: whatever a step throws ends those that are in it, and no others.
  Requests next_step() noexcept;
  void compute(Requests& step);
  /// Each request in a step of its own. Those whose values are not numbers get their error.
  void compute_alone(Requests& step);
  void end_step(const std::exception_ptr& error, Requests step) noexcept;

  Embedder embedder_;  // The thread's, within a step.
  const int max_tokens_, dimensions_, n_scores_;
  const int n_waiting_most_;
  const std::function<bool()> devices_lost_;
  const std::exception_ptr cancelled_;  // Made while there is memory, as is:
  std::exception_ptr why_stopped_;      // What those are told that come too late.
  std::mutex mutex_;
  std::condition_variable changed_;
  Requests waiting_;
  std::size_t n_in_step_ = 0;
  bool lost_ = false;  // It waits for renew(), or is being renewed: no step begins.
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace weft::server
