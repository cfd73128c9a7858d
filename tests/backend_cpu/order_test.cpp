// Ops that count, move, order and draw elements, attention and recurrent cells on the CPU: bits depend
// neither on threads nor on the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "backend/cpu/device.h"
#include "backend/random.h"

namespace weft::cpu {
namespace {

using Floats = std::vector<float>;

Floats order_floats(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-2.0f, 2.0f);
  Floats values(n);
  for (float& value : values) value = draw(engine);
  return values;
}

/// The output of a graph whose inputs hold random numbers, I32 ones from 0 to 8.
Floats run(const Graph& graph, const std::vector<std::int64_t>& symbols, int n_threads, Isa isa = best_isa(),
           int* n_launches = nullptr) {
  const auto device = make_device({.isa = isa, .n_threads = n_threads});
  Bindings bindings(graph.values().size(), nullptr);
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  std::vector<Floats> weights;
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueInfo& value = graph.values()[v];
    const std::vector<std::int64_t> dims = value.shape.dims(graph.bounds());
    if (value.kind == ValueKind::kWeight) {
      weights.push_back(order_floats(static_cast<std::size_t>(value.shape.elements({})), 7));
      tensors.push_back(
          device->create_weight(value.dtype, dims, {std::as_bytes(std::span(weights.back())), {}}));
    } else if (value.kind == ValueKind::kInput || graph.is_output(static_cast<ValueId>(v))) {
      tensors.push_back(device->create_host_tensor(value.dtype, dims));
    } else {
      continue;
    }
    bindings[v] = tensors.back().get();
    if (value.kind != ValueKind::kInput) continue;
    const Floats values =
        order_floats(static_cast<std::size_t>(value.shape.elements(symbols)), static_cast<unsigned>(v));
    auto* const to = bindings[v]->host().data();
    if (value.dtype == DType::kF32) {
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>(to));
    } else {
      std::transform(values.begin(), values.end(), reinterpret_cast<std::int32_t*>(to),
                     [](float x) { return static_cast<std::int32_t>(2.0f * x + 4.0f); });
    }
  }
  const auto plan = device->compile(graph, bindings, {.n_threads = n_threads});
  if (n_launches != nullptr) *n_launches = plan->n_launches();
  for (int step = 0; step < 2; ++step) {
    plan->submit(symbols, bindings, {});
    plan->wait();
  }
  const ValueId output = graph.outputs()[0];
  const auto* const data = reinterpret_cast<const float*>(bindings[index(output)]->host().data());
  return {data, data + graph.value(output).shape.elements(symbols)};
}

void expect_equal_bits(const Floats& a, const Floats& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

TEST(Order, BitsDoNotDependOnThreads) {
  std::map<std::string, std::pair<Graph, std::vector<std::int64_t>>> graphs;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> symbols, auto make) {
    auto& [graph, own] = graphs[name];
    own = std::move(symbols);
    graph.output("y", make(graph));
  };
  add("cumsum of one line", {50000},
      [](Graph& g) { return cumsum(g.input("x", {g.symbol("n", 1, 60000)}), 0); });
  add("cumsum of columns", {5000},
      [](Graph& g) { return cumsum(g.input("x", {g.symbol("n", 1, 6000), 7}), 0); });
  add("cumsum of rows", {50}, [](Graph& g) { return cumsum(g.input("x", {g.symbol("n", 1, 60), 3000}), 1); });
  add("index_add", {700}, [](Graph& g) {
    const Dim n = g.symbol("n", 1, 800);
    return index_add(g.input("x", {9, 300}), g.input("rows", {n}, DType::kI32), g.input("source", {n, 300}));
  });
  add("random", {70000}, [](Graph& g) {
    return random_normal(g.input("counter", {1}, DType::kI32), {g.symbol("n", 1, 80000)}, 5);
  });
  add("attention", {150}, [](Graph& g) {
    const Dim n = g.symbol("n", 1, 200);
    const Value q = g.input("q", {2, 4, n, 24}), k = g.input("k", {2, 2, n, 24}),
                v = g.input("v", {2, 2, n, 40});
    return scaled_dot_product_attention(q, k, v, {.bias = g.input("bias", {n, n}), .causal = true});
  });
  add("lstm", {9}, [](Graph& g) {
    const Value x = g.input("x", {g.symbol("t", 1, 10), 100, 4 * 50});
    return lstm(x, g.weight("w", {4 * 50, 50})).y;
  });
  add("gru", {9}, [](Graph& g) {
    const Value x = g.input("x", {g.symbol("t", 1, 10), 3, 3 * 50});
    return gru(x, g.weight("w", {3 * 50, 50})).y;
  });
  for (const auto& [name, of] : graphs) {
    const Floats alone = run(of.first, of.second, 1);
    for (const int n_threads : {2, 3, 8}) expect_equal_bits(alone, run(of.first, of.second, n_threads), name);
  }
}

TEST(Order, AttentionRowsDoNotDependOnOtherRows) {
  const auto make = [](Graph& g, std::int64_t first, std::int64_t n) {
    const Value q = slice(g.input("q", {1, 6, 70, 16}), 2, first, first + n);
    return scaled_dot_product_attention(q, g.input("k", {1, 2, 90, 16}), g.input("v", {1, 2, 90, 16}),
                                        {.softcap = 2.0f});
  };
  Graph all, one;  // The one is computed with the heads that read the same keys.
  all.output("y", make(all, 0, 70));
  one.output("y", make(one, 69, 1));
  const Floats of_all = run(all, {}, 2), of_one = run(one, {}, 2);
  for (std::size_t head = 0; head < 6; ++head)
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(of_one[head * 16 + i], of_all[(head * 70 + 69) * 16 + i]);
}

/// With the heads of three values {n, 3, 24}: one product after another, or one op.
Value attention(Graph& g, bool written_out, bool biased, bool masked) {
  const Dim n = g.symbol("n", 1, 200);
  const auto heads = [&](const char* name) { return permute(g.input(name, {n, 3, 24}), {1, 0, 2}); };
  const Value q = heads("q"), k = heads("k"), v = heads("v");
  const Value bias = biased   ? g.input("bias", {3, n, n})
                     : masked ? g.input("mask", {n, n}, DType::kI32)
                              : Value();
  if (!written_out) return scaled_dot_product_attention(q, k, v, {.bias = bias, .scale = 0.25f});
  Value scores = matmul(q, transpose(k)) / 4.0f;
  if (biased) scores = scores + bias;
  if (masked) scores = where(bias, scores, -INFINITY);
  return matmul(softmax(scores), v);
}

TEST(Order, AttentionThatIsWrittenOutIsOneLaunch) {
  for (const bool biased : {false, true})
    for (const bool masked : {false, true}) {
      if (biased && masked) continue;
      Graph parts, whole;
      parts.output("y", attention(parts, true, biased, masked));
      whole.output("y", attention(whole, false, biased, masked));
      int n_launches = 0;
      const Floats y = run(parts, {150}, 2, best_isa(), &n_launches);
      EXPECT_EQ(n_launches, 1);
      expect_equal_bits(y, run(whole, {150}, 2), "parts");
    }
}

TEST(Order, ComputesScoresThatAreRead) {
  Graph g;
  const Value q = g.input("q", {2, 5, 8}), k = g.input("k", {2, 7, 8}), v = g.input("v", {2, 7, 4});
  const Value weights = softmax(matmul(q, transpose(k)));
  g.output("y", matmul(weights, v));
  g.output("weights", weights * 1.0f);
  int n_launches = 0;
  run(g, {}, 2, best_isa(), &n_launches);
  EXPECT_GT(n_launches, 2);
}

TEST(Order, SoftmaxAcrossHasTheBitsOfRows) {
  Graph across, rows;
  for (Graph* const g : {&across, &rows}) {
    const Value x = g->input("x", {g->symbol("n", 1, 90), 50});
    g->output("y", g == &across ? transpose(softmax(x, 0)) * 1.0f : softmax(transpose(x)));
  }
  expect_equal_bits(run(across, {77}, 3), run(rows, {77}, 1), "softmax");
}

TEST(Order, RandomNumbersAreTheSameByEveryInstructionSet) {
  for (const auto make : {random_uniform, random_normal}) {
    Graph g;
    g.output("y", make(g.input("counter", {1}, DType::kI32), {1001}, 42, 0.0f, 1.0f, Where::current()));
    const Floats truth = run(g, {}, 1);
    for (const Isa isa : kIsas)
      if (supported(isa)) expect_equal_bits(truth, run(g, {}, 2, isa), kernels(isa).name);
  }
}

/// The known results that the authors of Philox publish with their library (Random123, kat_vectors).
TEST(Order, PhiloxHasItsKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t most = 0xffffffff;
  EXPECT_EQ(philox({most, most, most, most}, most, most),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Order, NormalNumbersAreNormal) {
  Graph g;
  g.output("y", random_normal(g.input("counter", {1}, DType::kI32), {200000}, 9));
  double sum = 0.0, squares = 0.0, beyond_two = 0.0;
  const Floats x = run(g, {}, 2);
  for (const float value : x) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
    beyond_two += std::fabs(value) > 2.0f ? 1.0 : 0.0;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 1.0, 0.02);
  EXPECT_NEAR(beyond_two / n, 0.0455, 0.002);
}

}  // namespace
}  // namespace weft::cpu
