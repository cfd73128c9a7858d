#pragma once
// Assigns offsets in one block of memory to the temporaries of a plan, by their lifetimes.
#include <cstddef>
#include <span>
#include <vector>

namespace weft {

/// A temporary that is alive from phase `first` to phase `last`, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
  std::size_t bytes = 0;
};

struct ArenaLayout {
  std::vector<std::size_t> offsets;  ///< One per lifetime, multiples of the alignment.
  std::size_t bytes = 0;
};

/// Places temporaries so that two that are alive in the same phase never overlap. Large ones first, each at
/// the lowest offset that is free over its whole life.
ArenaLayout lay_out(std::span<const Lifetime> lifetimes, std::size_t alignment = 64);

}  // namespace weft
