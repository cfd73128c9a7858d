#include <algorithm>
#include <unordered_map>

#include "grammar/token_masks.h"

namespace weft::grammar {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 31);
}

/// Splits classes of states by acceptance, then by the states after one byte, after two, and so on. A round
/// visits only the predecessors of states whose class the last round changed.
class Refinement {
 public:
  explicit Refinement(const Automaton& automaton)
      : automaton_(automaton), classes_(automaton.n_states(), 0), sizes_{automaton.n_states()} {
    find_sources();
  }

  std::vector<std::uint32_t> run(std::size_t n_rounds) {
    std::vector<StateId> changed(automaton_.n_states());
    for (StateId s = 0; s < changed.size(); ++s) changed[s] = s;
    std::vector<StateId> looked_at = changed;
    std::vector<char> listed(automaton_.n_states(), 0);
    for (std::size_t round = 0; round <= n_rounds && !looked_at.empty(); ++round) {
      changed = split(looked_at);
      looked_at.clear();
      for (const StateId s : changed)
        for (std::uint32_t i = first_source_[s]; i < first_source_[s + 1]; ++i)
          if (std::exchange(listed[sources_[i]], 1) == 0) looked_at.push_back(sources_[i]);
      for (const StateId s : looked_at) listed[s] = 0;
    }
    return classes_;
  }

 private:
  template <typename Visit>
  void for_each_target(StateId s, Visit&& visit) const {
    for (const ByteEdge& edge : automaton_.bytes_of(s)) visit(edge.to);
    for (const CallEdge& edge : automaton_.calls_of(s)) visit(edge.to);
    for (const TokenEdge& edge : automaton_.tokens_of(s)) visit(edge.to);
  }

  void find_sources() {
    const auto n = static_cast<StateId>(automaton_.n_states());
    first_source_.assign(n + std::size_t{1}, 0);
    for (StateId s = 0; s < n; ++s) for_each_target(s, [&](StateId to) { ++first_source_[to + 1]; });
    for (StateId s = 0; s < n; ++s) first_source_[s + 1] += first_source_[s];
    sources_.resize(first_source_[n]);
    std::vector<std::uint32_t> next(first_source_.begin(), first_source_.end() - 1);
    for (StateId s = 0; s < n; ++s) for_each_target(s, [&](StateId to) { sources_[next[to]++] = s; });
  }

  std::uint64_t signature(StateId s) const {
    std::uint64_t hash = mixed(classes_[s], automaton_.states[s].accepts ? 1 : 2);
    for (const ByteEdge& edge : automaton_.bytes_of(s))
      hash = mixed(hash, std::uint64_t{classes_[edge.to]} << 16 | edge.low << 8 | edge.high);
    hash = mixed(hash, 3);
    for (const CallEdge& edge : automaton_.calls_of(s))
      hash = mixed(hash, std::uint64_t{classes_[edge.to]} << 32 | edge.callee);
    hash = mixed(hash, 4);
    for (const TokenEdge& edge : automaton_.tokens_of(s))
      hash = mixed(hash, std::uint64_t{classes_[edge.to]} << 32 | static_cast<std::uint32_t>(edge.token));
    return hash;
  }

  /// The states that have another class now.
  std::vector<StateId> split(const std::vector<StateId>& states) {
    std::vector<std::pair<std::uint64_t, StateId>> order;
    order.reserve(states.size());
    for (const StateId s : states) order.emplace_back(signature(s), s);
    // Sorted by class, then by group, then by state.
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      const std::uint32_t x = classes_[a.second], y = classes_[b.second];
      return x != y ? x < y : a < b;
    });
    std::vector<StateId> changed;
    std::vector<std::pair<StateId, std::uint32_t>> renamed;
    for (std::size_t begin = 0; begin < order.size();) {
      const std::uint32_t old = classes_[order[begin].second];
      std::size_t end = begin;
      while (end < order.size() && classes_[order[end].second] == old) ++end;
      // If all states of a class were visited, its first group keeps the class id. Otherwise the unvisited
      // states keep it.
      bool keeps = end - begin == sizes_[old];
      for (std::size_t i = begin; i < end;) {
        std::size_t next = i;
        while (next < end && order[next].first == order[i].first) ++next;
        if (!std::exchange(keeps, false)) {
          const auto name = static_cast<std::uint32_t>(sizes_.size());
          sizes_.push_back(next - i);
          sizes_[old] -= next - i;
          for (std::size_t j = i; j < next; ++j) renamed.emplace_back(order[j].second, name);
        }
        i = next;
      }
      begin = end;
    }
    for (const auto& [state, name] : renamed) {
      classes_[state] = name;
      changed.push_back(state);
    }
    return changed;
  }

  const Automaton& automaton_;
  std::vector<std::uint32_t> classes_;
  std::vector<std::size_t> sizes_;  // Of classes.
  std::vector<std::uint32_t> first_source_;
  std::vector<StateId> sources_;
};

}  // namespace

std::vector<std::uint32_t> find_mask_classes(const Automaton& automaton, std::size_t max_token_bytes) {
  return Refinement(automaton).run(max_token_bytes);
}

}  // namespace weft::grammar
