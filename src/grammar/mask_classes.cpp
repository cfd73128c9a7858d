#include <unordered_map>

#include "grammar/token_masks.h"

namespace weft::grammar {
namespace {

constexpr std::int64_t kMaxWork = std::int64_t{1} << 24;  // Edges looked at; some tens of milliseconds.

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 31);
}

}  // namespace

// States are told apart by what they accept, then by what one byte leads to, then by two, and so on: as many
// rounds as the longest token has bytes, or until a round changes nothing.
std::vector<std::uint32_t> find_mask_classes(const Automaton& automaton, std::size_t max_token_bytes) {
  const auto n = static_cast<StateId>(automaton.n_states());
  std::vector<std::uint32_t> classes(n, 0), refined(n);
  std::size_t n_classes = n == 0 ? 0 : 1;
  std::int64_t work = 0;
  for (std::size_t round = 0; round <= max_token_bytes && n_classes < n; ++round) {
    std::unordered_map<std::uint64_t, std::uint32_t> ids;
    ids.reserve(n_classes * 2);
    for (StateId s = 0; s < n; ++s) {
      std::uint64_t hash = mixed(classes[s], automaton.states[s].accepts ? 1 : 2);
      for (const ByteEdge& edge : automaton.bytes_of(s))
        hash = mixed(hash, std::uint64_t{classes[edge.to]} << 16 | edge.low << 8 | edge.high);
      hash = mixed(hash, 3);
      for (const CallEdge& edge : automaton.calls_of(s))
        hash = mixed(hash, std::uint64_t{classes[edge.to]} << 32 | edge.callee);
      hash = mixed(hash, 4);
      for (const TokenEdge& edge : automaton.tokens_of(s))
        hash = mixed(hash, std::uint64_t{classes[edge.to]} << 32 | static_cast<std::uint32_t>(edge.token));
      refined[s] = ids.try_emplace(hash, static_cast<std::uint32_t>(ids.size())).first->second;
    }
    const bool changed = ids.size() != n_classes;
    n_classes = ids.size();
    classes.swap(refined);
    if (!changed) break;
    work += static_cast<std::int64_t>(automaton.byte_edges.size() + n);
    if (work > kMaxWork) {
      // Not told apart to the end: every state for itself.
      for (StateId s = 0; s < n; ++s) classes[s] = s;
      break;
    }
  }
  return classes;
}

}  // namespace weft::grammar
