// Cases of stores to caches and moves within them.
#include <algorithm>
#include <string>
#include <utility>

#include "backend/conformance/case.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

double stored_tolerance(DType type) {
  switch (type) {
    case DType::kF32:
      return kProductTolerance;
    case DType::kF16:
      return kHalfTolerance;
    case DType::kBF16:
      return kBrainTolerance;
    case DType::kQ8_0:
      return kQuantisedTolerance;
    default:
      return kCacheTolerance;
  }
}

struct CacheOf {
  DType type = DType::kF32;
  std::int64_t cells = 0, heads = 0, head_dim = 0;
  CacheRole role = CacheRole::kKeys;
};

/// With m rows.
void store(Suite& suite, const CacheOf& of, std::int64_t m, std::string where) {
  if (!suite.wanted("store_cache")) return;
  Case c = suite.next();
  const std::int64_t width = of.heads * of.head_dim;
  Values cache = c.floats({of.cells, of.heads, of.head_dim});
  const Values x = c.floats({m, width});
  const ValueId state = c.state(of.type, {of.cells, of.heads, of.head_dim}, of.role, cache);
  Indices to;
  for (std::int64_t r = 0; r < m; ++r) to.push_back(static_cast<std::int32_t>((r * 37 + 5) % of.cells));
  for (std::int64_t r = 0; r < m; ++r)
    std::copy_n(x.begin() + r * width, width, cache.begin() + to[to_size(r)] * width);
  const ValueId rows = c.input({c.rows(m), width}, x);
  const ValueId last = c.graph.add(ops::StoreCache{of.role}, {state, rows, c.input({c.rows(m)}, to)}, "y");
  c.expect_state(state, last, std::move(cache));
  suite.take(c, std::move(where), stored_tolerance(of.type));
}

}  // namespace

void caches(Suite& suite) {
  for (const std::int64_t odd : {1, 5, 33})  // Cells of any number of floats.
    for (const std::int64_t n : {1, 3})
      for (const CacheRole role : {CacheRole::kKeys, CacheRole::kValues})
        store(suite, {DType::kF32, 64, n, odd, role}, 3, "F32 cells of " + text({n, odd}));
  const std::int64_t cells = 128, heads = 2, head_dim = 32, width = heads * head_dim;
  for (const DType type : kCacheTypes)
    for (const CacheRole role : {CacheRole::kKeys, CacheRole::kValues})
      for (const std::int64_t m : {0, 1, 9}) {
        const std::string where = std::string(info(type).name) +
                                  (role == CacheRole::kKeys ? " keys" : " values") + " rows " +
                                  std::to_string(m);
        store(suite, {type, cells, heads, head_dim, role}, m, where);
        for (const int kind : {0, 1, 2, 3}) {  // Copies, pairs, halves, halves of rotated keys.
          if (!suite.wanted("move_cells") || (kind > 0 && role == CacheRole::kValues)) continue;
          Case c = suite.next();
          Values cache = c.floats({cells, heads, head_dim});
          const ValueId state = c.state(type, {cells, heads, head_dim}, role, cache);
          ops::MoveCells op{role, {}};
          if (kind > 0) op.rope = {.head_dim = head_dim, .n_rot = 16, .neox = kind >= 2};
          if (kind == 3) op.hadamard = 16;
          Indices from, to, deltas;
          for (std::int64_t r = 0; r < m; ++r) {
            // Some moves read what an earlier one wrote, some stay in place, some turn nothing.
            from.push_back(r > 0 && r % 3 == 0 ? to.back() : c.integer(0, 127));
            to.push_back(r % 4 == 1 ? from.back() : c.integer(0, 127));
            deltas.push_back(r % 3 == 1 ? 0 : c.integer(-70000, 70000));
          }
          move_cells(op, cache, to_size(width), from, to, deltas);
          const Dim n = c.rows(m);
          const ops::MoveCells::Inputs inputs = {.cache = state,
                                                 .from = c.input({n}, from),
                                                 .to = c.input({n}, to),
                                                 .deltas = kind > 0 ? c.input({n}, deltas) : kNoValue};
          const ValueId last = c.graph.add(op, inputs, "y");
          c.expect_state(state, last, std::move(cache));
          suite.take(c,
                     where + (kind == 0   ? " copied"
                              : kind == 1 ? " turned"
                              : kind == 2 ? " turned neox"
                                          : " turned hadamard"),
                     stored_tolerance(type));
        }
      }
}

}  // namespace weft::conformance::cases
