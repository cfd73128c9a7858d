// Low-rank adapters fused into a product have the bits of separate nodes. This holds for any number of uses
// of experts in a row, any place of ids and flags, packed or not, and with a gate.
#include "backend/cpu/launches/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "backend/cpu/device.h"
#include "matrix_testing.h"

namespace weft::cpu {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;
constexpr std::int64_t kExperts = 3, kMoreExperts = 5, kIn = 64,
                       kOut = 1003;  // Several tasks, and an odd panel.
constexpr std::int64_t kMostLowRankRows = 24, kMaxUses = 24;

/// Which experts the rows of a step use, and whether they change rows at all.
struct Uses {
  Ints begins, ends, flags, experts;
  Ints rows() const {  ///< Of x, by use.
    Ints of(experts.size());
    for (std::size_t row = 0; row < begins.size(); ++row)
      for (std::int32_t use = begins[row]; use < ends[row]; ++use)
        of[static_cast<std::size_t>(use)] = static_cast<std::int32_t>(row);
    return of;
  }
  std::int64_t n_rows() const { return static_cast<std::int64_t>(begins.size()); }
  std::int64_t n_uses() const { return static_cast<std::int64_t>(experts.size()); }
};

const std::vector<Uses>& all_uses() {
  static const std::vector<Uses> all = {
      {{2, 0, 1}, {3, 1, 2}, {1, 1, 1}, {2, 0, 2}},                 // One each, in another order.
      {{0, 0, 1, 1}, {0, 1, 1, 2}, {1, 1, 0, 1}, {1, 0}},           // One, or none.
      {{0, 0, 1, 4}, {0, 1, 4, 5}, {1, 1, 1, 1}, {1, 0, 1, 2, 2}},  // None, one, three.
      {{0, 1, 4, 0}, {1, 4, 5, 3}, {1, 0, 1, 1}, {1, 0, 1, 2, 2}},  // A row that stays; uses of two rows.
      {{0, 0}, {0, 0}, {1, 0}, {}},
      {{0, 1}, {1, 2}, {1, 1}, {1, 2}},  // Not the first expert.
      // More than a tile, and neighbours in it that have the same.
      {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
       Ints(11, 1),
       {2, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0}},
      [] {  // So many that weights are unpacked for them, and two more.
        Uses many;
        for (std::int32_t row = 0; row < 22; ++row) {
          many.begins.push_back(row);
          many.ends.push_back(row + 1);
          many.flags.push_back(row % 4 != 3);
          many.experts.push_back(row % 3);
        }
        return many;
      }(),
  };
  return all;
}

Floats numbers(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  Floats result(static_cast<std::size_t>(n));
  for (float& value : result) value = random.uniform();
  return result;
}

/// How y = x W + means, or the gated product of two such, is computed.
struct Variant {
  DType type = DType::kF32, weights = DType::kF32;
  std::int64_t rank = 20;
  bool gated = false, gate_first = false;
  bool plain = false, plain_gate = false;  ///< Without an adapter of its own.
  bool more_for_gate = false;              ///< Its adapters are kMoreExperts.
  bool packed = true, strided = false;
  bool one_by_one = false;  ///< What is between is seen, so all nodes are run.
  int n_threads = 2;
};

/// On a device of its own.
class LowRankRig {
 public:
  explicit LowRankRig(const Variant& variant)
      : variant_(variant), device_(make_device({.n_threads = variant.n_threads, .repack = variant.packed})) {
    const Dim n(1, graph_.add_symbol("n", 1, kMostLowRankRows)), u(1, graph_.add_symbol("u", 0, kMaxUses));
    const auto input = [&](const char* name, DType dtype, const Shape& shape) {
      return inputs_[name] = graph_.add_input(name, dtype, shape);
    };
    /// Of each pair of numbers the second.
    const auto second = [&](ValueId pairs, const Shape& shape) {
      const ValueId column = graph_.add(ops::Slice{.axis = 1, .begin = 1, .end = 2}, {pairs}, "column");
      return shape.rank() == 2 ? column : graph_.add(ops::Reshape{shape}, {column}, "vector");
    };
    const ValueId x = input("x", DType::kF32, {n, kIn}), rows = input("rows", DType::kI32, {u});
    const ValueId factors = input("factors", DType::kF32, {u, 1});
    const ValueId begins = input("begins", DType::kI32, {n}), ends = input("ends", DType::kI32, {n});
    const ValueId ids = variant.strided ? second(input("ids", DType::kI32, {u, 2}), {u, 1})
                                        : input("ids", DType::kI32, {u, 1});
    const ValueId flags =
        variant.strided ? second(input("flags", DType::kI32, {n, 2}), {n}) : input("flags", DType::kI32, {n});
    ValueId gathered = kNoValue;
    const auto product = [&](const std::string& name, bool plain, bool more = false) {
      const std::int64_t n_experts = more ? kMoreExperts : kExperts;
      weights_[graph_.add_weight(name + "w", variant.weights, {kOut, kIn})] = &w_rows_;
      if (plain) return graph_.add(ops::Matmul{}, {graph_.find(name + "w"), x}, name + "y");
      weights_[graph_.add_weight(name + "a", variant.type, {n_experts, variant.rank, kIn})] =
          more ? &more_a_rows_ : &a_rows_;
      weights_[graph_.add_weight(name + "b", variant.type, {n_experts, kOut, variant.rank})] =
          more ? &more_b_rows_ : &b_rows_;
      const auto weight = [&](const char* which) { return graph_.find(name + which); };
      const ValueId y = graph_.add(ops::Matmul{}, {weight("w"), x}, name + "y");
      if (gathered == kNoValue) gathered = graph_.add(ops::GetRows{}, {x, rows}, "gathered");
      const ValueId low = graph_.add(ops::MatmulExperts{}, {weight("a"), gathered, ids}, name + "low");
      const ValueId weighted = graph_.add(ops::SumExperts{}, {low, factors}, name + "weighted");
      const ValueId up = graph_.add(ops::MatmulExperts{}, {weight("b"), weighted, ids}, name + "up");
      const ValueId each = graph_.add(ops::Reshape{{u, kOut}}, {up}, name + "each");
      const ValueId mean = graph_.add(ops::RaggedMean{}, {each, begins, ends}, name + "mean");
      const ValueId sum = graph_.add(ops::Add{}, {y, mean}, name + "sum");
      if (variant.one_by_one) graph_.add_output(sum);
      return graph_.add(ops::Override{}, {y, sum, flags}, name + "out");
    };
    ValueId gate = kNoValue;
    if (variant.gated && variant.gate_first)
      gate = product("gate_", variant.plain_gate, variant.more_for_gate);
    out_ = product("", variant.plain);
    if (variant.gated && !variant.gate_first)
      gate = product("gate_", variant.plain_gate, variant.more_for_gate);
    if (variant.gated) out_ = graph_.add(ops::Glu{Activation::kSilu}, {gate, out_}, "glu");
    graph_.add_output(out_);
    compile();
  }

  /// `rows_off` is added to the rows of x that are read.
  Floats run(const Uses& uses, std::int32_t rows_off = 0) {
    const std::int64_t symbols[] = {uses.n_rows(), uses.n_uses()};
    write("x", numbers(uses.n_rows() * kIn, 3));
    Ints rows = uses.rows();
    for (std::int32_t& row : rows) row += rows_off;
    write("rows", rows);
    write("factors", numbers(uses.n_uses(), 7));
    write("begins", uses.begins);
    write("ends", uses.ends);
    write("ids", variant_.strided ? pairs(uses.experts) : uses.experts);
    write("flags", variant_.strided ? pairs(uses.flags) : uses.flags);
    plan_->submit(symbols, bindings_, {.shapes = true});
    plan_->wait();
    const auto* const y =
        reinterpret_cast<const float*>(bindings_[static_cast<std::size_t>(out_)]->host().data());
    return {y, y + uses.n_rows() * kOut};
  }

  /// Where nothing is gated.
  Floats truth(const Uses& uses) const {
    const Floats x = numbers(uses.n_rows() * kIn, 3), factors = numbers(uses.n_uses(), 7);
    const std::int64_t rank = variant_.rank;
    const Ints rows = uses.rows();
    Floats y;
    for (std::size_t r = 0; r < uses.begins.size(); ++r) {
      const float* const row = x.data() + r * kIn;
      for (std::int64_t o = 0; o < kOut; ++o) {
        double sum = dot(w_rows_.row(o), row), added = 0.0;
        for (std::int32_t use = uses.begins[r]; use < uses.ends[r]; ++use) {
          const auto u = static_cast<std::size_t>(use);
          const Floats b = b_rows_.row(uses.experts[u] * kOut + o);
          for (std::int64_t k = 0; k < rank; ++k)
            added += static_cast<double>(factors[u]) * b[static_cast<std::size_t>(k)] *
                     dot(a_rows_.row(uses.experts[u] * rank + k), x.data() + rows[u] * kIn);
        }
        if (uses.flags[r] != 0 && uses.begins[r] < uses.ends[r])
          sum += added / static_cast<double>(uses.ends[r] - uses.begins[r]);
        y.push_back(static_cast<float>(sum));
      }
    }
    return y;
  }

  std::string description() const { return plan_->describe(); }

 private:
  static double dot(const Floats& row, const float* x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < row.size(); ++i)
      sum += static_cast<double>(row[i]) * static_cast<double>(x[i]);
    return sum;
  }
  static Ints pairs(const Ints& seconds) {
    Ints result;
    for (const std::int32_t second : seconds) result.insert(result.end(), {1, second});
    return result;
  }
  template <typename T>
  void write(const std::string& name, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    std::copy(bytes.begin(), bytes.end(),
              bindings_[static_cast<std::size_t>(inputs_.at(name))]->host().begin());
  }

  void compile() {
    for (std::size_t v = 0; v < graph_.values().size(); ++v) {
      const ValueInfo& value = graph_.values()[v];
      const auto id = static_cast<ValueId>(v);
      const std::vector<std::int64_t> shape = value.shape.dims(graph_.bounds());
      if (value.kind == ValueKind::kWeight) {
        tensors_.push_back(device_->create_weight(value.dtype, shape, {weights_.at(id)->bytes, {}}));
      } else if (value.kind == ValueKind::kInput || graph_.is_output(id)) {
        tensors_.push_back(device_->create_host_tensor(value.dtype, shape));
      }
      const bool is_bound = value.kind != ValueKind::kResult || graph_.is_output(id);
      bindings_.push_back(is_bound ? tensors_.back().get() : nullptr);
    }
    plan_ =
        device_->compile(graph_, bindings_, {.allowed = {.shapes = true}, .n_threads = variant_.n_threads});
  }

  const Variant variant_;
  const std::shared_ptr<Device> device_;
  Graph graph_;
  std::map<std::string, ValueId> inputs_;
  ValueId out_ = kNoValue;
  std::map<ValueId, const CanonicalMatrix*> weights_;
  const CanonicalMatrix w_rows_{variant_.weights, kOut, kIn, 11};
  const CanonicalMatrix a_rows_{variant_.type, kExperts* variant_.rank, kIn, 13};
  const CanonicalMatrix b_rows_{variant_.type, kExperts* kOut, variant_.rank, 17};
  const CanonicalMatrix more_a_rows_{variant_.type, kMoreExperts* variant_.rank, kIn, 19};
  const CanonicalMatrix more_b_rows_{variant_.type, kMoreExperts* kOut, variant_.rank, 23};
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
  Bindings bindings_;
  std::unique_ptr<DevicePlan> plan_;  // Last: the bound tensors outlive it.
};

/// The bits of all steps, where nodes are run one by one.
std::vector<Floats> one_by_one(Variant variant) {
  variant.one_by_one = true;
  LowRankRig rig(variant);
  EXPECT_EQ(rig.description().find("low_rank"), std::string::npos);
  std::vector<Floats> all;
  for (const Uses& uses : all_uses()) all.push_back(rig.run(uses));
  return all;
}

void expect_same_bits(const Variant& of, const std::vector<Floats>& expected) {
  for (const bool packed : {true, false})
    for (const bool strided : {false, true})
      for (const int n_threads : {1, 2}) {
        SCOPED_TRACE(std::string(info(of.type).name) + (packed ? " packed" : "") +
                     (strided ? " strided" : ""));
        Variant variant = of;
        variant.packed = packed;
        variant.strided = strided;
        variant.n_threads = n_threads;
        LowRankRig rig(variant);
        ASSERT_NE(rig.description().find("+ adapters"), std::string::npos) << rig.description();
        ASSERT_EQ(rig.description().find("ragged_mean"), std::string::npos) << rig.description();
        ASSERT_EQ(rig.description().find("gathered"), std::string::npos) << rig.description();
        for (std::size_t i = 0; i < 2 * expected.size(); ++i) {
          const std::size_t step = i * 5 % expected.size();  // In a mixed order.
          EXPECT_EQ(rig.run(all_uses()[step]), expected[step]) << step;
        }
      }
}

TEST(LowRank, IsTheNodesOneByOne) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Variant variant = {.type = type};
    const std::vector<Floats> expected = one_by_one(variant);
    LowRankRig rig(variant);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Floats truth = rig.truth(all_uses()[i]);
      ASSERT_EQ(expected[i].size(), truth.size());
      for (std::size_t k = 0; k < truth.size(); ++k)
        ASSERT_NEAR(expected[i][k], truth[k], 1e-4f) << i << " " << k;
    }
    expect_same_bits(variant, expected);
  }
}

TEST(LowRank, WorksWithAnyRankGatesAndQuantisedWeights) {
  for (const std::int64_t rank : {1, 16, 150})
    for (const bool gated : {false, true}) {
      const DType weights = rank == 16 ? DType::kQ5_0 : DType::kQ8_0;
      const Variant variant = {.type = DType::kF16, .weights = weights, .rank = rank, .gated = gated};
      SCOPED_TRACE("rank " + std::to_string(rank) + (gated ? " gated" : ""));
      expect_same_bits(variant, one_by_one(variant));
      if (gated) {
        EXPECT_NE(LowRankRig(variant).description().find("gated by"), std::string::npos);
      }
    }
}

TEST(LowRank, WorksNextToAProductWithoutAdapter) {
  for (const bool gate_first : {false, true})
    for (const bool plain_gate : {false, true}) {
      const Variant variant = {.type = DType::kF16,
                               .weights = DType::kQ8_0,
                               .gated = true,
                               .gate_first = gate_first,
                               .plain = !plain_gate,
                               .plain_gate = plain_gate};
      SCOPED_TRACE(std::string(plain_gate ? "of the product" : "of the gate") +
                   (gate_first ? ", which is first" : ""));
      EXPECT_NE(LowRankRig(variant).description().find("gated by"), std::string::npos);
      expect_same_bits(variant, one_by_one(variant));
    }
}

TEST(LowRank, WorksNextToAGateOfHigherRank) {
  for (const bool gate_first : {false, true}) {
    const Variant variant = {.type = DType::kF16,
                             .weights = DType::kQ8_0,
                             .gated = true,
                             .gate_first = gate_first,
                             .more_for_gate = true};
    SCOPED_TRACE(gate_first ? "the gate is first" : "the product is first");
    expect_same_bits(variant, one_by_one(variant));
  }
}

// As rows that are read by their numbers are elsewhere.
TEST(LowRank, RowsThatAreNotThereAreTheNearest) {
  LowRankRig fused({}), one_by_one({.one_by_one = true});
  for (const Uses& uses : all_uses())
    for (const std::int32_t off : {-(1 << 24), 1 << 24})
      EXPECT_EQ(fused.run(uses, off), one_by_one.run(uses, off)) << off;
}

}  // namespace
}  // namespace weft::cpu
