#pragma once
// Positions in an automaton: pairs of a state and a stack of open calls.
#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/automaton.h"
#include "weft/types.h"

namespace weft::grammar {

/// A stack of return states, the innermost call on top. Equal stacks have the same id.
using StackId = std::uint32_t;
inline constexpr StackId kBottom = 0;  ///< No call.

/// Used by one thread.
class Stacks {
 public:
  Stacks() : frames_(1) {}
  StackId push(StackId below, StateId return_to);
  StateId return_of(StackId stack) const { return frames_[stack].return_to; }
  StackId below(StackId stack) const { return frames_[stack].below; }
  std::size_t size() const { return frames_.size(); }

 private:
  struct Frame {
    StackId below = 0;
    StateId return_to = 0;
  };
  void grow();

  std::vector<Frame> frames_;
  std::vector<StackId> slots_;  // Open addressing; 0: empty.
};

struct Item {
  StateId state = 0;
  StackId stack = kBottom;
  bool operator==(const Item&) const = default;
};

/// The states that an input may have reached. Calls are entered and finished rules are left, so that each
/// item has edges of its own.
struct Configuration {
  std::vector<Item> items;
  bool ended = false;  ///< The input may end here. In a walk that began inside a rule, the rule may end.

  bool empty() const { return items.empty() && !ended; }
};

/// Goes from configuration to configuration. Used by one thread; the automaton must outlive it.
class Stepper {
 public:
  Stepper(const Automaton& automaton, Stacks& stacks) : automaton_(automaton), stacks_(stacks) {}

  /// The configuration before the first byte.
  void start(Configuration& to);
  /// `to` must be another object.
  void step(const Configuration& from, std::uint8_t byte, Configuration& to);
  void step(const Configuration& from, Token special, Configuration& to);
  /// Sets `to` to the configuration after the innermost call of `stack`.
  void leave(StackId stack, Configuration& to);

 private:
  void clear(Configuration& to);
  void arrive(StateId state, StackId stack, Configuration& to);
  bool is_new(Item item);

  const Automaton& automaton_;
  Stacks& stacks_;
  std::vector<Item> todo_;
  // The items that have been arrived at: a list, and an index where it is long.
  std::vector<Item> arrived_;
  std::vector<std::uint32_t> slots_;
};

}  // namespace weft::grammar
