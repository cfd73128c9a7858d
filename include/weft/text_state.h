#pragma once
// Deprecated names of weft/prefix_state.h, for one version.
#include "weft/prefix_state.h"

namespace weft {

using TextState [[deprecated("use PrefixState")]] = PrefixState;
[[deprecated("use write_prefix_state")]] inline std::vector<std::byte> write_text_state(
    std::span<const Token> tokens, std::span<const std::byte> state) {
  return write_prefix_state(tokens, state);
}
[[deprecated("use read_prefix_state")]] inline PrefixState read_text_state(std::span<const std::byte> bytes) {
  return read_prefix_state(bytes);
}

}  // namespace weft
