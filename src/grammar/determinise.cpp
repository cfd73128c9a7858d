#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/to_size.h"
#include "grammar/nfa.h"

namespace weft::grammar {
namespace {

using StateSet = std::vector<StateId>;

struct SetHash {
  std::size_t operator()(const StateSet& set) const {
    std::uint64_t hash = set.size();
    for (const StateId s : set) hash = (hash ^ s) * 0x9E3779B97F4A7C15u + (hash >> 29);
    return to_size(hash);
  }
};

/// The construction of sets of states.
class Determiniser {
 public:
  Determiniser(const Nfa& nfa, StateId accepting, Budget& budget, Automaton& out)
      : nfa_(nfa),
        accepting_(accepting),
        budget_(budget),
        out_(out),
        seen_(nfa.n_states(), 0),
        of_one_(nfa.n_states(), kNoState) {}

  StateId run(StateId from) {
    const auto base = static_cast<StateId>(out_.states.size());
    next_id_ = base;
    // The first set is kept out of the index, so that no edge leads back to it.
    open_.push_back(closure({from}));
    ++next_id_;
    while (!open_.empty()) {
      const StateSet set = std::move(open_.front());
      open_.pop_front();
      add_state(set);
    }
    return base;
  }

 private:
  struct Range {
    std::uint8_t low, high;
    StateId to;
  };

  StateSet closure(const StateSet& from) {
    ++epoch_;
    StateSet result;
    todo_.assign(from.begin(), from.end());
    while (!todo_.empty()) {
      const StateId s = todo_.back();
      todo_.pop_back();
      if (std::exchange(seen_[s], epoch_) == epoch_) continue;
      budget_.spend();
      bool matters = s == accepting_;
      for (std::uint32_t e = nfa_.first_edge(s); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
        if (nfa_.edge(e).kind == Nfa::EdgeKind::kEmpty) {
          todo_.push_back(nfa_.edge(e).to);
        } else {
          matters = true;
        }
      }
      if (matters) result.push_back(s);
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  StateId find(const StateSet& targets) {
    if (targets.size() > 1) return find_set(targets);
    StateId& known = of_one_[targets[0]];
    if (known == kNoState) known = find_set(targets);
    return known;
  }

  StateId find_set(const StateSet& targets) {
    StateSet set = closure(targets);
    const auto [at, added] = ids_.try_emplace(std::move(set), next_id_);
    if (added) {
      budget_.add_states(1);
      open_.push_back(at->first);
      ++next_id_;
    }
    return at->second;
  }

  void add_state(const StateSet& set) {
    out_.states.push_back({static_cast<std::uint32_t>(out_.byte_edges.size()),
                           static_cast<std::uint32_t>(out_.call_edges.size()),
                           static_cast<std::uint32_t>(out_.token_edges.size()),
                           std::binary_search(set.begin(), set.end(), accepting_)});
    ranges_.clear();
    calls_.clear();
    tokens_.clear();
    for (const StateId s : set) {
      for (std::uint32_t e = nfa_.first_edge(s); e != Nfa::kNoEdge; e = nfa_.edge(e).next) {
        const Nfa::Edge& edge = nfa_.edge(e);
        budget_.spend();
        if (edge.kind == Nfa::EdgeKind::kBytes)
          ranges_.push_back({static_cast<std::uint8_t>(edge.value & 0xFF),
                             static_cast<std::uint8_t>(edge.value >> 8), edge.to});
        if (edge.kind == Nfa::EdgeKind::kCall) calls_[edge.value].push_back(edge.to);
        if (edge.kind == Nfa::EdgeKind::kToken) tokens_[edge.value].push_back(edge.to);
      }
    }
    add_ranges();
    for (const auto& [rule, targets] : calls_) out_.call_edges.push_back({rule, find(targets)});
    for (const auto& [token, targets] : tokens_)
      out_.token_edges.push_back({static_cast<Token>(token), find(targets)});
  }

  void add_ranges() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
    const std::size_t first = out_.byte_edges.size();
    StateSet active, last;  // Ranges by number, and the targets of the interval before.
    StateId last_id = kNoState;
    std::size_t next = 0;
    for (int low = 0; low < 256;) {
      std::erase_if(active, [&](StateId r) { return ranges_[r].high < low; });
      while (next < ranges_.size() && ranges_[next].low <= low)
        active.push_back(static_cast<StateId>(next++));
      int high = next < ranges_.size() ? ranges_[next].low - 1 : 255;
      StateSet targets;
      for (const StateId r : active) {
        budget_.spend();
        high = std::min<int>(high, ranges_[r].high);
        targets.push_back(ranges_[r].to);
      }
      if (!targets.empty()) {
        std::sort(targets.begin(), targets.end());
        targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
        if (targets != last) {
          last_id = find(targets);
          last = targets;
        }
        const auto byte = static_cast<std::uint8_t>(high);
        if (out_.byte_edges.size() > first && out_.byte_edges.back().to == last_id &&
            out_.byte_edges.back().high + 1 == low) {
          out_.byte_edges.back().high = byte;
        } else {
          out_.byte_edges.push_back({last_id, static_cast<std::uint8_t>(low), byte});
        }
      }
      low = high + 1;
    }
  }

  const Nfa& nfa_;
  const StateId accepting_;
  Budget& budget_;
  Automaton& out_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t epoch_ = 0;
  StateSet todo_;
  std::vector<StateId> of_one_;  // Ids of sets that follow from a single state, the common case.
  std::unordered_map<StateSet, StateId, SetHash> ids_;
  std::deque<StateSet> open_;
  StateId next_id_ = 0;
  std::vector<Range> ranges_;
  std::map<std::uint32_t, StateSet> calls_, tokens_;
};

}  // namespace

StateId determinise(const Nfa& nfa, StateId from, StateId to, Budget& budget, Automaton& out) {
  return Determiniser(nfa, to, budget, out).run(from);
}

void add_both(const Automaton& a, const Automaton& b, Budget& budget, Nfa& nfa, StateId from, StateId to) {
  std::unordered_map<std::uint64_t, StateId> ids;
  std::vector<std::pair<StateId, StateId>> open = {{a.start, b.start}};
  const auto key = [](StateId x, StateId y) { return std::uint64_t{x} << 32 | y; };
  ids.emplace(key(a.start, b.start), from);
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    const StateId here = ids.at(key(x, y));
    if (a.states[x].accepts && b.states[y].accepts) nfa.add_empty(here, to);
    for (const ByteEdge& left : a.bytes_of(x)) {
      for (const ByteEdge& right : b.bytes_of(y)) {
        budget.spend();
        const std::uint8_t low = std::max(left.low, right.low), high = std::min(left.high, right.high);
        if (low > high) continue;
        auto at = ids.find(key(left.to, right.to));
        if (at == ids.end()) {
          at = ids.emplace(key(left.to, right.to), nfa.add_state()).first;
          open.emplace_back(left.to, right.to);
        }
        nfa.add_bytes(here, at->second, low, high);
      }
    }
  }
}

}  // namespace weft::grammar
