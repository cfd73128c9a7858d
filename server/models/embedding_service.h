#pragma once
// An embedder on a thread of its own, for requests of any threads. Each step takes inputs of all waiting
// requests: a long request delays no short one, and many short ones share steps.
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
  bool scores = false;           ///< Instead of vectors.
  Pooling pooling = Pooling::kMean;
  bool is_background = false;  ///< Computed in steps without other requests.
  /// Asked between steps. True if no client waits for the result: the request ends with Error kCancelled.
  std::function<bool()> is_abandoned;
  /// Called once, on the service's thread, with the result of Embedder::embed or score for `texts`, or an
  /// error.
  std::function<void(std::vector<float>, std::exception_ptr)> done;
};

/// All members may be called from any thread but the service's own.
class EmbeddingService {
 public:
  /// `n_waiting`: requests that may wait, at most; 0: no limit. `devices_lost` as ServiceParams has it.
  EmbeddingService(Embedder embedder, int n_waiting, std::function<bool()> devices_lost = nullptr);
  /// As shutdown().
  ~EmbeddingService();
  EmbeddingService(const EmbeddingService&) = delete;
  EmbeddingService& operator=(const EmbeddingService&) = delete;

  int max_tokens() const { return max_tokens_; }
  int dimensions() const { return dimensions_; }
  int n_scores() const { return n_scores_; }

  /// Throws OverloadedError, or, once the service has stopped, the error that waiting requests got then.
  void submit(EmbeddingRequest request);
  /// For lost devices or weights. Destroys the embedder, then calls `make` for another one of the same model,
  /// and requests continue there. If `make` throws, waiting requests get its error, the service stops, and
  /// the error is thrown here as well.
  void renew(const std::function<Embedder()>& make);
  /// Waits until all requests have ended, at most this long.
  void drain(std::chrono::milliseconds at_most);
  /// Stops the service. Waiting requests get Error kUnavailable.
  void shutdown();

 private:
  struct Waiting {
    EmbeddingRequest request;
    std::size_t n_read = 0;  // Inputs that are computed ...
    std::size_t n_next = 0;  // ... and inputs of this step.
    std::vector<float> values;
    std::exception_ptr error;  // Ends this request, but no others of its step.
  };
  using Requests = std::list<Waiting>;  // Moved between lists without allocations.

  /// With the lock: the request waits after all others, except those in the background if it is none.
  void put_back(Requests& from, Requests::iterator one) noexcept;
  void work();
  /// The work between steps cannot fail. An exception of a step ends the requests in it, and no others.
  Requests next_step() noexcept;
  void compute(Requests& step);
  /// Each request in a step of its own. Requests whose values are not numbers get their error.
  void compute_alone(Requests& step);
  void end_step(const std::exception_ptr& error, Requests step) noexcept;

  Embedder embedder_;  // Used by the thread, within a step.
  const int max_tokens_, dimensions_, n_scores_;
  const int n_waiting_most_;
  const std::function<bool()> devices_lost_;
  const std::exception_ptr cancelled_;  // Made at the start, like the next one.
  std::exception_ptr why_stopped_;      // The error of requests that come too late.
  std::mutex mutex_;
  std::condition_variable changed_;
  Requests waiting_;
  std::size_t n_in_step_ = 0;
  bool lost_ = false;  // It waits for renew(), or is being renewed: no step begins.
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace weft::server
