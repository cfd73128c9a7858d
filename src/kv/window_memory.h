#pragma once
// The memory of layers with a sliding window: window pages, and the inputs by which such layers find them.
#include "kv/sequence_memory.h"
#include "kv/window_pages.h"

namespace weft::kv {

class WindowMemory final : public SequenceMemory {
 public:
  /// What such layers read of a ubatch.
  struct Inputs {
    std::span<std::int32_t> cells;
    Tables tables;
    std::span<HiddenCells> hidden;
  };
  /// See WindowPages. `sequences` must outlive it.
  WindowMemory(const Sequences& sequences, int window, int rewind, const Inputs& inputs);

  Refusal why_not_remove(SeqId seq, Pos begin, Pos end) const override;
  Refusal why_not_copy(SeqId from, SeqId to, Pos begin, Pos end) const override;
  Refusal why_not_shift(SeqId seq, Pos begin, Pos end, Pos delta) const override;
  Refusal why_not_divide(SeqId seq, Pos begin, Pos end, int divisor) const override;
  Refusal why_not_take(SeqId seq, Pos pos) const override;
  bool shifts() const override { return true; }
  bool cuts_back() const override { return true; }

  void follow(MoveLog& moves) override { pages_.follow(moves); }

  void begin_batch() override;
  Refusal add(const SeqPos& at, std::span<const SeqId> shared_with, bool logits) override;
  void begin_ubatch() override { pages_.evict_now_and_then(); }
  void store(std::int32_t cell) override { pages_.store(cell); }
  void bind(const PlacedItems& items) override;
  void end_batch(bool /*computed*/) override { pages_.end_batch(); }

  void evict() override { pages_.evict(); }
  std::vector<std::int32_t> rows_of(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                    std::vector<std::uint64_t>& kept) const override;
  bool is_whole(const Snapshot::Text& text, std::span<const std::uint64_t> kept) const override {
    return pages_.is_whole(text.extents, kept);
  }
  std::vector<std::int32_t> restored(const Snapshot& snapshot, std::span<const std::int32_t> cells,
                                     std::span<const std::uint64_t> kept) override;

  std::int64_t max_rows_each() const override { return pages_.max_rows_each(); }
  int pages_touched() const override { return pages_.n_touched(); }
  bool consistent() const override { return pages_.consistent(); }

 private:
  WindowPages pages_;
  const Inputs inputs_;
  std::vector<std::uint64_t> seen_in_;  // By sequence: the last batch that has it.
  std::uint64_t n_batches_ = 0;
};

}  // namespace weft::kv
