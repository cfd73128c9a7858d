// Ops over values of any rank on the CPU. Views need no launch where possible, and chains stay whole. Bits
// depend neither on threads nor on the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "backend/cpu/device.h"

namespace weft::cpu {
namespace {

using Floats = std::vector<float>;

/// Runs a graph once with what its inputs hold.
class OneStep {
 public:
  OneStep(const Graph& graph, std::vector<std::int64_t> symbols, int n_threads = 2)
      : graph_(graph), symbols_(std::move(symbols)) {
    const auto device = make_device({.n_threads = n_threads});
    Bindings bindings(graph.values().size(), nullptr);
    for (std::size_t v = 0; v < graph.values().size(); ++v) {
      const ValueInfo& value = graph.values()[v];
      const std::vector<std::int64_t> dims = value.shape.dims(graph.bounds());
      if (value.kind == ValueKind::kWeight) {
        data_.push_back(random(value.shape.elements({}), v));
        tensors_[static_cast<ValueId>(v)] =
            device->create_weight(value.dtype, dims, {std::as_bytes(std::span(data_.back())), {}});
      } else if (value.kind == ValueKind::kInput || graph.is_output(static_cast<ValueId>(v))) {
        tensors_[static_cast<ValueId>(v)] = device->create_host_tensor(value.dtype, dims);
      } else {
        continue;
      }
      bindings[v] = tensors_[static_cast<ValueId>(v)].get();
      if (value.kind != ValueKind::kInput) continue;
      const Floats values = random(value.shape.elements(symbols_), v);
      auto* const to = reinterpret_cast<float*>(bindings[v]->host().data());
      if (value.dtype == DType::kF32) std::copy(values.begin(), values.end(), to);
    }
    const auto plan = device->compile(graph, bindings, {.n_threads = n_threads});
    description = plan->describe();
    n_launches = plan->n_launches();
    plan->submit(symbols_, bindings, {});
    plan->wait();
  }

  Floats read(Value value) const {
    const auto n = static_cast<std::size_t>(value.shape().elements(symbols_));
    const auto* const data = reinterpret_cast<const float*>(tensors_.at(value.id())->host().data());
    return {data, data + n};
  }

  std::string description;
  int n_launches = 0;

 private:
  static Floats random(std::int64_t n, std::size_t seed) {
    std::mt19937 engine(static_cast<unsigned>(seed));
    std::uniform_real_distribution<float> draw(-1.0f, 1.0f);
    Floats values(static_cast<std::size_t>(n));
    for (float& value : values) value = draw(engine);
    return values;
  }

  const Graph& graph_;
  std::vector<std::int64_t> symbols_;
  std::map<ValueId, std::unique_ptr<DeviceTensor>> tensors_;
  std::vector<Floats> data_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(GeneralOps, ViewsOfViewsAreReadWhereTheyLie) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value qkv = g.input("qkv", {n, 3 * 64});
  // Attention as people write it: queries and keys are cut out of one product and turned.
  const auto heads = [&](int part) {
    return transpose(reshape(slice(qkv, 1, part * 64, part * 64 + 64), {n, 4, 16}), 0, 1);
  };
  const Value scores = matmul(heads(0), transpose(heads(1))) * 0.25f;
  const Value weights = exp(scores - max(scores, {-1}, true));
  const Value seen = matmul(weights / sum(weights, {-1}, true), heads(2));
  const Value at_once = g.output("at_once", softmax(scores)),
              in_parts = g.output("in_parts", weights / sum(weights, {-1}, true));
  const Value y = g.output("y", reshape(transpose(seen, 0, 1), {n, 64}));
  const OneStep run(g, {33});
  // One copy, as the host reads it row after row.
  EXPECT_EQ(run.description.find("copy"), run.description.rfind("copy")) << run.description;
  const Floats whole = run.read(at_once), parts = run.read(in_parts);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-6f);
  const OneStep one_thread(g, {33}, 1);
  EXPECT_EQ(run.read(y), one_thread.read(y));
}

TEST(GeneralOps, AContiguousViewIsItsBase) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value x = g.input("x", {n, 32}), w = g.weight("w", {16, 8});
  const Value y = g.output("y", reshape(linear(reshape(relu(x), {4 * n, 8}), w), {n, 64}) + 1.0f);
  const OneStep run(g, {7});
  EXPECT_FALSE(has(run.description, "copy")) << run.description;
  EXPECT_EQ(run.read(y).size(), 7U * 64U);
}

TEST(GeneralOps, RowsOfOneShapeStayInOneChain) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value x = g.input("x", {n, 32}), b = g.weight("b", {32});
  const Value inner = clamp(tanh(-x) / b + 2.0f, 0.0f, 1.0f) - x;
  g.output("y", where(less(inner, b), inner * inner, x));
  const OneStep run(g, {9});
  EXPECT_EQ(run.n_launches, 1) << run.description;
  EXPECT_TRUE(has(run.description, "rows unary")) << run.description;
}

TEST(GeneralOps, AProductTakesNoResidualThatBroadcasts) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value x = g.input("x", {n, 32}), w = g.weight("w", {16, 32}), row = g.input("row", {1, 16}),
              column = g.input("column", {n, 1});
  const Value product = linear(x, w), again = g.output("again", linear(x, w) * 1.0f);
  const Value y = g.output("y", product + row), z = g.output("z", column + linear(x, w));
  const OneStep run(g, {5});
  const Floats got = run.read(y), other = run.read(z), plain = run.read(again);
  ASSERT_EQ(got.size(), plain.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i] - plain[i], got[i % 16] - plain[i % 16], 1e-5f);
    EXPECT_NEAR(other[i] - plain[i], other[i / 16 * 16] - plain[i / 16 * 16], 1e-5f);
  }
}

TEST(GeneralOps, ABiasMayBeMadeByTheStep) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value x = g.input("x", {n, 32}), w = g.weight("w", {16, 32}), v = g.weight("v", {40});
  const Value bias = sum(square(g.input("z", {n, 16})), {0}), part = slice(v, 0, 3, 35, 2);
  const Value y = g.output("y", linear(x, w, bias)), sum_of = g.output("sum", linear(x, w) + bias);
  const Value z = g.output("of_part", glu(Activation::kSilu, linear(x, w, part), linear(x, w, bias)));
  const Value parts = g.output("parts", silu(linear(x, w) + part) * (linear(x, w) + bias));
  const OneStep run(g, {21});
  const Floats a = run.read(y), b = run.read(sum_of), c = run.read(z), d = run.read(parts);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-5f);
    EXPECT_NEAR(c[i], d[i], 1e-5f);
  }
}

TEST(GeneralOps, ATableThatTheStepMakesIsWholeBeforeItIsRead) {
  Graph g;
  const Dim n = g.symbol("n", 1, 40);
  const Value x = g.input("x", {n, 8}), ids = g.input("ids", {n}, DType::kI32);
  const Value table = relu(x) + 1.0f;
  const Value y = g.output("y", take(table, ids)), all = g.output("all", table * 1.0f);
  const OneStep run(g, {40});
  const Floats got = run.read(y), rows = run.read(all);
  // All ids are 0.
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], rows[i % 8]);
}

TEST(GeneralOps, RowsOfAProductDoNotDependOnTheOthers) {
  for (const std::int64_t k : {1, 200, 450}) {
    Floats whole;
    for (const std::int64_t m : {260, 1, 7, 13, 100})
      for (const int threads : {1, 2, 3}) {
        Graph g;
        const Dim n = g.symbol("n", 1, 300);
        const Value y = g.output("y", matmul(g.input("a", {n, k}), g.input("b", {k, 150})));
        const Floats got = OneStep(g, {m}, threads).read(y);
        if (whole.empty()) whole = got;
        EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin())) << m << " " << threads;
      }
  }
}

TEST(GeneralOps, SumsDoNotDependOnThreads) {
  Graph g;
  const Dim n = g.symbol("n", 1, 3000);
  const Value x = g.input("x", {n, 70});
  const Value a = g.output("a", sum(x, {0})), b = g.output("b", sum(x, {1})), c = g.output("c", sum(x));
  const OneStep one(g, {2999}, 1), three(g, {2999}, 3);
  for (const Value value : {a, b, c}) EXPECT_EQ(one.read(value), three.read(value));
}

}  // namespace
}  // namespace weft::cpu
