#pragma once
// Which part of one stream is in the cache: its sequence, its computed tokens and its encoder input.
// PrefixCache changes it when it changes the sequence, and Flights when a batch starts or ends.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/tiers/prefix_tiers.h"
#include "weft/types.h"

namespace weft::engine {

class CacheState {
 public:
  // --- The sequence

  /// -1 while the stream waits.
  SeqId seq() const { return seq_; }
  bool has_sequence() const { return seq_ >= 0; }
  void take_sequence(SeqId seq) { seq_ = seq; }
  /// Returns the sequence, which the stream has no longer.
  SeqId give_up_sequence() { return std::exchange(seq_, -1); }

  // --- Tokens

  /// The number of the stream's tokens in the cache, from the first one on.
  int n_computed() const { return n_computed_; }
  /// The most tokens that were computed so far. Tokens before this one are recomputed.
  int n_reached() const { return std::max(n_computed_, n_reached_); }
  /// The sequence begins with the first `n` tokens.
  void begin_with(int n) { n_computed_ = n; }
  /// The next `n` tokens are computed. Returns how many of them were computed before.
  int add_computed(int n) {
    const int n_again = std::clamp(n_reached_ - n_computed_, 0, n);
    n_computed_ += n;
    n_reached_ = std::max(n_reached_, n_computed_);
    return n_again;
  }
  /// The tokens after the first `n` were dropped, from the stream as well.
  void cut(int n) {
    n_computed_ = n;
    n_reached_ = std::min(n_reached_, n);
  }
  /// The cells are lost: all tokens are to be computed again.
  void lose_tokens() { n_computed_ = 0; }

  // --- Context shift

  /// A context shift has dropped tokens, so the cells cannot be computed again.
  bool shifted() const { return shifted_; }
  void set_shifted() { shifted_ = true; }
  /// A context shift has dropped `n` computed tokens.
  void drop(int n) {
    n_computed_ -= n;
    n_reached_ = n_computed_;
  }
  /// The cells of a shifted stream that waits again (Context::save).
  const std::vector<std::byte>& saved() const { return saved_; }
  void set_saved(std::vector<std::byte> saved) { saved_ = std::move(saved); }

  // --- Tiers

  /// What the tiers have of its prompt. Until set_restored().
  RestorePlan& plan() {
    if (plan_ == nullptr) plan_ = std::make_unique<RestorePlan>();
    return *plan_;
  }
  /// Nothing more is restored for it.
  bool restored() const { return restored_; }
  void set_restored() {
    restored_ = true;
    plan_.reset();
  }

  // --- Batches in flight

  /// Its items in a batch that has started and that was not read yet.
  int n_in_flight() const { return n_in_flight_; }
  void start(int n) { n_in_flight_ = n; }
  /// The batch has ended, or the stream has left it. Returns whether the stream was in one.
  bool land() { return std::exchange(n_in_flight_, 0) != 0; }

  // --- The encoder input

  /// The encoder input is not encoded yet.
  bool lacks_source() const { return lacks_source_; }
  void set_lacks_source(bool lacks) { lacks_source_ = lacks; }
  /// The encoder input is there. Returns whether this is so for the first time.
  bool note_source() { return !std::exchange(had_source_, true); }

 private:
  SeqId seq_ = -1;
  int n_computed_ = 0;
  int n_reached_ = 0;
  int n_in_flight_ = 0;
  bool shifted_ = false;
  bool lacks_source_ = false;
  bool had_source_ = false;
  bool restored_ = false;
  std::unique_ptr<RestorePlan> plan_;
  std::vector<std::byte> saved_;
};

}  // namespace weft::engine
