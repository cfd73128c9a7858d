// Cases of ops that work row by row.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/conformance/case.h"
#include "base/enumerators.h"
#include "base/to_size.h"

namespace weft::conformance::cases {

void elementwise(Suite& suite) {
  for (const std::int64_t m : {0, 1, 3, 17})
    for (const std::int64_t d : {1, 5, 64, 300}) {
      const Shape fixed = {m, d};
      const std::string where = text(fixed);
      for (const bool vector : {false, true}) {
        for (const Op& op : {Op(ops::Add{}), Op(ops::Mul{})}) {
          if (!suite.wanted(to_string(op))) continue;
          Case c = suite.next();
          const Shape shape = {c.rows(m), d};
          const Values a = c.floats(fixed);
          Values b = c.floats(vector ? Shape{d} : fixed);
          const ValueId x = c.input(shape, a);
          const ValueId other = vector ? c.weight(DType::kF32, {d}, b) : c.input(shape, b);
          c.expect(c.graph.add(op, {x, other}, "y"), binary(op, a, b));
          suite.take(c, where + (vector ? " + {d}" : ""), kFloatTolerance);
        }
      }
      std::vector<Op> unary = {ops::Scale{-0.37f}, ops::Softcap{1.5f}, ops::Softcap{30.0f}};
      for (const Activation kind : base::enumerators<Activation>()) unary.emplace_back(ops::Activate{kind});
      for (const Op& op : unary) {
        if (!suite.wanted(to_string(op))) continue;
        Case c = suite.next();
        const Values a = c.floats(fixed, -8.0f, 8.0f);
        c.expect(c.graph.add(op, {c.input({c.rows(m), d}, a)}, "y"), conformance::unary(op, a));
        suite.take(c, where + parameter_text(op), kFloatTolerance);
      }
      // Small and large values: e^x of these goes past every float.
      for (const double most : {1.0, 200.0}) {
        if (!suite.wanted("softmax")) break;
        Case c = suite.next();
        const Values a = c.floats(fixed, -most, most);
        c.expect(c.graph.add(ops::Softmax{}, {c.input({c.rows(m), d}, a)}, "y"), softmax(a, to_size(d)));
        suite.take(c, where + " to " + std::to_string(static_cast<int>(most)), kFloatTolerance);
      }
      // As masks leave them: without every third element, and every second row without any; rows of nothing
      // but the lowest float are the same everywhere.
      for (const double masked : {-std::numeric_limits<double>::infinity(),
                                  static_cast<double>(std::numeric_limits<float>::lowest())}) {
        if (!suite.wanted("softmax")) break;
        Case c = suite.next();
        Values a = c.floats(fixed);
        for (std::size_t i = 0; i < a.size(); ++i)
          if (i % 3 == 1 || i / to_size(d) % 2 == 1) a[i] = masked;
        c.expect(c.graph.add(ops::Softmax{}, {c.input({c.rows(m), d}, a)}, "y"), softmax(a, to_size(d)));
        suite.take(c, where + (std::isinf(masked) ? " masked" : " masked with the lowest float"),
                   kFloatTolerance);
      }
      for (const Activation kind : base::enumerators<Activation>()) {
        if (!suite.wanted("glu")) break;
        Case c = suite.next();
        const ops::Glu op{kind};
        const Values a = c.floats(fixed, -8.0f, 8.0f), b = c.floats(fixed);
        const Shape shape = {c.rows(m), d};
        const ValueId gate = c.input(shape, a), up = c.input(shape, b);
        c.expect(c.graph.add(op, {gate, up}, "y"), glu(op, a, b));
        suite.take(c, where + parameter_text(op), kFloatTolerance);
      }
      for (const std::size_t n : {1, 3}) {
        if (!suite.wanted("concat")) break;
        Case c = suite.next();
        // Widths d, 2 d, 3 d.
        std::vector<ValueId> parts;
        Values truth;
        std::vector<Values> values;
        for (std::size_t i = 0; i < n; ++i) {
          const auto width = d * static_cast<std::int64_t>(i + 1);
          values.push_back(c.floats({m, width}));
          parts.push_back(c.input({c.rows(m), width}, values.back()));
        }
        for (std::int64_t row = 0; row < m; ++row)
          for (std::size_t i = 0; i < n; ++i) {
            const auto width = d * static_cast<std::int64_t>(i + 1);
            const auto from = values[i].begin() + row * width;
            truth.insert(truth.end(), from, from + width);
          }
        c.expect(c.graph.add(ops::Concat{}, parts, "y"), truth);
        suite.take(c, where + " of " + std::to_string(n), 0.0);
      }
      if (suite.wanted("override")) {
        Case c = suite.next();
        const Shape shape = {c.rows(m), d};
        const Values a = c.floats(fixed), b = c.floats(fixed);
        Indices use(to_size(m));
        for (auto& u : use) u = c.integer(0, 1);
        Values truth = a;
        for (std::size_t i = 0; i < truth.size(); ++i)
          if (use[i / to_size(d)] != 0) truth[i] = b[i];
        const ValueId x = c.input(shape, a), rows = c.input(shape, b), uses = c.input({c.rows(m)}, use);
        c.expect(c.graph.add(ops::Override{}, {x, rows, uses}, "y"), std::move(truth));
        suite.take(c, where, 0.0);
      }
    }
}

void norms(Suite& suite) {
  if (!suite.wanted("norm")) return;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr const char* kNames[] = {" rms", " layer", " l2"};
  for (const NormKind kind : base::enumerators<NormKind>())
    for (const std::int64_t m : {0, 1, 5})
      for (const std::int64_t group : {1, 7, 64, 300})
        for (const std::int64_t n_groups : {1, 3})
          for (const int n_vectors : {0, 1, 2}) {
            Case c = suite.next();
            const ops::Norm op{kind, 1e-5f, n_groups == 1 ? 0 : group};
            Values x = c.floats({m, group * n_groups}, -1.0f, 3.0f);
            if (m == 5) x[to_size(group * n_groups)] = kNan;  // Its group is none, then.
            Values weight = c.floats({group}), bias = c.floats({group});
            const ValueId in = c.input({c.rows(m), group * n_groups}, x);
            const ValueId w = n_vectors > 0 ? c.weight(DType::kF32, {group}, weight) : kNoValue;
            const ValueId b = n_vectors > 1 ? c.weight(DType::kF32, {group}, bias) : kNoValue;
            if (n_vectors < 1) weight.clear();
            if (n_vectors < 2) bias.clear();
            c.expect(c.graph.add(op, {in, w, b}, "y"), norm(op, x, to_size(group), weight, bias));
            // A group of one element is its own mean: all that is left is rounding.
            suite.take(c,
                       text({m, group * n_groups}) + kNames[static_cast<int>(kind)] + " groups of " +
                           std::to_string(group) + " vectors " + std::to_string(n_vectors),
                       group == 1 ? 1e-3 : kFloatTolerance);
          }
}

void get_rows(Suite& suite) {
  if (!suite.wanted("get_rows")) return;
  for (const DType type : kWeightTypes)
    for (const std::int64_t m : {0, 1, 7}) {
      const std::int64_t block = info(type).block_elements;
      for (const std::int64_t d : {block, block == 1 ? 37 : 2 * block}) {
        Case c = suite.next();
        Values table = c.floats({9, d});
        const ValueId weight = c.weight(type, {9, d}, table);
        Indices ids(to_size(m));
        Values truth;
        for (auto& id : ids) {
          id = c.integer(0, 8);
          truth.insert(truth.end(), table.begin() + id * d, table.begin() + (id + 1) * d);
        }
        c.expect(c.graph.add(ops::GetRows{}, {weight, c.input({c.rows(m)}, ids)}, "y"), std::move(truth));
        suite.take(c,
                   std::string(info(type).name) + " {9," + std::to_string(d) + "} rows " + std::to_string(m),
                   1e-6);
      }
    }
}

void ropes(Suite& suite) {
  if (!suite.wanted("rope")) return;
  for (const bool neox : {false, true})
    for (const std::int64_t m : {0, 1, 5})
      for (const int n_rot : {8, 24, 32})
        for (const int scaling : {0, 1, 2, 3}) {
          Case c = suite.next();
          ops::Rope op{.head_dim = 32, .n_rot = n_rot, .neox = neox};
          if (scaling == 1) op.freq_scale = 0.25f;
          if (scaling == 2) {
            op = {32, n_rot, neox, 1e6f, 0.125f, 1.0f, 0.9f, 32.0f, 1.0f, 4096};
          }
          Values factors = c.floats({n_rot / 2}, 0.5f, 8.0f);
          const Values x = c.floats({m, 96});
          Indices positions(to_size(m));
          for (auto& p : positions) p = c.integer(0, 200000);
          const ValueId in = c.input({c.rows(m), 96}, x), at = c.input({c.rows(m)}, positions);
          const ValueId f = scaling == 3 ? c.weight(DType::kF32, {n_rot / 2}, factors) : kNoValue;
          if (f == kNoValue) factors.clear();
          c.expect(c.graph.add(op, {in, at, f}, "y"), rope(op, x, 96, positions, factors));
          suite.take(c,
                     text({m, 96}) + (neox ? " neox" : " pairs") + " n_rot " + std::to_string(n_rot) +
                         (scaling == 0   ? ""
                          : scaling == 1 ? " linear"
                          : scaling == 2 ? " yarn"
                                         : " factors"),
                     kFloatTolerance);
        }
}

void hadamards(Suite& suite) {
  if (!suite.wanted("hadamard")) return;
  for (int block = 2; block <= ops::Hadamard::kMaxBlock; block *= 2)
    for (const std::int64_t m : {0, 1, 5})
      for (const std::int64_t n : {1, 3}) {
        Case c = suite.next();
        const Values x = c.floats({m, n * block});
        c.expect(c.graph.add(ops::Hadamard{block}, {c.input({c.rows(m), n * block}, x)}, "y"),
                 hadamard({block}, x));
        suite.take(c, text({m, n * block}) + " block " + std::to_string(block), kFloatTolerance);
      }
}

void best(Suite& suite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t m : {0, 1, 5})
    for (const std::int64_t d : {1, 7, 16, 50, 700, 9000})
      for (const int n : {1, 2, 40})
        for (const bool counted : {false, true}) {
          if (n > d || !suite.wanted("best")) continue;
          Case c = suite.next();
          Values x = c.floats({m, d});
          // Equal values, NaN and infinities, different in each row.
          for (std::size_t i = 0; i < x.size(); ++i) {
            const std::int32_t draw = c.integer(0, 19);
            if (draw < 8) x[i] = std::round(x[i]);
            if (draw == 8) x[i] = kNan;
            if (draw == 9) x[i] = -kInf;
            if (draw == 10 && d > 16) x[i] = kInf;
          }
          if (m > 1) std::fill_n(x.begin(), d, kNan);
          Indices counts(counted ? to_size(m) : 0);
          for (std::int32_t& count : counts) count = c.integer(0, n);
          const ValueId in = c.input({c.rows(m), d}, x);
          const ValueId of_rows = counted ? c.input({c.rows(m)}, counts) : kNoValue;
          c.expect(c.graph.add(ops::Best{n}, {in, of_rows}, "y"),
                   conformance::best(x, to_size(d), to_size(n), counts));
          suite.take(c, text({m, d}) + " n " + std::to_string(n) + (counted ? " counted" : ""), 0.0);
        }
}

void log_sums(Suite& suite) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t m : {0, 1, 6})
    for (const std::int64_t d : {1, 7, 16, 50, 700})
      for (const double shift : {0.0, -300.0, 300.0}) {  // Where e^x is 0, and where it is infinite.
        if (!suite.wanted("log_sum_exp")) continue;
        Case c = suite.next();
        Values x = c.floats({m, d});
        for (double& value : x) {
          value = static_cast<double>(static_cast<float>(4.0 * value + shift));
          const std::int32_t draw = c.integer(0, 19);
          if (draw == 0) value = kNan;
          if (draw == 1) value = -kInf;
        }
        Indices ids(to_size(m));
        for (std::int32_t& id : ids) id = c.integer(-2, static_cast<std::int32_t>(d) - 1);
        const auto fill = [&](std::int64_t row, double value) {
          if (row < m) std::fill_n(x.begin() + row * d, d, value);
        };
        fill(1, kNan);
        fill(2, -kInf);
        if (m > 3) x[to_size(3 * d)] = kInf;
        const ValueId in = c.input({c.rows(m), d}, x);
        const ValueId of_rows = c.input({c.rows(m)}, ids);
        c.expect(c.graph.add(ops::LogSumExp{}, {in, of_rows}, "y"), log_sum_exp(x, to_size(d), ids));
        suite.take(c, text({m, d}) + " shifted by " + std::to_string(static_cast<int>(shift)),
                   kFloatTolerance);
      }
}

}  // namespace weft::conformance::cases
