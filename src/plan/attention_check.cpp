// Checks the tables of attention before kernels rely on them.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/to_size.h"
#include "graph/refuse.h"
#include "plan/plan_impl.h"
#include "weft/graph/extent.h"

namespace weft {
namespace {

/// Places and positions that 32 bits can add up.
constexpr std::int32_t kFarthest = std::numeric_limits<std::int32_t>::max() / 2 - kPageCells;

template <class T>
T entry_of(std::span<const std::byte> table, std::size_t i) {
  T entry;
  std::memcpy(&entry, table.data() + i * sizeof(T), sizeof(T));
  return entry;
}
template <class T>
std::size_t n_entries(std::span<const std::byte> table) {
  return table.size() / sizeof(T);
}

class Check {
 public:
  Check(const Graph& graph, const AttentionUse& use, const TableOf& table_of)
      : graph_(graph), use_(use), table_of_(table_of) {}

  void run() const {
    check_positions();
    check_extents();
    check_hidden();
  }

 private:
  void check_positions() const {
    const auto positions = table_of_(use_.in.positions);
    for (std::size_t r = 0; r < n_entries<std::int32_t>(positions); ++r) {
      const auto position = entry_of<std::int32_t>(positions, r);
      if (position < -kFarthest || position > kFarthest) fail(use_.in.positions, position, r, "too far away");
      if (position < 0 && use_.chunked) fail(use_.in.positions, position, r, "and chunks begin with 0");
    }
  }

  void check_extents() const {
    const auto extents = table_of_(use_.in.extents), counts = table_of_(use_.in.counts);
    const std::size_t n_sequences = n_entries<std::int32_t>(counts);
    const std::size_t width = n_sequences == 0 ? 0 : n_entries<Extent>(extents) / n_sequences;
    for (std::size_t s = 0; s < n_sequences; ++s) {
      const auto count = entry_of<std::int32_t>(counts, s);
      if (count < 0 || to_size(count) > width)
        fail(use_.in.counts, count, s, "and there is room for " + std::to_string(width) + " extents");
      for (std::size_t e = s * width; e < s * width + to_size(count); ++e)
        check_extent(entry_of<Extent>(extents, e), e);
    }
  }

  void check_extent(const Extent& extent, std::size_t at) const {
    const std::int64_t n_pages = graph_.value(use_.in.k).shape[0].constant() / kPageCells;
    if (extent.page < 0 || extent.page >= n_pages)
      fail(use_.in.extents, extent.page, at, "as a page, of which the cache has " + std::to_string(n_pages));
    if (extent.divisor < 1 || extent.divisor > kFarthest)
      fail(use_.in.extents, extent.divisor, at, "as a divisor");
    for (const std::int32_t place : {extent.base, extent.offset})
      if (place < -kFarthest || place > kFarthest) fail(use_.in.extents, place, at, "too far away");
    if (extent.divisor > 1 && extent.mask != 0 && __builtin_ctzll(extent.mask) + extent.offset < 0)
      fail(use_.in.extents, extent.offset, at, "as an offset that leads before what is divided");
  }

  void check_hidden() const {
    const auto first = table_of_(use_.in.hidden_first), hidden = table_of_(use_.in.hidden);
    const std::size_t n_hidden = n_entries<HiddenCells>(hidden);
    for (std::size_t r = 0; r < n_entries<std::int32_t>(first); ++r) {
      const auto place = entry_of<std::int32_t>(first, r);
      if (place < -1 || (place >= 0 && to_size(place) >= n_hidden))
        fail(use_.in.hidden_first, place, r, "and there are " + std::to_string(n_hidden) + " hidden entries");
    }
    if (n_hidden == 0) return;
    const std::int32_t last_row = entry_of<HiddenCells>(hidden, n_hidden - 1).row;
    if (last_row != -1)
      fail(use_.in.hidden, last_row, n_hidden - 1, "as a row, and the last entry must be of none (-1)");
  }

  [[noreturn]] void fail(ValueId input, std::int32_t number, std::size_t at, const std::string& why) const {
    refuse("input '" + graph_.value(input).name + "' of " + graph_.value(graph_.node(use_.node).output).name +
           " = attention has " + std::to_string(number) + " in entry " + std::to_string(at) + ", " + why);
  }

  const Graph& graph_;
  const AttentionUse& use_;
  const TableOf& table_of_;
};

}  // namespace

std::vector<AttentionUse> attention_uses(const Graph& graph) {
  std::vector<AttentionUse> uses;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const auto* const op = get_op<ops::Attention>(node);
    if (op == nullptr) continue;
    const auto in = named_inputs<ops::Attention>(node);
    // Layers have the same tables, and caches of the same size.
    const bool known = std::ranges::any_of(uses, [&](const AttentionUse& use) {
      return use.tables() == AttentionUse{.in = in}.tables() && use.chunked == op->chunked &&
             graph.value(use.in.k).shape[0] == graph.value(in.k).shape[0];
    });
    if (!known) uses.push_back({in, op->chunked, static_cast<NodeId>(n)});
  }
  return uses;
}

void check_attention(const Graph& graph, const AttentionUse& use, const TableOf& table_of) {
  Check(graph, use, table_of).run();
}

}  // namespace weft
