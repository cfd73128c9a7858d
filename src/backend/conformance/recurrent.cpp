// Cases of layers that keep a running state.
#include "backend/conformance/case.h"

namespace weft::conformance::cases {

void recurrent(Suite& suite) {
  const std::int64_t slots = 6;
  for (const std::int64_t m : {0, 1, 5})
    for (const std::int64_t d : {3, 70}) {
      // Rows of one text, one after another, and one that begins anew.
      Indices from, to;
      for (std::int32_t r = 0; r < m; ++r) {
        from.push_back(r == 3 ? -1 : r == 0 ? 5 : r - 1);
        to.push_back(r);
      }
      for (const bool bias : {false, true}) {
        if (!suite.wanted("short_conv")) continue;
        Case c = suite.next();
        const std::int64_t taps = 4;
        ConvCase a{static_cast<std::size_t>(d),
                   static_cast<std::size_t>(taps),
                   c.floats({slots, taps - 1, d}),
                   c.floats({m, d}),
                   c.floats({d, taps}),
                   bias ? c.floats({d}) : Values{},
                   from,
                   to};
        const ValueId state = c.state(DType::kF32, {slots, taps - 1, d}, CacheRole::kSlots, a.state);
        const Dim n = c.rows(m);
        const ValueId x = c.input({n, d}, a.x), w = c.weight(DType::kF32, {d, taps}, a.weight);
        const ValueId f = c.input({n}, from), t = c.input({n}, to);
        const ValueId b = bias ? c.weight(DType::kF32, {d}, a.bias) : kNoValue;
        const ValueId y = c.graph.add(
            ops::ShortConv{}, {.state = state, .x = x, .weight = w, .from = f, .to = t, .bias = b}, "y");
        c.expect(y, short_conv(a));
        c.expect_state(state, y, a.state);
        suite.take(c, text({m, d}) + (bias ? " bias" : ""), kProductTolerance);
      }
      for (const bool heads : {false, true}) {
        if (!suite.wanted("selective_scan")) continue;
        Case c = suite.next();
        const std::int64_t n_state = 5, columns = heads ? 4 * d : d, e = heads ? 4 : columns,
                           groups = heads ? 2 : 1;
        ScanCase a;
        a.columns = static_cast<std::size_t>(columns);
        a.n_state = n_state;
        a.heads = heads ? 4 : 0;
        a.groups = static_cast<std::size_t>(groups);
        a.state = c.floats({slots, n_state, columns});
        a.x = c.floats({m, columns});
        a.dt = c.floats({m, e}, 0.01f, 1.0f);
        a.b = c.floats({m, groups * n_state});
        a.c = c.floats({m, groups * n_state});
        a.a = c.floats(heads ? Shape{e} : Shape{columns, n_state}, -2.0f, -0.1f);
        a.skip = c.floats({e});
        a.from = from;
        a.to = to;
        const ValueId state = c.state(DType::kF32, {slots, n_state, columns}, CacheRole::kSlots, a.state);
        const Dim n = c.rows(m);
        const ValueId x = c.input({n, columns}, a.x), dt = c.input({n, e}, a.dt);
        const ValueId b = c.input({n, groups * n_state}, a.b), cc = c.input({n, groups * n_state}, a.c);
        const ValueId w = c.weight(DType::kF32, heads ? Shape{e} : Shape{columns, n_state}, a.a);
        const ValueId skip = c.weight(DType::kF32, {e}, a.skip);
        const ValueId f = c.input({n}, from), t = c.input({n}, to);
        const ops::SelectiveScan::Inputs inputs = {
            .state = state, .x = x, .dt = dt, .b = b, .c = cc, .a = w, .skip = skip, .from = f, .to = t};
        const ValueId y = c.graph.add(ops::SelectiveScan{}, inputs, "y");
        c.expect(y, selective_scan(a));
        c.expect_state(state, y, a.state);
        suite.take(c, text({m, columns}) + (heads ? " heads" : ""), kProductTolerance);
      }
    }
}

}  // namespace weft::conformance::cases
