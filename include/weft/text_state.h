#pragma once
// A saved state of one sequence (Context::save) together with the tokens that it stands for: what
// Batcher::save_text gives, and what becomes a file that outlives the program. Bytes:
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
  std::span<const std::byte> state = {};  ///< Into the bytes that were read; not looked at.
};

std::vector<std::byte> write_text_state(std::span<const Token> tokens, std::span<const std::byte> state);
/// Throws Error: kInvalidFile for what is damaged or no saved text, kUnsupported for another version.
TextState read_text_state(std::span<const std::byte> bytes);

}  // namespace weft

#pragma GCC visibility pop
