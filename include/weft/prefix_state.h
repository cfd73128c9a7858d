#pragma once
// A saved state of one sequence (Context::save) together with its tokens: the format of Batcher::save_prefix
// and of its files. Bytes:
//
//   Header, n_tokens token ids (i32), the state, the XXH3-128 hash of all bytes before
//
// Numbers are little-endian. The functions have no state: any thread may call them.
#include <cstddef>
#include <span>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct PrefixState {
  std::vector<Token> tokens = {};
  std::span<const std::byte> state = {};  ///< Refers to the given bytes. Context::restore checks it.
};

std::vector<std::byte> write_prefix_state(std::span<const Token> tokens, std::span<const std::byte> state);
/// Throws Error kInvalidFile for bytes that are damaged or in another format, and kUnsupported for another
/// version.
PrefixState read_prefix_state(std::span<const std::byte> bytes);

}  // namespace weft

#pragma GCC visibility pop
