#pragma once
// Finds strings in a stream of bytes, however the stream is cut: the automaton of Aho and Corasick (1975).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::engine {

class StringMatcher {
 public:
  /// At most 1 GiB of strings. An empty one is never found.
  explicit StringMatcher(std::span<const std::string> strings);

  /// Reads the next byte. Returns the index of the longest string that ends here (of equal strings the
  /// first), or -1. Amortised constant time; allocates nothing.
  int push(char byte);
  /// The number of last bytes that begin a string, or are one.
  std::size_t n_open() const { return nodes_[at_].depth; }
  /// Starts a new stream.
  void reset() { at_ = 0; }
  /// The state between two bytes, to return to.
  using State = std::uint32_t;
  State state() const { return at_; }
  void set_state(State state) { at_ = state; }

 private:
  using Index = std::uint32_t;
  static constexpr Index kRoot = 0;

  /// A prefix of strings. Its children are one byte longer, and linked.
  struct Node {
    Index child = kRoot, sibling = kRoot;  // kRoot: none.
    Index suffix = kRoot;                  // The longest other node that it ends with.
    Index depth = 0;
    std::int32_t ends = -1;  // The longest string that it ends with.
    char byte = 0;
  };
  Index child(Index of, char byte) const;
  Index next(Index from, char byte) const;
  void link();

  std::vector<Node> nodes_;
  Index at_ = kRoot;
};

}  // namespace weft::engine
