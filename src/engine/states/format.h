#pragma once
// A saved state as bytes: the contents of sequences, for any context of the same model. States are untrusted
// input: everything is checked before anything is used.
//
//   head     Header, n_caches CacheRecord, n_pages pairs of masks (u64: cells in use, and cells that layers
//            with a window keep), n_texts TextRecord (one for each sequence), n_extents Extent and n_adapters
//            AdapterRecord (both sequence by sequence). For models with sources, a SourceRecord for each
//            sequence. Then the XXH3-64 of the head.
//   caches   For each cache, the rows of all cells, page by page and lane by lane. For kSlots, the running
//            states of all sequences that are not empty. For sources, the rows of all sources. Then their
//            XXH3-64 with the cache's index as seed.
//   end      The XXH3-128 of all bytes before.
//
// Numbers are little-endian. Checksums find accidental damage, not forgery. A forged state can only hold
// wrong numbers for its own sequences.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "kv/sequences.h"
#include "weft/dtype.h"
#include "weft/graph/kinds.h"

namespace weft::engine {

/// Raised when the format, or the meaning of a cache's bytes, changes.
inline constexpr std::uint32_t kStateVersion = 3;

/// The properties that must agree between the context that wrote a state and the one that restores it.
struct StateOwner {
  struct Cache {
    std::string name;
    DType dtype = DType::kF32;
    CacheRole role = CacheRole::kKeys;
    bool windowed = false;    ///< Has rows of State::kept only.
    bool of_sources = false;  ///< Has rows of the tokens of sources.
    std::int32_t n_heads = 0;
    std::int32_t head_dim = 0;
    std::uint64_t turning = 0;  ///< A hash of how its keys are turned.
    /// Bytes of a cell, or (kSlots) of a running state.
    std::size_t row_bytes() const { return weft::row_bytes(dtype, std::int64_t{n_heads} * head_dim); }
  };
  base::Hash128 model;
  std::int32_t n_layers = 0;
  std::int32_t n_embd = 0;
  std::int32_t n_vocab = 0;
  bool reads_sources = false;
  std::vector<Cache> caches;
};

/// An adapter with which a sequence was computed.
struct TextAdapter {
  base::Hash128 adapter;  ///< A hash of the adapter's tensors.
  float scale = 1.0f;
};

/// The source of a sequence.
struct TextSource {
  /// Number among the state's sources, which are numbered in the order in which sequences name them.
  std::uint32_t number = 0;
  std::uint32_t size = 0;  ///< In tokens; 0: there is none.
};

struct State {
  bool whole = false;  ///< All sequences of a context, rather than one.
  kv::Snapshot snapshot;
  std::vector<std::vector<TextAdapter>> adapters = {};  ///< By sequence of the snapshot.
  std::vector<TextSource> sources = {};                 ///< Likewise, where the model reads any.
  std::vector<std::uint64_t> kept =
      {};  ///< By page: the cells that caches with a window have, of those in use.
  std::vector<std::span<const std::byte>> rows = {};  ///< Of each cache; into the bytes that were read.
  /// The sizes of the sources, by their numbers.
  std::vector<std::uint32_t> source_sizes() const;
};

/// The maximum size in bytes of a state with these numbers of cells (in any number of pages), sequences,
/// extents and source tokens.
std::uint64_t max_state_bytes(const StateOwner& owner, std::uint64_t n_cells, std::uint64_t n_texts,
                              std::uint64_t n_extents, std::uint64_t n_source);
inline constexpr std::uint32_t kMaxTextAdapters = 8;  ///< See Context::kMaxAdapters.

/// Passes a state to `sink` piece by piece. `rows_of(i)` returns the rows of cache i, valid until the next
/// call.
void write_state(const StateOwner& owner, const State& state,
                 const std::function<std::span<const std::byte>(std::size_t)>& rows_of,
                 const std::function<void(std::span<const std::byte>)>& sink);

/// Throws Error kInvalidFile for damaged bytes, and kUnsupported for another version. Throws kInvalidArgument
/// for a state of another model or of other caches. The result is valid: its snapshot is well formed and its
/// rows fit it.
State read_state(const StateOwner& owner, std::span<const std::byte> bytes);

}  // namespace weft::engine
