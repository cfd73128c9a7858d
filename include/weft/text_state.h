#pragma once
// A saved state of one sequence (Context::save) with its tokens: the result of Batcher::save_text, and the
// format of its files. Bytes:
//
//   Header, n_tokens token ids (i32), the state, the XXH3-128 of all before
//
// Numbers are little-endian.
#include <cstddef>
#include <span>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct TextState {
  std::vector<Token> tokens = {};
  std::span<const std::byte> state = {};  ///< Into the given bytes; not checked.
};

std::vector<std::byte> write_text_state(std::span<const Token> tokens, std::span<const std::byte> state);
/// Throws Error: kInvalidFile for damaged or other bytes, kUnsupported for another version.
TextState read_text_state(std::span<const std::byte> bytes);

}  // namespace weft

#pragma GCC visibility pop
