#pragma once
// The memories of a model's sequences other than the cells of layers with full attention: one for each kind
// of layer with its own (kv/sequence_memory.h). Only this class knows the kinds.
#include <memory>
#include <span>
#include <vector>

#include "base/to_size.h"
#include "kv/sequence_memory.h"
#include "model/builder.h"
#include "weft/backend/device.h"
#include "weft/context.h"

namespace weft::engine {

/// The host's memory of an input or output of a graph; empty for kNoValue.
template <typename T>
std::span<T> host_values(const Bindings& bindings, ValueId id) {
  if (id == kNoValue) return {};
  const std::span<std::byte> bytes = bindings[to_size(id)]->host();
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// One sequence's part of a cache, by the node that moves its cells.
struct TextInCache {
  std::int64_t n_tokens = 0;  ///< At most, in a context of these parameters.
  bool grows = false;         ///< It grows with each token.
};
TextInCache text_in_cache(const model::ModelGraph& graph, const Node& moves, const ContextParams& params);

/// The memories of a context, whose tensors are `bindings`. All arguments must outlive it.
class Memories {
 public:
  Memories(const model::ModelGraph& graph, const Bindings& bindings, const kv::Sequences& sequences,
           int width, const ContextParams& params);

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  /// The memory of a cache, by the node that moves its cells. Null: the cache has all cells of the sequences.
  kv::SequenceMemory* of_cache(const Node& moves) const {
    const bool windowed = windowed_ != nullptr && named_inputs<ops::MoveCells>(moves).from == windowed_moves_;
    return windowed ? windowed_ : nullptr;
  }
  kv::SequenceMemory* of_running_states() const { return running_; }

 private:
  std::vector<std::unique_ptr<kv::SequenceMemory>> all_;
  kv::SequenceMemory* windowed_ = nullptr;
  ValueId windowed_moves_ = kNoValue;
  kv::SequenceMemory* running_ = nullptr;
};

}  // namespace weft::engine
