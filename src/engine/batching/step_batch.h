#pragma once
// The batch of one step, and the streams that its items belong to.
#include <algorithm>
#include <vector>

#include "engine/batching/stream.h"
#include "weft/context.h"

namespace weft::engine {

/// A stream's items of a batch.
struct Share {
  Stream* stream;  ///< Null if the stream has left the batch.
  int first;       ///< Item of the batch.
  int n;           ///< Items, drafts not counted.
};

/// The streams must outlive it, or leave it.
struct StepBatch {
  Batch items;
  std::vector<Share> shares;
  int n_decoding = 0;  ///< The first items, which belong to decoding streams.

  int size() const { return items.size(); }
  bool empty() const { return items.size() == 0; }
  /// Items of prompts.
  int n_prompt() const { return empty() ? 0 : size() - n_decoding; }
  void clear() {
    items.clear();
    shares.clear();
    n_decoding = 0;
  }
  /// The results of the stream's items are not read.
  void leave(const Stream& stream) {
    for (Share& share : shares)
      if (share.stream == &stream) share.stream = nullptr;
  }
  void drop_left() {
    std::erase_if(shares, [](const Share& share) { return share.stream == nullptr; });
  }
};

}  // namespace weft::engine
