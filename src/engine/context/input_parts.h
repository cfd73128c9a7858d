#pragma once
// Which parts of the large inputs a step uses, so that only those are copied to devices.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/context/ubatch_placer.h"
#include "exec/plan.h"
#include "model/builder.h"
#include "weft/backend/device.h"

namespace weft::engine {

/// The inputs are the extents of sequences, which are as large as the cache, and embeddings, which are rare.
class InputParts {
 public:
  /// A sequence has at most `n_extents` extents. `graph` must outlive it.
  InputParts(const model::ModelGraph& graph, const Bindings& bindings, int n_sequences, int n_extents);

  /// Notes the parts for the placed items of a batch. Null: a step without tokens.
  void note(const Batch* batch, const Ubatch& ubatch);
  /// In the order of their values.
  std::span<const exec::InputPart> parts() const { return parts_; }

 private:
  void add(ValueId value, std::size_t begin, std::size_t bytes) {
    if (value != kNoValue) parts_.push_back({value, begin, bytes});
  }

  const model::ModelGraph& graph_;
  /// The extents of layers of one kind.
  struct Table {
    ValueId extents;
    std::span<const std::int32_t> counts;  // By sequence.
  };
  std::vector<Table> tables_;
  std::size_t row_bytes_;  // Of a sequence's extents.
  std::vector<exec::InputPart> parts_;
  std::vector<std::uint64_t> noted_;  // By sequence: the last list of parts that contains it.
  std::uint64_t n_noted_ = 0;
};

}  // namespace weft::engine
