// Matrix products of every type on every instruction set of this machine, compared with double precision over
// the scalar codec's values. A column's result must also not depend on the other columns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "backend/conformance/truth.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"
#include "backend_cpu/float_testing.h"
#include "backend_cpu/matrix_testing.h"

namespace weft::cpu {
namespace {

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (const Isa isa : kIsas) {
    if (supported(isa)) found.push_back(isa);
  }
  return found;
}

/// The values of a quantised row.
template <class Group>
void read_groups(const std::byte* row, std::int64_t n, float* out) {
  constexpr std::int64_t kSize = sizeof(Group::q);
  for (std::int64_t k = 0; k < n; ++k) {
    Group group;
    std::memcpy(&group, row + static_cast<std::size_t>(k / kSize) * sizeof(group), sizeof(group));
    out[k] = static_cast<float>(group.q[k % kSize]) * group.scale;
  }
}

/// Rows of activations in the form that a weight wants, as float input and as the numbers that are
/// multiplied.
struct Inputs {
  std::int64_t n, columns;
  std::vector<float> values;
  std::vector<float> used;
  std::vector<std::byte> rows;
  std::size_t row_bytes;

  Inputs(const Kernels& kernels, DType weight, std::int64_t count, std::int64_t width,
         const std::function<float(std::int64_t, std::int64_t)>& value)
      : n(count), columns(width), row_bytes(activation_row_bytes(activation_form(weight), width)) {
    values.resize(static_cast<std::size_t>(n * columns));
    rows.resize(static_cast<std::size_t>(n) * row_bytes);
    for (std::int64_t c = 0; c < n; ++c) {
      for (std::int64_t k = 0; k < columns; ++k)
        values[static_cast<std::size_t>(c * columns + k)] = value(c, k);
    }
    used = values;
    for (std::int64_t c = 0; c < n; ++c) {
      const float* const x = values.data() + c * columns;
      std::byte* const to = rows.data() + static_cast<std::size_t>(c) * row_bytes;
      if (activation_form(weight) == Form::kPlain) {
        // What lies past a row must not matter.
        std::fill_n(reinterpret_cast<float*>(to), row_bytes / sizeof(float),
                    std::numeric_limits<float>::quiet_NaN());
        std::memcpy(to, x, static_cast<std::size_t>(columns) * sizeof(float));
        continue;
      }
      const Form form = activation_form(weight);
      kernels.quantise_row(form, x, columns, to);
      float* const values_used = used.data() + c * columns;
      if (form == Form::kQ8) read_groups<Q8Group>(to, columns, values_used);
      if (form == Form::kQ8Wide) read_groups<Q8Wide>(to, columns, values_used);
    }
  }
  Inputs(const Kernels& kernels, DType weight, std::int64_t count, std::int64_t width, std::uint64_t seed)
      : Inputs(kernels, weight, count, width, [random = Random(seed)](std::int64_t, std::int64_t) mutable {
          return random.uniform() + random.uniform();
        }) {}

  MatmulArgs args(const PackedMatrix& weight, std::vector<float>& out) const {
    return {.weight = &weight,
            .x = rows.data(),
            .x_row_bytes = row_bytes,
            .out = out.data(),
            .out_stride = weight.rows};
  }
};

/// [column][row] in double precision.
std::vector<double> product(const CanonicalMatrix& weight, const std::vector<float>& x, std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n * weight.rows));
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    const std::vector<float> row = weight.row(r);
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < weight.columns; ++k) {
        sum += static_cast<double>(row[static_cast<std::size_t>(k)]) *
               static_cast<double>(x[static_cast<std::size_t>(c * weight.columns + k)]);
      }
      out[static_cast<std::size_t>(c * weight.rows + r)] = sum;
    }
  }
  return out;
}

class MatmulTypes : public testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  const Kernels& table() const { return kernels(std::get<0>(GetParam())); }
  DType dtype() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, MatmulTypes,
                         testing::Combine(testing::ValuesIn(isas()), testing::ValuesIn(packed_types())),
                         [](const auto& param) {
                           return std::string(kernels(std::get<0>(param.param)).name) + "_" +
                                  test_name(std::get<1>(param.param));
                         });

TEST_P(MatmulTypes, EqualsDoublePrecision) {
  const std::vector<std::int64_t> widths =
      info(dtype()).block_elements == 256   ? std::vector<std::int64_t>{256, 1024}
      : info(dtype()).block_elements == 128 ? std::vector<std::int64_t>{640, 128}
      : info(dtype()).block_elements >= 32  ? std::vector<std::int64_t>{576, 64}
                                            : std::vector<std::int64_t>{2048, 100, 1};
  for (const std::int64_t columns : widths) {
    const CanonicalMatrix canonical(dtype(), 43, columns, 1);
    const Packed weight(canonical);
    const Inputs x(table(), dtype(), 11, columns, 2);
    std::vector<float> out(static_cast<std::size_t>(x.n * canonical.rows));
    table().matmul(x.args(weight.matrix, out), {0, weight.matrix.n_panels()}, {0, x.n});
    // Only float additions separate the kernel from the truth when both see the same activations.
    EXPECT_LT(nmse(out, product(canonical, x.used, x.n)), 1e-12) << columns << " columns";
    if (activation_form(dtype()) != Form::kPlain) {
      EXPECT_LT(nmse(out, product(canonical, x.values, x.n)), 1e-4) << columns << " columns";
    }
    if (dtype() == DType::kF32) {
      EXPECT_LT(nmse(out, product(canonical, x.values, x.n)), 1e-13) << columns << " columns";
    }
  }
}

// The widest codes with the widest activations: sums of 16 bits would overflow if they could.
TEST_P(MatmulTypes, ExtremeCodesDoNotSaturate) {
  if (activation_form(dtype()) == Form::kPlain) GTEST_SKIP() << "float types have no codes";
  for (const int fill : {0x00, 0xff, 0x0f, 0xf0, 0x7f, 0x80}) {
    CanonicalMatrix canonical(dtype(), 16, 256, 5);
    // Scales keep sane values where they are a block's first bytes, its last ones or (IQ1_M) among these.
    const auto block = static_cast<std::size_t>(info(dtype()).block_bytes);
    const bool last = dtype() == DType::kQ2_K || dtype() == DType::kQ3_K || dtype() == DType::kQ6_K ||
                      dtype() == DType::kTQ1_0 || dtype() == DType::kTQ2_0 || dtype() == DType::kIQ1_M;
    const std::size_t kept = dtype() == DType::kIQ1_M ? 8 : 4;
    for (std::size_t i = 0; i < canonical.bytes.size(); ++i) {
      const bool scale = last ? i % block >= block - kept : i % block < kept;
      if (!scale) canonical.bytes[i] = static_cast<std::byte>(fill);
    }
    const Packed weight(canonical);
    constexpr std::int64_t kN = 24;  // A tile of many columns, then one of few.
    const Inputs x(table(), dtype(), kN, 256, [](std::int64_t c, std::int64_t k) {
      return c % 4 == 0   ? 1.0f
             : c % 4 == 1 ? -1.0f
             : c % 4 == 2 ? (k % 2 == 0 ? 1.0f : -1.0f)
                          : (k % 3 == 0 ? -1.0f : 1.0f);
    });
    std::vector<float> out(16 * kN);
    table().matmul(x.args(weight.matrix, out), {0, 1}, {0, 20});
    table().matmul(x.args(weight.matrix, out), {0, 1}, {20, kN});
    const std::vector<double> truth = product(canonical, x.used, kN);
    double largest = 0.0;
    for (const double t : truth) largest = std::max(largest, std::abs(t));
    for (std::size_t i = 0; i < truth.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(out[i]), truth[i], largest * 1e-5 + 1e-6)
          << "codes " << fill << " output " << i;
    }
  }
}

TEST_P(MatmulTypes, ColumnsDoNotDependOnOtherColumns) {
  constexpr std::int64_t kRows = 37, kN = 40;
  const std::int64_t block = info(dtype()).block_elements;
  const std::int64_t columns = block == 1 ? 100 : block == 256 ? 512 : 5 * block;
  const CanonicalMatrix canonical(dtype(), kRows, columns, 7);
  const Packed weight(canonical);
  const Inputs x(table(), dtype(), kN, columns, 8);
  const std::int64_t n_panels = weight.matrix.n_panels();

  std::vector<float> alone(kN * kRows);
  for (std::int64_t c = 0; c < kN; ++c)
    table().matmul(x.args(weight.matrix, alone), {0, n_panels}, {c, c + 1});

  std::vector<float> out(kN * kRows);
  for (std::int64_t n = 2; n <= kN; ++n) {
    std::fill(out.begin(), out.end(), -1.0f);
    table().matmul(x.args(weight.matrix, out), {0, n_panels}, {kN - n, kN});
    const std::size_t first = static_cast<std::size_t>((kN - n) * kRows);
    ASSERT_EQ(std::memcmp(out.data() + first, alone.data() + first, static_cast<std::size_t>(n * kRows) * 4),
              0)
        << n << " columns";
    for (std::size_t i = 0; i < first; ++i) ASSERT_EQ(out[i], -1.0f);
  }

  // Panels and columns in pieces, in another order.
  std::fill(out.begin(), out.end(), -1.0f);
  for (const Range panels : {Range{2, 3}, Range{0, 2}}) {
    for (const Range range : {Range{23, 40}, Range{0, 5}, Range{5, 6}, Range{6, 23}}) {
      table().matmul(x.args(weight.matrix, out), panels, range);
    }
  }
  EXPECT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0);

  // Rows of x and of the output through tables: backwards, and every input twice.
  std::vector<std::int32_t> x_rows, out_rows;
  for (std::int32_t c = 0; c < kN; ++c) {
    x_rows.push_back(c / 2);
    out_rows.push_back(static_cast<std::int32_t>(kN) - 1 - c);
  }
  MatmulArgs args = x.args(weight.matrix, out);
  args.x_rows = x_rows.data();
  args.out_rows = out_rows.data();
  table().matmul(args, {0, n_panels}, {0, kN});
  for (std::int64_t c = 0; c < kN; ++c) {
    ASSERT_EQ(
        std::memcmp(out.data() + (kN - 1 - c) * kRows, alone.data() + c / 2 * kRows, kRows * sizeof(float)),
        0)
        << "column " << c;
  }
}

// More columns than one pass sums, and more of a panel than is unpacked at a time.
TEST_P(MatmulTypes, LongColumnsDoNotDependOnOtherColumns) {
  constexpr std::int64_t kRows = 21, kN = 151, kColumns = 10 * 256;
  const CanonicalMatrix canonical(dtype(), kRows, kColumns, 9);
  const Packed weight(canonical);
  const Inputs x(table(), dtype(), kN, kColumns, 10);
  std::vector<float> alone(kN * kRows), together(kN * kRows, -1.0f);
  for (std::int64_t c = 0; c < kN; ++c) table().matmul(x.args(weight.matrix, alone), {0, 2}, {c, c + 1});
  table().matmul(x.args(weight.matrix, together), {0, 2}, {0, kN});
  EXPECT_EQ(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(float)), 0);
}

class MatmulIsas : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& table() const { return kernels(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, MatmulIsas, testing::ValuesIn(isas()),
                         [](const auto& param) { return std::string(kernels(param.param).name); });

TEST_P(MatmulIsas, EpilogueFollowsItsFormula) {
  constexpr std::int64_t kRows = 21, kColumns = 64, kN = 19, kStride = 30;
  const CanonicalMatrix canonical(DType::kF32, kRows, kColumns, 1),
      gate_canonical(DType::kF32, kRows, kColumns, 2);
  const Packed weight(canonical), gate(gate_canonical);
  const Inputs x(table(), DType::kF32, kN, kColumns, 3);
  std::vector<float> bias, gate_bias, residual(kN * kStride);
  Random random(4);
  for (std::int64_t r = 0; r < kRows; ++r) {
    bias.push_back(random.uniform());
    gate_bias.push_back(random.uniform());
  }
  for (float& v : residual) v = random.uniform();
  const std::vector<double> y = product(canonical, x.values, kN), g = product(gate_canonical, x.values, kN);

  for (const Activation kind : {Activation::kNone, Activation::kSilu, Activation::kGelu, Activation::kGeluErf,
                                Activation::kGeluQuick, Activation::kRelu, Activation::kReluSquared}) {
    for (int parts = 0; parts < 16; ++parts) {
      const bool with_bias = parts & 1, with_gate = parts & 2, with_residual = parts & 4,
                 in_place = parts & 8;
      // The output is a window of wider rows; the rest of these rows must stay.
      std::vector<float> out = in_place ? residual : std::vector<float>(kN * kStride, 123.0f);
      MatmulArgs args = x.args(weight.matrix, out);
      args.out_stride = kStride;
      args.activation = kind;
      if (with_bias) args.bias = bias.data();
      if (with_gate) args.gate = &gate.matrix;
      if (with_gate && with_bias) args.gate_bias = gate_bias.data();
      if (with_residual) args.residual = in_place ? out.data() : residual.data();
      const std::vector<float> before = out;
      table().matmul(args, {0, weight.matrix.n_panels()}, {0, kN});
      for (std::int64_t c = 0; c < kN; ++c) {
        for (std::int64_t r = 0; r < kStride; ++r) {
          const auto at = static_cast<std::size_t>(c * kStride + r),
                     from = static_cast<std::size_t>(c * kRows + r);
          if (r >= kRows) {
            ASSERT_EQ(out[at], before[at]);
            continue;
          }
          const auto row = static_cast<std::size_t>(r);
          double expected = y[from] + (with_bias ? static_cast<double>(bias[row]) : 0.0);
          if (with_gate) {
            expected *= conformance::activate(
                kind, g[from] + (with_bias ? static_cast<double>(gate_bias[row]) : 0.0));
          } else {
            expected = conformance::activate(kind, expected);
          }
          if (with_residual) expected += static_cast<double>(residual[at]);
          ASSERT_NEAR(static_cast<double>(out[at]), expected, 2e-5 + 2e-5 * std::abs(expected))
              << "activation " << static_cast<int>(kind) << " parts " << parts << " column " << c << " row "
              << r;
        }
      }
    }
  }
}

// A gate's bias may be the only bias, and a gated column has the same bits in any batch. Pairs have matrices
// that are unpacked for many columns, matrices that are not, and one of each.
TEST_P(MatmulIsas, GatedColumnsDoNotDependOnOtherColumns) {
  constexpr std::int64_t kRows = 40, kColumns = 256, kN = 21;
  const std::pair<DType, DType> pairs[] = {{DType::kQ4_K, DType::kQ4_K},
                                           {DType::kQ6_K, DType::kQ6_K},
                                           {DType::kQ6_K, DType::kQ5_K},
                                           {DType::kQ4_K, DType::kQ6_K}};
  for (const auto& [dtype, gate_dtype] : pairs) {
    const CanonicalMatrix canonical(dtype, kRows, kColumns, 1),
        gate_canonical(gate_dtype, kRows, kColumns, 2);
    const Packed weight(canonical), gate(gate_canonical);
    const Inputs x(table(), dtype, kN, kColumns, 3);
    std::vector<float> bias, gate_bias(kRows, 0.25f), residual(kN * kRows);
    for (std::int64_t r = 0; r < kRows; ++r) bias.push_back(0.125f * static_cast<float>(r));
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 7);
    std::vector<float> alone(kN * kRows), together(kN * kRows);
    for (std::vector<float>* out : {&alone, &together}) {
      MatmulArgs args = x.args(weight.matrix, *out);
      args.gate = &gate.matrix;
      args.bias = bias.data();
      args.gate_bias = gate_bias.data();
      args.residual = residual.data();
      args.activation = Activation::kSilu;
      if (out == &together) table().matmul(args, {0, 3}, {0, kN});
      for (std::int64_t c = 0; c < kN && out == &alone; ++c) {
        for (std::int64_t p = 0; p < 3; ++p) table().matmul(args, {p, p + 1}, {c, c + 1});
      }
    }
    EXPECT_EQ(std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)), 0);
    const std::vector<double> y = product(canonical, x.used, kN), g = product(gate_canonical, x.used, kN);
    std::vector<double> truth(y.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      truth[i] = (y[i] + static_cast<double>(bias[i % kRows])) *
                     conformance::activate(Activation::kSilu, g[i] + 0.25) +
                 static_cast<double>(residual[i]);
    EXPECT_LT(nmse(together, truth), 1e-11) << test_name(dtype) << " " << test_name(gate_dtype);
  }
}

TEST_P(MatmulIsas, QuantisesToNearestEven) {
  constexpr std::int64_t kN = 32 * 9;
  Random random(1);
  std::vector<float> x;
  for (std::int64_t k = 0; k < kN; ++k)
    x.push_back(random.uniform() * std::ldexp(1.0f, static_cast<int>(k / 32) * 8 - 40));
  for (std::int64_t k = 64; k < 96; ++k) x[static_cast<std::size_t>(k)] = 0.0f;
  // 127 makes the scale 1: halves show which way ties go.
  const float ties[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -126.5f};
  std::copy(std::begin(ties), std::end(ties), x.begin() + 96);
  for (std::int64_t k = 104; k < 128; ++k) x[static_cast<std::size_t>(k)] = 0.0f;

  std::vector<Q8Group> groups(kN / 32);
  table().quantise_row(Form::kQ8, x.data(), kN, reinterpret_cast<std::byte*>(groups.data()));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    float largest = 0.0f;
    int sum = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const float value = x[32 * g + i];
      largest = std::max(largest, std::abs(value));
      const double error =
          std::abs(static_cast<double>(groups[g].q[i]) * static_cast<double>(groups[g].scale) -
                   static_cast<double>(value));
      EXPECT_LE(error, static_cast<double>(groups[g].scale) * 0.50001);
      EXPECT_GE(groups[g].q[i], -127);
      sum += groups[g].q[i];
    }
    EXPECT_EQ(groups[g].scale, largest / 127.0f);
    EXPECT_EQ(groups[g].offset, -128 * sum);
    EXPECT_EQ(groups[g].scaled_sum, groups[g].scale * static_cast<float>(sum));
  }
  EXPECT_THAT(std::vector<int>(groups[3].q, groups[3].q + 8),
              testing::ElementsAre(127, 0, 2, 2, 0, -2, -2, -126));
  EXPECT_EQ(groups[2].scale, 0.0f);
}

TEST_P(MatmulIsas, WideGroupsHaveOneScaleAndTheirSums) {
  Random random(3);
  std::vector<float> x(2 * kWideColumns);
  for (float& v : x) v = random.uniform();
  x[kWideColumns + 40] = -7.0f;
  Q8Wide groups[2];
  table().quantise_row(Form::kQ8Wide, x.data(), 2 * kWideColumns, reinterpret_cast<std::byte*>(groups));
  EXPECT_EQ(groups[1].scale, 7.0f / 127.0f);
  EXPECT_EQ(groups[1].q[40], -127);
  for (std::size_t g = 0; g < 2; ++g) {
    for (std::size_t i = 0; i < kWideColumns; ++i) {
      const double error =
          std::abs(static_cast<double>(groups[g].q[i]) * static_cast<double>(groups[g].scale) -
                   static_cast<double>(x[kWideColumns * g + i]));
      EXPECT_LE(error, static_cast<double>(groups[g].scale) * 0.50001);
    }
    for (std::size_t i = 0; i < 2 * kWideBlocks; ++i) {
      int sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += groups[g].q[16 * i + k];
      EXPECT_EQ(groups[g].sums[i], sum);
      EXPECT_EQ(groups[g].offsets[i], -128 * sum);
    }
    for (std::size_t i = 0; i < kWideBlocks; ++i)
      EXPECT_EQ(groups[g].block_sums[i], groups[g].sums[2 * i] + groups[g].sums[2 * i + 1]);
  }
}

TEST_P(MatmulIsas, RowsAreQuantisedTogetherAsAlone) {
  constexpr std::int64_t kStride = 610, kRows = 7;
  const std::int32_t numbers[] = {6, 0, 3, 5, 2};
  std::vector<float> x;
  Random random(10);
  for (int k = 0; k < kStride * kRows; ++k) x.push_back(random.uniform() * 3.0f);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  for (const Form form : {Form::kQ8, Form::kQ8Wide})
    for (const std::int64_t n : {40, 128, 576, 600}) {
      const std::size_t bytes = activation_row_bytes(form, n);
      std::vector<std::byte> alone(bytes * kRows), together(bytes * kRows);
      for (const std::int32_t row : numbers)
        table().quantise_row(form, x.data() + row * kStride, n,
                             alone.data() + static_cast<std::size_t>(row) * bytes);
      table().quantise_rows({.form = form,
                             .x = x.data(),
                             .x_stride = kStride,
                             .n = n,
                             .out = together.data(),
                             .out_stride = static_cast<std::int64_t>(bytes),
                             .rows = numbers},
                            std::size(numbers));
      EXPECT_EQ(alone, together) << n;
    }
}

TEST_P(MatmulIsas, QuantisedRowsAreTheSameOnAllMachines) {
  std::vector<float> x;
  Random random(9);
  for (int k = 0; k < 1000; ++k) x.push_back(random.uniform() * 3.0f);
  const auto rows = [&](Form form) {
    const std::size_t bytes = activation_row_bytes(form, 1000);
    std::vector<std::byte> mine(bytes), generic(bytes);
    table().quantise_row(form, x.data(), 1000, mine.data());
    kernels(Isa::kGeneric).quantise_row(form, x.data(), 1000, generic.data());
    EXPECT_EQ(mine, generic);
    return mine;
  };
  rows(Form::kQ8Wide);
  const std::vector<std::byte> mine = rows(Form::kQ8);
  Q8Group last;
  std::memcpy(&last, mine.data() + 31 * sizeof(last), sizeof(last));
  for (int i = 8; i < 32; ++i) EXPECT_EQ(last.q[i], 0) << "padding";
}

TEST_P(MatmulIsas, NonFiniteActivationsAreSeenInTheResult) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_K}) {
    const CanonicalMatrix canonical(dtype, 16, 256, 1);
    const Packed weight(canonical);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const Inputs x(table(), dtype, 2, 256,
                     [bad](std::int64_t c, std::int64_t k) { return c == 1 && k == 40 ? bad : 0.5f; });
      std::vector<float> out(32);
      table().matmul(x.args(weight.matrix, out), {0, 1}, {0, 2});
      for (std::size_t r = 0; r < 16; ++r) {
        EXPECT_TRUE(std::isfinite(out[r]));
        EXPECT_FALSE(std::isfinite(out[16 + r]));
      }
    }
  }
}

// What multiplies and adds in one rounding has the same bits, whatever its vectors and instructions.
TEST(Isa, ProductsAreTheSameBits) {
  const std::vector<Isa> alike = {Isa::kAvx512, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Bf16,
                                  Isa::kAmx,    Isa::kNeon, Isa::kI8mm};
  const auto first = std::find_if(alike.begin(), alike.end(), supported);
  if (first == alike.end()) GTEST_SKIP() << "nothing to compare with";
  constexpr std::int64_t kRows = 21, kN = 42, kColumns = 512;
  for (const DType dtype : packed_types()) {
    const CanonicalMatrix canonical(dtype, kRows, kColumns, 1);
    const Packed weight(canonical);
    const auto product_of = [&](Isa isa) {
      const Inputs x(kernels(isa), dtype, kN, kColumns, 2);
      std::vector<float> out(static_cast<std::size_t>(kN * kRows));
      kernels(isa).matmul(x.args(weight.matrix, out), {0, weight.matrix.n_panels()}, {0, kN});
      return out;
    };
    const std::vector<float> expected = product_of(*first);
    for (auto isa = first + 1; isa != alike.end(); ++isa) {
      // AVX2 multiplies the entries of this type's table as signed numbers, others add their zero as a float.
      const bool apart = (*isa == Isa::kAvx2 || *first == Isa::kAvx2) && dtype == DType::kIQ4_XS;
      if (!supported(*isa) || apart) continue;
      EXPECT_TRUE(product_of(*isa) == expected) << kernels(*isa).name << " " << test_name(dtype);
    }
  }
}

TEST(Isa, TheBestIsSupported) {
  EXPECT_TRUE(supported(Isa::kGeneric));
  EXPECT_TRUE(supported(best_isa()));
  EXPECT_STREQ(kernels(Isa::kGeneric).name, "generic");
}

}  // namespace
}  // namespace weft::cpu
