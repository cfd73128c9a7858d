// What low-rank adapters add to a product's rows: one launch gives the bits of the nodes one by one, however
// many uses of experts a row has, wherever ids and flags lie, and whether or not weights are packed.
#include "backend/cpu/launches/expert_means.h"

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
constexpr std::int64_t kExperts = 3, kIn = 9, kLow = 20, kOut = 1003;  // Several tasks, and an odd panel.
constexpr std::int64_t kMaxRows = 8, kMaxUses = 12;

/// Which experts the rows of a step use, and whether they change rows at all.
struct Uses {
  Ints begins, ends, flags, experts;
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
  };
  return all;
}

Floats numbers(std::int64_t n, std::uint64_t seed) {
  Random random(seed);
  Floats result(static_cast<std::size_t>(n));
  for (float& value : result) value = random.uniform();
  return result;
}

/// How y = x W + means is computed.
struct Variant {
  DType type = DType::kF32;
  bool packed = true, strided = false;
  bool one_by_one = false;  ///< What is between is seen, so all nodes are run.
  int n_threads = 2;
};

/// On a device of its own.
class Rig {
 public:
  explicit Rig(const Variant& variant)
      : variant_(variant), device_(make_device({.n_threads = variant.n_threads, .repack = variant.packed})) {
    const Dim n(1, graph_.add_symbol("n", 1, kMaxRows)), u(1, graph_.add_symbol("u", 0, kMaxUses));
    const auto input = [&](const char* name, DType dtype, const Shape& shape) {
      return inputs_[name] = graph_.add_input(name, dtype, shape);
    };
    /// Of each pair of numbers the second.
    const auto second = [&](ValueId pairs, const Shape& shape) {
      const ValueId column = graph_.add(ops::Slice{.axis = 1, .begin = 1, .end = 2}, {pairs}, "column");
      return shape.rank() == 2 ? column : graph_.add(ops::Reshape{shape}, {column}, "vector");
    };
    const ValueId x = input("x", DType::kF32, {n, kIn}), low = input("low", DType::kF32, {u, 1, kLow});
    const ValueId factors = input("factors", DType::kF32, {u, 1});
    const ValueId begins = input("begins", DType::kI32, {n}), ends = input("ends", DType::kI32, {n});
    const ValueId ids = variant.strided ? second(input("ids", DType::kI32, {u, 2}), {u, 1})
                                        : input("ids", DType::kI32, {u, 1});
    const ValueId flags =
        variant.strided ? second(input("flags", DType::kI32, {n, 2}), {n}) : input("flags", DType::kI32, {n});
    w_ = graph_.add_weight("w", DType::kF32, {kOut, kIn});
    experts_ = graph_.add_weight("experts", variant.type, {kExperts, kOut, kLow});
    const ValueId y = graph_.add(ops::Matmul{}, {w_, x}, "y");
    const ValueId weighted = graph_.add(ops::SumExperts{}, {low, factors}, "weighted");
    const ValueId products = graph_.add(ops::MatmulExperts{}, {experts_, weighted, ids}, "products");
    const ValueId each = graph_.add(ops::Reshape{{u, kOut}}, {products}, "each");
    const ValueId mean = graph_.add(ops::RaggedMean{}, {each, begins, ends}, "mean");
    const ValueId sum = graph_.add(ops::Add{}, {y, mean}, "sum");
    out_ = graph_.add(ops::Override{}, {y, sum, flags}, "out");
    graph_.add_output(out_);
    if (variant.one_by_one) graph_.add_output(sum);
    compile();
  }

  Floats run(const Uses& uses) {
    const std::int64_t symbols[] = {uses.n_rows(), uses.n_uses()};
    write("x", numbers(uses.n_rows() * kIn, 3));
    write("low", numbers(uses.n_uses() * kLow, 5));
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

  Floats truth(const Uses& uses) const {
    const Floats x = numbers(uses.n_rows() * kIn, 3), low = numbers(uses.n_uses() * kLow, 5),
                 factors = numbers(uses.n_uses(), 7);
    Floats y;
    for (std::size_t r = 0; r < uses.begins.size(); ++r)
      for (std::int64_t o = 0; o < kOut; ++o) {
        double sum = dot(w_rows_.row(o), x.data() + r * kIn);
        double added = 0.0;
        for (std::int32_t use = uses.begins[r]; use < uses.ends[r]; ++use) {
          const auto u = static_cast<std::size_t>(use);
          added += static_cast<double>(factors[u]) *
                   dot(expert_rows_.row(uses.experts[u] * kOut + o), low.data() + u * kLow);
        }
        if (uses.flags[r] != 0 && uses.begins[r] < uses.ends[r])
          sum += added / static_cast<double>(uses.ends[r] - uses.begins[r]);
        y.push_back(static_cast<float>(sum));
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
        tensors_.push_back(
            device_->create_weight(value.dtype, shape, {id == w_ ? w_rows_.bytes : expert_rows_.bytes, {}}));
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
  ValueId w_ = kNoValue, experts_ = kNoValue, out_ = kNoValue;
  const CanonicalMatrix w_rows_{DType::kF32, kOut, kIn, 11};
  const CanonicalMatrix expert_rows_{variant_.type, kExperts* kOut, kLow, 13};
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
  Bindings bindings_;
  std::unique_ptr<DevicePlan> plan_;  // Last: what it is bound to outlives it.
};

TEST(ExpertMeans, AreTheNodesOneByOne) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    Rig one_by_one({.type = type, .one_by_one = true});
    ASSERT_EQ(one_by_one.description().find("expert_means"), std::string::npos);
    std::vector<Floats> expected;
    for (const Uses& uses : all_uses()) {
      expected.push_back(one_by_one.run(uses));
      const Floats truth = one_by_one.truth(uses);
      ASSERT_EQ(expected.back().size(), truth.size());
      for (std::size_t k = 0; k < truth.size(); ++k) ASSERT_NEAR(expected.back()[k], truth[k], 2e-5f) << k;
    }
    for (const bool packed : {true, false})
      for (const bool strided : {false, true})
        for (const int n_threads : {1, 2}) {
          SCOPED_TRACE(std::string(info(type).name) + (packed ? " packed" : "") +
                       (strided ? " strided" : ""));
          Rig rig({.type = type, .packed = packed, .strided = strided, .n_threads = n_threads});
          ASSERT_NE(rig.description().find("expert_means"), std::string::npos) << rig.description();
          for (std::size_t i = 0; i < 2 * expected.size(); ++i) {
            const std::size_t step = i * 3 % expected.size();  // One behind any other.
            EXPECT_EQ(rig.run(all_uses()[step]), expected[step]) << step;
          }
        }
  }
}

}  // namespace
}  // namespace weft::cpu
