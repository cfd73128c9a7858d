// Random graphs of nodes that backends fuse: products with and without biases, gates, norms, sums and views.
// With few outputs, nodes are fused into one launch. Each output must be the same as with all values as
// outputs, where nothing can be fused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "tensor/codec.h"
#include "weft/plan.h"

namespace weft {
namespace {

using Floats = std::vector<float>;
constexpr std::int64_t kColumns = 256;

/// The same for the same seed, whatever the outputs are.
class RandomGraph {
 public:
  RandomGraph(unsigned seed, std::int64_t n_rows, bool all_outputs) : random_(seed), n_rows_(n_rows) {
    for (const char* name : {"x", "z"}) {
      matrices_.push_back(g_.input(name, {n_rows, kColumns}));
      inputs_[name] = floats(n_rows * kColumns);
    }
    const Value both = vector("both", 2 * kColumns);
    vectors_ = {vector("v", kColumns), vector("w", kColumns)};
    for (int n = 12 + pick(12); n > 0; --n) add_some(both);
    if (all_outputs) {
      for (const Value& value : made_) output(value);
    } else {
      for (int i = 0; i < 2; ++i)
        output(made_[made_.size() - 1 - index(std::min<int>(pick(4), n_made() - 1))]);
    }
  }

  /// By output, after a step on devices of that number of threads.
  std::map<std::string, Floats> run(int n_threads) {
    Plan plan(g_, open_devices({"cpu"}), {.n_threads = n_threads});
    for (const auto& [name, bytes] : weights_) plan.set_weight(name, bytes);
    std::vector<Plan::InputData> given;
    for (const auto& [name, numbers] : inputs_) given.push_back({name, numbers});
    plan.run({}, given);
    std::map<std::string, Floats> outputs;
    for (const std::string& name : outputs_) outputs[name] = plan.read(name);
    return outputs;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int n_made() const { return static_cast<int>(made_.size()); }
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  /// One of the last ones, mostly.
  Value pick(const std::vector<Value>& values) {
    const auto n = static_cast<int>(values.size());
    return values[index(n > 4 && pick(3) != 0 ? n - 1 - pick(4) : pick(n))];
  }
  Floats floats(std::int64_t n) {
    Floats numbers(static_cast<std::size_t>(n));
    for (float& number : numbers) number = static_cast<float>(pick(2001) - 1000) / 1000.0f;
    return numbers;
  }
  Value vector(const std::string& name, std::int64_t n) {
    const Floats numbers = floats(n);
    const auto bytes = std::as_bytes(std::span(numbers));
    weights_[name] = {bytes.begin(), bytes.end()};
    return g_.weight(name, {n});
  }
  Value matrix() {
    constexpr DType kTypes[] = {DType::kF32, DType::kQ8_0, DType::kQ4_K, DType::kQ5_0, DType::kBF16};
    const DType type = kTypes[pick(5)];
    const std::string name = "m" + std::to_string(weights_.size());
    std::vector<std::byte>& bytes = weights_[name];
    const std::size_t row = row_bytes(type, kColumns);
    bytes.resize(row * kColumns);
    for (std::size_t r = 0; r < kColumns; ++r) pack_row(type, floats(kColumns), bytes.data() + r * row);
    return g_.weight(name, type, {kColumns, kColumns});
  }
  Value made(Value value) {
    made_.push_back(value.named("n" + std::to_string(made_.size())));
    return made_.back();
  }
  void output(Value value) {
    const std::string name = value.name();
    if (std::find(outputs_.begin(), outputs_.end(), name) != outputs_.end()) return;
    outputs_.push_back(name);
    g_.add_output(value.id());
  }

  Value product(Value x, const Value& both) {
    Value bias;
    switch (pick(4)) {
      case 0:
        bias = pick(vectors_);
        break;
      case 1: {
        const std::int64_t begin = pick(kColumns);
        bias = slice(both, 0, begin, begin + kColumns);
        break;
      }
      default:
        break;
    }
    return made(linear(x, matrix(), bias));
  }
  void add_some(const Value& both) {
    const auto keep = [&](Value value) { matrices_.push_back(made(value)); };
    const Value x = pick(matrices_), y = pick(matrices_);
    switch (pick(12)) {
      case 0:
        keep(product(x, both) + y);
        break;
      case 1:
      case 2: {
        const Value a = product(x, both), b = product(x, both);
        const bool first = pick(2) == 0;
        keep(glu(pick(2) == 0 ? Activation::kSilu : Activation::kGelu, first ? a : b, first ? b : a));
        break;
      }
      case 3:
        keep(gelu(product(x, both)));
        break;
      case 4:
        keep(product(rms_norm(x, pick(vectors_)), both));
        break;
      case 5:
        keep(rms_norm(x, pick(vectors_)) + y);
        break;
      case 6:
        keep(softcap(x + pick(vectors_), 3.0f));
        break;
      case 7:
        keep(slice(concat({x, y}), 1, 64, 64 + kColumns));
        break;
      case 8:
        vectors_.push_back(made(pick(vectors_) * 0.5f));
        break;
      case 9:
        vectors_.push_back(made(reshape(slice(x, 0, 0, 1), {kColumns})));
        break;
      case 10:
        keep(reshape(transpose(x), {n_rows_, kColumns}));
        break;
      default:
        keep(matmul(softmax(matmul(x, transpose(y)) * 0.05f), y));
        break;
    }
  }

  std::mt19937 random_;
  std::int64_t n_rows_;
  Graph g_;
  std::map<std::string, Floats> inputs_;
  std::map<std::string, std::vector<std::byte>> weights_;
  std::vector<Value> matrices_, vectors_, made_;
  std::vector<std::string> outputs_;
};

TEST(RandomGraphs, FusedNodesHaveTheBitsOfNodesOneByOne) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    constexpr std::int64_t kRows[] = {1, 5, 40};
    const std::int64_t n_rows = kRows[seed % 3];
    const auto truth = RandomGraph(seed, n_rows, true).run(1);
    for (const int n_threads : {1, 3})
      for (const auto& [name, numbers] : RandomGraph(seed, n_rows, false).run(n_threads)) {
        const Floats& expected = truth.at(name);
        ASSERT_EQ(numbers.size(), expected.size());
        for (std::size_t i = 0; i < numbers.size(); ++i)
          ASSERT_TRUE(numbers[i] == expected[i] || (std::isnan(numbers[i]) && std::isnan(expected[i])))
              << "seed " << seed << ", " << name << " at " << i << ": " << numbers[i] << " and "
              << expected[i];
      }
  }
}

}  // namespace
}  // namespace weft
