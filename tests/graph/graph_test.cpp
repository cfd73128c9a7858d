#include "weft/graph.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "weft/error.h"

namespace weft {
namespace {

TEST(Shape, SymbolsAndConstantsMultiply) {
  Graph graph;
  const SymbolId n = graph.add_symbol("n", 0, 7);
  const Shape shape = {Dim(3, n), 4, 5};
  const std::int64_t symbols[] = {2};
  EXPECT_EQ(shape.rows(symbols), 24);
  EXPECT_EQ(shape.columns(), 5);
  EXPECT_EQ(shape.elements(symbols), 120);
  EXPECT_EQ(shape.row_dim(), Dim(12, n));
  EXPECT_EQ(to_string(shape, graph.symbols()), "[3*n, 4, 5]");
  EXPECT_EQ(shape.rows(graph.bounds()), 84);
}

/// n and m, and their values in a step.
class DimTest : public testing::Test {
 protected:
  std::string text(const Dim& dim) const { return to_string(dim, symbols); }
  Dim n{1, 0}, m{1, 1};
  std::vector<Symbol> symbols = {{"n", 1, 512}, {"m", 0, 9}};
  std::vector<std::int64_t> values = {7, 3};
};

TEST_F(DimTest, EqualExpressionsAreEqualHoweverTheyAreWritten) {
  EXPECT_EQ(n + m, m + n);
  EXPECT_EQ(n + n, 2 * n);
  EXPECT_EQ(2 * (n + m) - n, n + 2 * m);
  EXPECT_EQ((n + 1) * (m + 2), m * n + 2 * n + m + 2);
  EXPECT_EQ((6 * n + 5) / 3, 2 * n + 1);
  EXPECT_EQ((2 * n + 3) / 2, n + 1);
  EXPECT_EQ((n + 4) / 4, n / 4 + 1);
  EXPECT_EQ(Dim(-7) / 2, Dim(-4));
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_EQ((n - n).is_constant(), true);
  EXPECT_EQ(n * m - n * m + 5, Dim(5));
  EXPECT_FALSE(n / 2 == m / 2);
  EXPECT_FALSE(n / 2 == n / 3);
  EXPECT_FALSE(n * m == n);
  EXPECT_FALSE(n == Dim(1));
}

TEST_F(DimTest, ValuesAreThoseOfTheFormula) {
  for (const std::int64_t a : {1, 2, 5, 8, 9, 100})
    for (const std::int64_t b : {0, 1, 2, 9}) {
      const std::int64_t step[] = {a, b};
      EXPECT_EQ(((n + 2 * 1 - 3) / 2 + 1).value(step), (a + 1) / 2);
      EXPECT_EQ(((n + m) / 3 * n + 7).value(step), (a + b) / 3 * a + 7);
      EXPECT_EQ((((n + 1) / 2 + 1) / 2).value(step), ((a + 1) / 2 + 1) / 2);
      EXPECT_EQ(((n * 5 + m) / 4).value(step), (a * 5 + b) / 4);
    }
  const Dim swapped[] = {m + 1, n};
  EXPECT_EQ((2 * n + m / 2).with(swapped), 2 * m + 2 + n / 2);
}

TEST_F(DimTest, PrintsReadableExpressions) {
  EXPECT_EQ(text((n + 2 - 5) / 2 + 1), "((n + 1) / 2) - 1");
  EXPECT_EQ(text(2 * n + m), "2*n + m");
  EXPECT_EQ(text(n * m - 1), "n*m - 1");
  EXPECT_EQ(text(n - n), "0");
}

TEST_F(DimTest, RejectsInvalidExpressions) {
  EXPECT_THROW(n - m, Error);
  EXPECT_THROW(n - 2 * n, Error);
  EXPECT_THROW(n / 0, Error);
  EXPECT_THROW(n / -2, Error);
  EXPECT_THROW(Dim(1, -5) + n, Error);
  EXPECT_THROW(n * std::numeric_limits<std::int64_t>::max() * 2, Error);
  EXPECT_THROW(Dim(std::numeric_limits<std::int64_t>::max()) + 1, Error);
}

TEST_F(DimTest, RejectsOverflowOf64Bits) {
  const std::int64_t most[] = {std::int64_t{1} << 31, std::int64_t{1} << 31};
  const Dim large = n * (std::int64_t{1} << 40);
  EXPECT_EQ(large.value(values), std::int64_t{7} << 40);
  EXPECT_THROW(large.value(most), Error);
  EXPECT_THROW((n * n * m + 1).value(most), Error);
}

TEST_F(DimTest, RejectsExpensiveExpressions) {
  const auto halves_and_thirds = [&](int times) {
    Dim dim = n;
    for (int i = 0; i < times; ++i) dim = dim / 2 + dim / 3;
    return dim;
  };
  EXPECT_EQ(halves_and_thirds(2).value(values), (7 / 2 + 7 / 3) / 2 + (7 / 2 + 7 / 3) / 3);
  EXPECT_THROW(halves_and_thirds(64), Error);
  Dim power = 1;
  EXPECT_THROW(for (int i = 0; i < 200; ++i) power = power * (n / (2 + i) + m), Error);
  Dim chain = n;  // As in a net of any depth that halves its images.
  for (int i = 0; i < 60; ++i) chain = (chain + 1) / 2;
  EXPECT_EQ(chain.value(values), 1);
}

TEST_F(DimTest, MultiplesAreWholeWhateverTheSymbolsAre) {
  EXPECT_EQ((6 * n).multiple_of(2 * n), 3);
  EXPECT_EQ((4 * n + 8 * m).multiple_of(n + 2 * m), 4);
  EXPECT_EQ((4 * n * m).multiple_of(n * m), 4);
  EXPECT_EQ((3 * n).multiple_of(2 * n), std::nullopt);
  EXPECT_EQ(n.multiple_of(m), std::nullopt);
  EXPECT_EQ(Dim(1).multiple_of(n), std::nullopt);
  EXPECT_EQ(Dim(6).multiple_of(2), 3);
  EXPECT_EQ(n.multiple_of(Dim(0)), std::nullopt);
  EXPECT_TRUE((n * m + 1).uses(1));
  EXPECT_TRUE(((n + m) / 2).uses(1));
  EXPECT_FALSE((n / 2 + 1).uses(1));
}

class GraphTest : public testing::Test {
 protected:
  GraphTest()
      : n(graph.add_symbol("n_tokens", 1, 16)), x(graph.add_input("x", DType::kF32, {Dim(1, n), 8})) {}

  /// The error of an op on these inputs, or "".
  std::string refusal(Op op, std::initializer_list<ValueId> inputs) {
    try {
      graph.add(std::move(op), inputs, "made");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  }

  Graph graph;
  SymbolId n;
  ValueId x;
};

TEST_F(GraphTest, MatmulInfersItsShape) {
  const ValueId w = graph.add_weight("w", DType::kQ4_K, {5, 8});
  const ValueId y = graph.add(ops::Matmul{}, {w, x}, "y");
  EXPECT_EQ(graph.value(y).shape, (Shape{Dim(1, n), 5}));
  EXPECT_EQ(graph.value(y).dtype, DType::kF32);
  EXPECT_EQ(graph.find("y"), y);
  EXPECT_EQ(graph.find("z"), kNoValue);
}

TEST_F(GraphTest, RulesNameTheTensorAndTheInput) {
  const ValueId w = graph.add_weight("w", DType::kF32, {5, 9});
  const std::string what = refusal(ops::Matmul{}, {w, x});
  EXPECT_NE(what.find("made"), std::string::npos) << what;
  EXPECT_NE(what.find("w [5, 9]"), std::string::npos) << what;
  EXPECT_NE(what.find("x [n_tokens, 8]"), std::string::npos) << what;
}

TEST_F(GraphTest, EveryRuleRejectsInvalidOperands) {
  const ValueId other = graph.add_input("other", DType::kF32, {Dim(1, n), 6});
  const ValueId vector = graph.add_weight("vector", DType::kF32, {6});
  const ValueId ids = graph.add_input("ids", DType::kI32, {Dim(1, n)});
  const ValueId few_ids = graph.add_input("few_ids", DType::kI32, {3});
  const ValueId pairs = graph.add_input("pairs", DType::kI32, {Dim(1, n), 2});
  const ValueId experts = graph.add_weight("experts", DType::kF32, {4, 5, 6});
  const ValueId cache = graph.add_state("cache", DType::kF16, {128, 2, 3});
  EXPECT_NE(refusal(ops::Add{}, {x, other}), "");
  EXPECT_NE(refusal(ops::Mul{}, {x, vector}), "");
  EXPECT_NE(refusal(ops::Glu{}, {x, other}), "");
  EXPECT_NE(refusal(ops::Norm{.group = 3}, {x}), "");
  EXPECT_NE(refusal(ops::Norm{}, {x, vector}), "");
  EXPECT_NE(refusal(ops::Scale{}, {ids}), "");
  EXPECT_NE(refusal(ops::Add{}, {x}), "");
  EXPECT_NE(refusal(ops::GetRows{}, {x, x}), "");
  EXPECT_NE(refusal(ops::Rope{.head_dim = 3, .n_rot = 2}, {x, ids}), "");
  EXPECT_NE(refusal(ops::Rope{.head_dim = 4, .n_rot = 3}, {x, ids}), "");
  EXPECT_NE(refusal(ops::Rope{.head_dim = 4, .n_rot = 4}, {x, few_ids}), "");
  EXPECT_NE(refusal(ops::TopK{9}, {x}), "");
  EXPECT_NE(refusal(ops::Best{9}, {x}), "");
  EXPECT_NE(refusal(ops::Best{0}, {x}), "");
  EXPECT_NE(refusal(ops::Best{2}, {x, few_ids}), "");
  EXPECT_NE(refusal(ops::LogSumExp{}, {x, few_ids}), "");
  EXPECT_NE(refusal(ops::Best{2}, {graph.add_input("wide", DType::kF32, {Dim(1, n), (1 << 24) + 1})}), "");
  EXPECT_NE(refusal(ops::MatmulExperts{}, {experts, x, pairs}), "");
  EXPECT_NE(refusal(ops::StoreCache{}, {cache, x, ids}), "");
  // ... and accepts valid ones.
  EXPECT_EQ(graph.value(graph.add(ops::Best{2}, {x, ids}, "best")).shape, (Shape{Dim(1, n), 4}));
  EXPECT_EQ(graph.value(graph.add(ops::LogSumExp{}, {x, ids}, "sums")).shape, (Shape{Dim(1, n), 2}));
  EXPECT_EQ(refusal(ops::StoreCache{}, {cache, other, ids}), "");
  EXPECT_EQ(refusal(ops::MatmulExperts{}, {experts, other, pairs}), "");
  EXPECT_EQ(refusal(ops::Rope{.head_dim = 4, .n_rot = 4}, {x, ids}), "");
}

TEST_F(GraphTest, ConcatAddsColumnsAndRefusesOtherRows) {
  const ValueId a = graph.add_input("a", DType::kF32, {Dim(1, n), 3}),
                b = graph.add_input("b", DType::kF32, {Dim(1, n), 5});
  const ValueId other = graph.add_input("other", DType::kF32, {4, 5});
  const ValueId ints = graph.add_input("ints", DType::kI32, {Dim(1, n), 5});
  EXPECT_EQ(graph.value(graph.add(ops::Concat{}, {a, b, a}, "c")).shape, (Shape{Dim(1, n), 11}));
  EXPECT_NE(refusal(ops::Concat{}, {a, other}), "");
  EXPECT_NE(refusal(ops::Concat{}, {a, ints}), "");
}

TEST_F(GraphTest, KeepsOnlyUsedNodesAlive) {
  const ValueId a = graph.add_input("a", DType::kF32, {Dim(1, n), 8}),
                cells = graph.add_input("cells", DType::kI32, {Dim(1, n)});
  const ValueId cache = graph.add_state("cache", DType::kF32, {64, 1, 8});
  const ValueId used = graph.add(ops::Scale{}, {a}, "used");
  const ValueId unused = graph.add(ops::Scale{}, {a}, "unused");
  const ValueId stored = graph.add(ops::StoreCache{}, {cache, used, cells}, "stored");
  const std::vector<bool> live = live_nodes(graph);
  const auto alive = [&](ValueId v) { return live[static_cast<std::size_t>(graph.value(v).producer)]; };
  EXPECT_TRUE(alive(used));
  EXPECT_TRUE(alive(stored));
  EXPECT_FALSE(alive(unused));
  EXPECT_EQ(state_behind(graph, stored), cache);
  EXPECT_EQ(state_behind(graph, cache), cache);
  EXPECT_EQ(state_behind(graph, used), kNoValue);
}

TEST_F(GraphTest, RecurrentOpsRejectInvalidOperands) {
  const ValueId from = graph.add_input("from", DType::kI32, {Dim(1, n)});
  const ValueId to = graph.add_input("to", DType::kI32, {Dim(1, n)});
  const ValueId few = graph.add_input("few", DType::kI32, {3});
  const ValueId wide = graph.add_input("wide", DType::kF32, {Dim(1, n), 9});
  const ValueId state = graph.add_state("state", DType::kF32, {4, 3, 8});
  const ValueId half_state = graph.add_state("half_state", DType::kF16, {4, 3, 8});
  const ValueId narrow_state = graph.add_state("narrow_state", DType::kF32, {4, 3, 7});
  const ValueId vector = graph.add_weight("vector", DType::kF32, {8});
  const ValueId short_vector = graph.add_weight("short_vector", DType::kF32, {7});
  const ValueId by3 = graph.add_weight("by3", DType::kF32, {8, 3});
  const ValueId by4 = graph.add_weight("by4", DType::kF16, {8, 4});

  const auto conv = [&](std::initializer_list<ValueId> inputs) { return refusal(ops::ShortConv{}, inputs); };
  EXPECT_NE(conv({half_state, x, by4, from, to}), "");
  EXPECT_NE(conv({narrow_state, x, by4, from, to}), "");
  EXPECT_NE(conv({state, wide, by4, from, to}), "");
  EXPECT_NE(conv({state, x, by3, from, to}), "");
  EXPECT_NE(conv({state, x, by4, few, to}), "");
  EXPECT_NE(conv({state, x, by4, from, few}), "");
  EXPECT_NE(conv({state, x, by4, from, to, short_vector}), "");
  EXPECT_NE(conv({state, x, by4, from}), "");

  const ValueId b = graph.add_input("b", DType::kF32, {Dim(1, n), 3});
  const auto scan = [&](std::initializer_list<ValueId> inputs) {
    return refusal(ops::SelectiveScan{}, inputs);
  };
  EXPECT_NE(scan({half_state, x, x, b, b, by3, vector, from, to}), "");
  EXPECT_NE(scan({state, x, wide, b, b, by3, vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, x, b, by3, vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, b, x, by3, vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, b, b, by4, vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, b, b, by3, short_vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, b, b, by3, vector, from, few}), "");
  // Heads: two of four columns, in one group or two.
  const ValueId head_dt = graph.add_input("head_dt", DType::kF32, {Dim(1, n), 2});
  const ValueId two_b = graph.add_input("two_b", DType::kF32, {Dim(1, n), 6});
  const ValueId heads = graph.add_weight("heads", DType::kF32, {2});
  const ValueId three = graph.add_weight("three", DType::kF32, {3});
  EXPECT_EQ(scan({state, x, head_dt, b, b, heads, heads, from, to}), "");
  EXPECT_NE(scan({state, x, head_dt, two_b, b, heads, heads, from, to}), "");
  EXPECT_NE(scan({state, x, head_dt, b, b, three, three, from, to}), "");
  EXPECT_NE(scan({state, x, head_dt, b, b, heads, vector, from, to}), "");
  EXPECT_NE(scan({state, x, x, two_b, two_b, by3, vector, from, to}), "");
  // A state of 12 rows: two heads of six, or four of three, with eight columns each.
  const ValueId deltas = graph.add_state("deltas", DType::kF32, {4, 12, 8});
  const auto columns = [&](const char* name, std::int64_t count) {
    return graph.add_input(name, DType::kF32, {Dim(1, n), count});
  };
  const ValueId k6 = columns("k6", 6), k12 = columns("k12", 12), v16 = columns("v16", 16),
                by_head = columns("by_head", 2), k5 = columns("k5", 5), v24 = columns("v24", 24);
  const auto delta = [&](std::initializer_list<ValueId> inputs) { return refusal(ops::DeltaRule{}, inputs); };
  EXPECT_EQ(delta({deltas, k12, k12, v16, by_head, by_head, from, to}), "");
  EXPECT_EQ(delta({deltas, k6, k6, v16, by_head, by_head, from, to}), "");
  EXPECT_EQ(delta({deltas, k6, k6, v16, k12, by_head, from, to}), "");
  EXPECT_EQ(delta({deltas, k12, k12, v16, k12, k12, from, to, k12}), "");
  EXPECT_NE(delta({half_state, k12, k12, v16, by_head, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k6, v16, by_head, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k5, k5, v16, by_head, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, v24, by_head, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, k12, by_head, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, k6, by_head, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, by_head, k12, from, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, by_head, by_head, few, to}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, by_head, by_head, from, few}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, by_head, k12, from, to, k12}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, k12, by_head, from, to, k12}), "");
  EXPECT_NE(delta({deltas, k6, k6, v16, k12, k12, from, to, k12}), "");
  EXPECT_NE(delta({deltas, k12, k12, v16, k12, k12, from, to, k6}), "");
  // ... and accepts valid ones, with the rows of x.
  for (const ValueId y :
       {graph.add(ops::ShortConv{}, {state, x, by4, from, to, vector}, "conv"),
        graph.add(ops::SelectiveScan{}, {state, x, x, b, b, by3, vector, from, to}, "scan")})
    EXPECT_EQ(graph.value(y).shape, graph.value(x).shape);
}

TEST_F(GraphTest, AStoredCacheKeepsItsType) {
  const ValueId ids = graph.add_input("ids", DType::kI32, {Dim(1, n)});
  const ValueId cache = graph.add_state("cache", DType::kF16, {128, 2, 4});
  const ValueId stored = graph.add(ops::StoreCache{}, {cache, x, ids}, "stored");
  EXPECT_EQ(graph.value(stored).dtype, DType::kF16);
  EXPECT_EQ(graph.value(stored).shape, graph.value(cache).shape);
}

TEST_F(GraphTest, NamedInputsAreTheListOfTheirNamesInOrder) {
  const ValueId from = graph.add_input("from", DType::kI32, {3}),
                to = graph.add_input("to", DType::kI32, {3});
  const ValueId cache = graph.add_state("cache", DType::kF16, {128, 2, 4});
  const ValueId moved = graph.add(ops::MoveCells{.role = CacheRole::kValues},
                                  {.cache = cache, .from = from, .to = to}, "moved");
  const Node& node = graph.node(graph.value(moved).producer);
  EXPECT_EQ(node.inputs, (std::vector<ValueId>{cache, from, to}));
  const auto in = named_inputs<ops::MoveCells>(node);
  EXPECT_EQ(in.cache, cache);
  EXPECT_EQ(in.from, from);
  EXPECT_EQ(in.to, to);
  EXPECT_EQ(in.deltas, kNoValue);
  EXPECT_EQ(in.factors, kNoValue);
  constexpr auto at = input_places<ops::Attention>();
  EXPECT_EQ(at.q, 0);
  EXPECT_EQ(at.extents, 5);
  EXPECT_EQ(at.hidden, 9);
}

TEST_F(GraphTest, OmittedOperandsAreLast) {
  const ValueId bias = graph.add_weight("bias", DType::kF32, {8});
  EXPECT_THROW(graph.add(ops::Norm{}, {x, kNoValue, bias}, "gap"), Error);
  EXPECT_EQ(refusal(ops::Norm{}, {x, kNoValue, kNoValue}), "");
  EXPECT_NE(refusal(ops::Add{}, {x, kNoValue}), "") << "what is not optional cannot be left out";
}

TEST_F(GraphTest, NodesKeepTheirTags) {
  const NodeTag tag = {.part = Part::kAttention, .layer = 3, .shard = 1};
  const ValueId scaled = graph.add(ops::Scale{}, {x}, "scaled", tag);
  EXPECT_EQ(graph.node(graph.value(scaled).producer).tag, tag);
  const ValueId plain = graph.add(ops::Scale{}, {x}, "plain");
  EXPECT_EQ(graph.node(graph.value(plain).producer).tag, NodeTag{});
}

TEST_F(GraphTest, CopiesAreDeep) {
  Graph copy = graph;
  copy.add(ops::Scale{2.0f}, {x}, "scaled");
  EXPECT_EQ(graph.nodes().size(), 0u);
  EXPECT_EQ(copy.nodes().size(), 1u);
  EXPECT_EQ(graph.find("scaled"), kNoValue);
  // Nor does a copy see what becomes of the first one.
  const Graph before = copy;
  copy.rename(copy.find("scaled"), "other");
  copy.add_output(copy.find("other"));
  EXPECT_NE(before.find("scaled"), kNoValue);
  EXPECT_TRUE(before.outputs().empty());
  EXPECT_FALSE(before == copy);
}

TEST_F(GraphTest, MovedFromGraphsAreEmptyAndUsable) {
  const Graph moved = std::move(graph);
  EXPECT_TRUE(graph.values().empty());
  EXPECT_EQ(graph.find("x"), kNoValue);
  graph.add_input("other", DType::kF32, {2});
  EXPECT_EQ(graph.values().size(), 1u);
  EXPECT_NE(moved.find("x"), kNoValue);
  EXPECT_EQ(moved.find("other"), kNoValue);
}

TEST_F(GraphTest, PrintsAndDraws) {
  graph.add(ops::Scale{2.0f}, {x}, "scaled");
  EXPECT_EQ(to_string(graph), "scaled [n_tokens, 8] = scale(x)\n");
  EXPECT_NE(to_dot(graph).find("digraph"), std::string::npos);
}

}  // namespace
}  // namespace weft
