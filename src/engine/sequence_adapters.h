#pragma once
// The adapters of each sequence, and the inputs of a step for them.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "model/additions.h"
#include "model/builder.h"
#include "weft/backend/device.h"
#include "weft/context.h"

namespace weft::engine {

/// The adapters in their order, without those that have no effect. Throws Error kInvalidArgument for unknown
/// adapters, duplicates, more than Context::kMaxAdapters, and scales that are not finite numbers.
std::vector<AdapterUse> checked_adapters(const Model& model, std::span<const AdapterUse> uses);

class SequenceAdapters {
 public:
  /// `usual`: the adapters of sequences without adapters of their own.
  SequenceAdapters(const Model& model, std::span<const AdapterUse> usual, int n_sequences)
      : usual_(checked_adapters(model, usual)), of_(to_size(n_sequences), usual_) {}

  const std::vector<AdapterUse>& of(SeqId seq) const { return of_[to_size(seq)]; }
  const std::vector<AdapterUse>& usual() const { return usual_; }
  bool same(SeqId a, SeqId b) const { return of(a) == of(b); }
  /// `uses` were checked.
  void set(SeqId seq, std::vector<AdapterUse> uses) { of_[to_size(seq)] = std::move(uses); }
  void reset(SeqId seq) { set(seq, usual_); }

 private:
  std::vector<AdapterUse> usual_;
  std::vector<std::vector<AdapterUse>> of_;
};

/// Writes the inputs of one kind of a step's rows, row by row.
class AdapterRows {
 public:
  /// Writes nothing if `adapters` is null or the graph has no such inputs.
  AdapterRows(const model::AdapterInputs& inputs, const Bindings& bindings, const model::Adapters* adapters);
  void add(std::span<const AdapterUse> uses);
  std::int64_t n_uses() const { return n_uses_; }

 private:
  const model::Adapters* adapters_;
  std::span<std::int32_t> rows_, ids_, begins_, ends_, is_adapted_;
  std::span<float> weights_;
  std::int32_t n_rows_ = 0;
  std::int32_t n_uses_ = 0;
};

}  // namespace weft::engine
