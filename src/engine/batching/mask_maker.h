#pragma once
// Masks of allowed tokens for streams with a constraint and for streams that must not end yet. A thread makes
// them while the step computes.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/to_size.h"
#include "engine/batching/stream.h"

namespace weft::engine {

class MaskMaker {
 public:
  explicit MaskMaker(int n_vocab) : n_vocab_(n_vocab), n_words_((to_size(n_vocab) + 31) / 32) {}
  ~MaskMaker();
  MaskMaker(const MaskMaker&) = delete;
  MaskMaker& operator=(const MaskMaker&) = delete;

  /// Starts a step without masks.
  void clear() { jobs_.clear(); }
  /// Requests masks for the stream: for the token after its last one and for the token after each node of its
  /// draft. The draft must not change until wait().
  void add(const Stream& stream);
  /// Starts making the requested masks. Does nothing if none was requested.
  void start();
  /// Waits until they are made.
  void wait();
  /// The mask of the token after a node (or DraftTree::kRoot) of the stream's draft. Empty: all tokens are
  /// allowed. Throws what the constraint threw.
  std::span<const std::uint32_t> mask(const Stream& stream, int node) const;

 private:
  struct Job {
    const Stream* stream;
    std::size_t first;  // Index of its first mask: the root's; the nodes' follow.
    std::exception_ptr error;
    int failed_at = 0;  // The node whose mask could not be made.
  };
  void run();
  void make_all() noexcept;
  void make(const Stream& stream, std::span<std::uint32_t> mask);

  const int n_vocab_;
  const std::size_t n_words_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> masks_;
  std::size_t n_masks_ = 0;
  std::vector<Token> path_;
  std::vector<Token> behind_;  // Held tokens and the path.

  std::thread thread_;  // Started by the first request. If that fails, start() makes the masks.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool ending_ = false;
};

}  // namespace weft::engine
