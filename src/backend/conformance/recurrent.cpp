// Cases of layers that keep a running state.
#include "backend/conformance/case.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

enum class DeltaForm : std::uint8_t { kHeads, kTiled, kRows, kRemoved };

void delta_rule_case(Suite& suite, DeltaForm form, std::int64_t m, std::int64_t d_v, const Indices& from,
                     const Indices& to) {
  const bool removes = form == DeltaForm::kRemoved;
  const std::int64_t slots = 6, heads = 4, groups = removes ? 4 : 2, d_k = 5;
  Case c = suite.next();
  DeltaCase a;
  a.heads = heads;
  a.groups = to_size(groups);
  a.keys = d_k;
  a.columns = to_size(d_v);
  a.tiled = form == DeltaForm::kTiled;
  a.own_decays = removes || form == DeltaForm::kRows;
  const std::int64_t n_decay = a.own_decays ? heads * d_k : heads, n_beta = removes ? heads * d_k : heads;
  a.state = c.floats({slots, heads * d_k, d_v});
  a.q = c.floats({m, groups * d_k}, -0.5f, 0.5f);
  a.k = c.floats({m, groups * d_k}, -0.5f, 0.5f);
  a.v = c.floats({m, heads * d_v});
  a.decay = c.floats({m, n_decay}, 0.1f, 1.0f);
  a.beta = c.floats({m, n_beta}, 0.0f, 1.0f);
  if (removes) a.removed = c.floats({m, heads * d_k}, -0.5f, 0.5f);
  a.from = from;
  a.to = to;
  const ValueId state = c.state(DType::kF32, {slots, heads * d_k, d_v}, CacheRole::kSlots, a.state);
  const Dim n = c.rows(m);
  const ValueId q = c.input({n, groups * d_k}, a.q), k = c.input({n, groups * d_k}, a.k);
  const ValueId v = c.input({n, heads * d_v}, a.v);
  const ValueId decay = c.input({n, n_decay}, a.decay), beta = c.input({n, n_beta}, a.beta);
  const ValueId f = c.input({n}, from), t = c.input({n}, to);
  const ValueId removed = removes ? c.input({n, heads * d_k}, a.removed) : kNoValue;
  const ops::DeltaRule::Inputs inputs = {.state = state,
                                         .q = q,
                                         .k = k,
                                         .v = v,
                                         .decay = decay,
                                         .beta = beta,
                                         .from = f,
                                         .to = t,
                                         .removed = removed};
  const ValueId y = c.graph.add(ops::DeltaRule{.tiled = a.tiled}, inputs, "y");
  c.expect(y, delta_rule(a));
  c.expect_state(state, y, a.state);
  const char* const what[] = {"", " tiled", " rows", " removed"};
  suite.take(c, text({m, heads * d_v}) + what[static_cast<int>(form)], kProductTolerance);
}

}  // namespace

void recurrent(Suite& suite) {
  const std::int64_t slots = 6;
  for (const std::int64_t m : {0, 1, 5})
    for (const std::int64_t d : {3, 70}) {
      // Consecutive rows of one sequence, and one that starts from zero.
      Indices from, to;
      for (std::int32_t r = 0; r < m; ++r) {
        from.push_back(r == 3 ? -1 : r == 0 ? 5 : r - 1);
        to.push_back(r);
      }
      for (const bool bias : {false, true}) {
        if (!suite.wanted("short_conv")) continue;
        Case c = suite.next();
        const std::int64_t taps = 4;
        ConvCase a{to_size(d),
                   to_size(taps),
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
        a.columns = to_size(columns);
        a.n_state = n_state;
        a.heads = heads ? 4 : 0;
        a.groups = to_size(groups);
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
      for (const DeltaForm form :
           {DeltaForm::kHeads, DeltaForm::kTiled, DeltaForm::kRows, DeltaForm::kRemoved})
        if (suite.wanted("delta_rule")) delta_rule_case(suite, form, m, d, from, to);
    }
}

}  // namespace weft::conformance::cases
