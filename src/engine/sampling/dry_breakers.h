#pragma once
// The token sequences that end a repetition for DRY, in an order in which those that a text ends with are
// found without looking at all of them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/types.h"

namespace weft::engine {

class DryBreakers {
 public:
  /// Copies them. None is empty.
  explicit DryBreakers(std::span<const std::vector<Token>> breakers);

  /// The length of the shortest one that the text ends with; 0: it ends with none. Takes as many binary
  /// searches as tokens of the text match.
  std::size_t shortest_at_end(std::span<const Token> text) const;

 private:
  std::size_t size() const { return begin_.size() - 1; }
  std::size_t length(std::size_t i) const { return begin_[i + 1] - begin_[i]; }

  // Read from their ends, and sorted so: those that end alike lie together, the shortest first.
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> begin_;  // In tokens_, and where the last one ends.
};

}  // namespace weft::engine
