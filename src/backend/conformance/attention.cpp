// Cases of attention.
#include <cstring>

#include "backend/conformance/case.h"

namespace weft::conformance::cases {

void attention(Suite& suite) {
  if (!suite.wanted("attention")) return;
  for (const DType type : kCacheTypes)
    for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
      for (const std::int64_t m : {0, 1, 7}) {
        Case c = suite.next();
        AttentionCase a;
        a.op = {.n_heads = 6, .scale = 0.18f};
        a.n_kv_heads = variant == 1 ? 6 : 2;
        a.k_dim = variant == 2 ? 64 : 32;
        a.v_dim = variant == 2 ? 96 : 32;
        if (variant == 3) a.op.softcap = 5.0f;
        if (variant == 4 || variant == 7) a.op.window = 50;
        a.op.chunked = variant == 7;
        if (variant == 8) a.op.alibi = 8.0f;
        const std::int64_t n_cells = 5 * kPageCells;
        a.k = c.floats({n_cells, a.n_kv_heads * a.k_dim});
        a.v = c.floats({n_cells, a.n_kv_heads * a.v_dim});
        a.q = c.floats({m, a.op.n_heads * a.k_dim});
        const ValueId k = c.state(type, {n_cells, a.n_kv_heads, a.k_dim}, CacheRole::kKeys, a.k);
        const ValueId v = c.state(type, {n_cells, a.n_kv_heads, a.v_dim}, CacheRole::kValues, a.v);
        // Two sequences over the same pool: of whole pages, and of a part of one and a page that is
        // divided.
        const std::uint64_t all = ~std::uint64_t{0};
        a.extents = {Extent{all, 3, 0, 1, 0},         Extent{all, 0, 64, 1, 0},
                     Extent{0x3ffffff, 4, 128, 1, 0}, Extent{0xff00ff0f, 3, 0, 1, 0},
                     Extent{all, 1, 64, 2, 0},        Extent{}};
        a.width = 3;
        a.counts = {3, 2};
        a.hidden.clear();
        for (std::int64_t r = 0; r < m; ++r) {
          a.sequences.push_back(r % 3 == 1 ? 1 : 0);
          a.positions.push_back(r == 0 ? 5 : c.integer(0, 153));
          a.ends.push_back(variant == 5 && r == 2 ? 0 : a.positions.back() + 1);
          a.hidden_first.push_back(-1);
          if (variant == 5 && r % 2 == 0) {
            a.hidden_first.back() = static_cast<std::int32_t>(a.hidden.size());
            a.hidden.push_back({static_cast<std::int32_t>(r), 3, 0xf0f0f0f0f0ull});
            a.hidden.push_back({static_cast<std::int32_t>(r), 0, 0x1ull << 40});
          }
        }
        a.hidden.emplace_back();
        const auto words = [](const auto& list) {
          Indices result(list.size() * sizeof(list[0]) / 4);
          if (!list.empty()) std::memcpy(result.data(), list.data(), result.size() * 4);
          return result;
        };
        const Dim n = c.rows(m);
        if (variant == 6) a.sinks = c.floats({a.op.n_heads});
        // Texts are longer than the table, and one knows the row's own position and others, no more.
        if (variant == 9 || variant == 10) a.n_distances = variant == 9 ? 70 : 2;
        const std::int64_t n_distances = static_cast<std::int64_t>(a.n_distances);
        if (n_distances > 0) a.distance_bias = c.floats({a.op.n_heads, n_distances});
        const ops::Attention::Inputs inputs = {
            .q = c.input({n, a.op.n_heads * a.k_dim}, a.q),
            .k = k,
            .v = v,
            .positions = c.input({n}, a.positions),
            .sequences = c.input({n}, a.sequences),
            .extents = c.input({2, a.width, kExtentWords}, words(a.extents)),
            .counts = c.input({2}, a.counts),
            .ends = c.input({n}, a.ends),
            .hidden_first = c.input({n}, a.hidden_first),
            .hidden = c.input({static_cast<std::int64_t>(a.hidden.size()), kHiddenWords}, words(a.hidden)),
            .head_terms = variant == 6      ? c.weight(DType::kF32, {a.op.n_heads}, a.sinks)
                          : n_distances > 0 ? c.input({a.op.n_heads, n_distances}, a.distance_bias)
                                            : kNoValue};
        c.expect(c.graph.add(a.op, inputs, "y"), conformance::attention(a));
        constexpr const char* kVariants[] = {"grouped", "all heads", "K 64 V 96", "softcap",
                                             "window",  "hidden",    "sinks",     "chunked",
                                             "alibi",   "biases",    "two biases"};
        suite.take(c, std::string(info(type).name) + " " + kVariants[variant] + " rows " + std::to_string(m),
                   info(type).kind == DTypeKind::kQuantised ? kQuantisedTolerance
                   : type == DType::kF32                    ? kProductTolerance
                   : type == DType::kF16                    ? kHalfTolerance
                                                            : kBrainTolerance);
      }
}

}  // namespace weft::conformance::cases
