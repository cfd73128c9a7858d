#include "grammar/configuration.h"

#include <algorithm>

#include "base/to_size.h"
#include "grammar/budget.h"

namespace weft::grammar {
namespace {

constexpr std::size_t kMaxArrived = 4096;  // Items of a step, those included that only lead on.
constexpr std::size_t kMaxFrames = std::size_t{1} << 22;
constexpr std::size_t kShortList = 16;

std::size_t hash_of(std::uint32_t a, std::uint32_t b) {
  std::uint64_t hash = (std::uint64_t{a} << 32 | b) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  return to_size(hash * 0xD6E8FEB86659FD93u >> 16);
}

}  // namespace

StackId Stacks::push(StackId below, StateId return_to) {
  if (slots_.size() < frames_.size() * 2) grow();
  std::size_t at = hash_of(below, return_to) & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1)) {
    const Frame& frame = frames_[slots_[at]];
    if (frame.below == below && frame.return_to == return_to) return slots_[at];
  }
  if (frames_.size() == kMaxFrames) refuse("the text is nested too deeply for its grammar");
  frames_.push_back({below, return_to});
  return slots_[at] = static_cast<StackId>(frames_.size() - 1);
}

void Stacks::grow() {
  slots_.assign(std::max<std::size_t>(64, slots_.size() * 2), 0);
  for (StackId id = 1; id < frames_.size(); ++id) {
    std::size_t at = hash_of(frames_[id].below, frames_[id].return_to) & (slots_.size() - 1);
    while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = id;
  }
}

void Stepper::clear(Configuration& to) {
  to.items.clear();
  to.ended = false;
  arrived_.clear();
}

bool Stepper::is_new(Item item) {
  if (arrived_.size() < kShortList) {
    if (std::find(arrived_.begin(), arrived_.end(), item) != arrived_.end()) return false;
    arrived_.push_back(item);
    if (arrived_.size() < kShortList) return true;
    slots_.assign(kMaxArrived * 2, 0);
    for (std::uint32_t i = 0; i < arrived_.size(); ++i) {
      std::size_t at = hash_of(arrived_[i].state, arrived_[i].stack) & (slots_.size() - 1);
      while (slots_[at] != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = i + 1;
    }
    return true;
  }
  std::size_t at = hash_of(item.state, item.stack) & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1))
    if (arrived_[slots_[at] - 1] == item) return false;
  if (arrived_.size() == kMaxArrived)
    refuse("the grammar is too ambiguous: a string has more than " + std::to_string(kMaxArrived) + " parses");
  arrived_.push_back(item);
  slots_[at] = static_cast<std::uint32_t>(arrived_.size());
  return true;
}

void Stepper::arrive(StateId state, StackId stack, Configuration& to) {
  todo_.push_back({state, stack});
  while (!todo_.empty()) {
    const Item item = todo_.back();
    todo_.pop_back();
    if (!is_new(item)) continue;
    if (!automaton_.bytes_of(item.state).empty() || !automaton_.tokens_of(item.state).empty())
      to.items.push_back(item);
    if (automaton_.states[item.state].accepts) {
      if (item.stack == kBottom) {
        to.ended = true;
      } else {
        todo_.push_back({stacks_.return_of(item.stack), stacks_.below(item.stack)});
      }
    }
    for (const CallEdge& call : automaton_.calls_of(item.state)) {
      // A tail call returns directly to the caller's return state.
      const bool last = automaton_.states[call.to].accepts && automaton_.only_accepts(call.to);
      todo_.push_back({call.callee, last ? item.stack : stacks_.push(item.stack, call.to)});
    }
  }
}

void Stepper::start(Configuration& to) {
  clear(to);
  arrive(automaton_.start, kBottom, to);
  to.ended = automaton_.allows_empty;
}

void Stepper::step(const Configuration& from, std::uint8_t byte, Configuration& to) {
  clear(to);
  for (const Item& item : from.items) {
    const StateId next = automaton_.next(item.state, byte);
    if (next != kNoState) arrive(next, item.stack, to);
  }
}

void Stepper::step(const Configuration& from, Token special, Configuration& to) {
  clear(to);
  for (const Item& item : from.items)
    for (const TokenEdge& edge : automaton_.tokens_of(item.state))
      if (edge.token == special) arrive(edge.to, item.stack, to);
}

void Stepper::leave(StackId stack, Configuration& to) {
  clear(to);
  if (stack == kBottom) {
    to.ended = true;
  } else {
    arrive(stacks_.return_of(stack), stacks_.below(stack), to);
  }
}

}  // namespace weft::grammar
