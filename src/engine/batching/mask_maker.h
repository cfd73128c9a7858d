#pragma once
// Masks of allowed tokens for streams with a constraint, or that must not end yet, made by a thread of their
// own while the step computes.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/batching/stream.h"

namespace weft::engine {

class MaskMaker {
 public:
  explicit MaskMaker(int n_vocab)
      : n_vocab_(n_vocab), n_words_((static_cast<std::size_t>(n_vocab) + 31) / 32) {}
  ~MaskMaker();
  MaskMaker(const MaskMaker&) = delete;
  MaskMaker& operator=(const MaskMaker&) = delete;

  /// A new step, without masks.
  void clear() { jobs_.clear(); }
  /// The step wants masks of the stream: behind its text and behind each node of its draft. Its draft stays
  /// as it is until wait().
  void add(const Stream& stream);
  /// Begins to make them. Where no stream needs any nothing happens.
  void start();
  /// Returns when they are made.
  void wait();
  /// The mask behind a node (or DraftTree::kRoot) of the stream's draft; empty: all tokens are allowed.
  /// Throws what the constraint threw.
  std::span<const std::uint32_t> mask(const Stream& stream, int node) const;

 private:
  struct Job {
    const Stream* stream;
    std::size_t first;  // Of its masks: the root's, then the nodes'.
    std::exception_ptr error;
    int failed_at = 0;  // The node whose mask could not be made.
  };
  void run();
  void make_all() noexcept;
  void make(const Stream& stream, std::span<std::uint32_t> mask) const;

  const int n_vocab_;
  const std::size_t n_words_;
  std::vector<Job> jobs_;
  std::vector<std::uint32_t> masks_;
  std::size_t n_masks_ = 0;
  std::vector<Token> path_;

  std::thread thread_;  // Made when there is something to do first; without it the masks are made by start().
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool ending_ = false;
};

}  // namespace weft::engine
