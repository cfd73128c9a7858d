// The CPU's plan. Fused and unfused plans of one graph give the same bits, with any number of threads and any
// chunking of the rows. Expected fusions happen.
#include "backend/cpu/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <span>

#include "backend/cpu/device.h"
#include "backend/cpu/launches/quantised_output.h"
#include "backend/cpu/schedule.h"
#include "base/pool.h"
#include "tensor/codec.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kPlanRows = 24;
constexpr int kPages = 2;

/// A graph with its tensors on the CPU; inputs and weights are filled with fixed random numbers.
class PlanRig {
 public:
  Graph graph;
  SymbolId n = graph.add_symbol("n", 1, kPlanRows);

  ValueId weight(const std::string& name, std::vector<std::int64_t> shape, DType dtype = DType::kF32) {
    Shape s(std::span<const std::int64_t>{shape});
    return graph.add_weight(name, shape.size() == 1 ? DType::kF32 : dtype, s);
  }

  /// Compiles the graph with these outputs and runs rows [0, rows) in pieces. Returns each output's rows.
  std::map<ValueId, std::vector<float>> run(const std::vector<ValueId>& outputs, int n_threads,
                                            std::int64_t rows, std::int64_t piece) {
    Graph g = graph;
    for (const ValueId output : outputs) g.add_output(output);
    Bindings bindings(g.values().size(), nullptr);
    std::vector<std::unique_ptr<DeviceTensor>> own;
    for (std::size_t v = 0; v < g.values().size(); ++v) {
      const ValueInfo& value = g.values()[v];
      const std::vector<std::int64_t> shape = value.shape.dims(g.bounds());
      const bool is_output = g.is_output(static_cast<ValueId>(v));
      if (value.kind == ValueKind::kWeight) {
        weights_.push_back(random_weight(value.dtype, shape, static_cast<unsigned>(v)));
        own.push_back(device->create_weight(value.dtype, shape, {weights_.back(), {}}));
      } else if (value.kind == ValueKind::kState) {
        own.push_back(device->create_state(value.dtype, shape));
      } else if (value.kind == ValueKind::kInput || is_output) {
        own.push_back(device->create_host_tensor(value.dtype, shape));
      } else {
        continue;
      }
      bindings[v] = own.back().get();
    }
    auto plan = device->compile(
        g, bindings,
        {.allowed = {.shapes = true},
         .n_threads = n_threads,
         .pool = n_helpers > 0 ? std::make_shared<base::Pool>(n_threads, 1000, n_helpers) : nullptr});
    description = plan->describe();
    n_phases = plan->n_phases();
    memory = plan->memory();

    std::map<ValueId, std::vector<float>> results;
    for (std::int64_t begin = 0; begin < rows; begin += piece) {
      const std::int64_t count = std::min(piece, rows - begin);
      for (std::size_t v = 0; v < g.values().size(); ++v)
        if (g.values()[v].kind == ValueKind::kInput) fill_input(g.values()[v], *bindings[v], begin, count);
      std::vector<std::int64_t> symbols = {count};
      for (const std::int64_t other : more_symbols) symbols.push_back(std::min(other, count));
      plan->submit(symbols, bindings, {});
      for (const ValueId output : outputs) {
        const auto* data =
            reinterpret_cast<const float*>(bindings[static_cast<std::size_t>(output)]->host().data());
        const std::int64_t elements = g.value(output).shape.elements(symbols);
        results[output].insert(results[output].end(), data, data + elements);
      }
    }
    return results;
  }

  std::shared_ptr<Device> device = make_device({.n_threads = 2});
  std::vector<std::int64_t> more_symbols;  // Values of the symbols after n.
  int n_helpers = 0;
  std::string description;
  int n_phases = 0;
  PlanMemory memory;

 private:
  std::vector<std::vector<std::byte>> weights_;  // Canonical; used as they lie where they are not packed.

  static std::vector<std::byte> random_weight(DType dtype, const std::vector<std::int64_t>& shape,
                                              unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 0.3f);
    std::size_t elements = 1;
    for (const std::int64_t dim : shape) elements *= static_cast<std::size_t>(dim);
    std::vector<float> values(elements);
    for (float& value : values) value = normal(random);
    std::vector<std::byte> bytes(row_bytes(dtype, static_cast<std::int64_t>(elements)));
    pack_row(dtype, values, bytes.data());
    return bytes;
  }

  /// Row r of an input is the same whatever piece it comes in.
  static void fill_input(const ValueInfo& value, DeviceTensor& tensor, std::int64_t begin,
                         std::int64_t count) {
    auto* ints = reinterpret_cast<std::int32_t*>(tensor.host().data());
    auto* floats = reinterpret_cast<float*>(tensor.host().data());
    const std::int64_t columns = value.shape.rank() < 2 ? 1 : value.shape.columns();
    for (std::int64_t r = 0; r < count; ++r) {
      std::mt19937 random(static_cast<unsigned>(begin + r) * 7919u +
                          static_cast<unsigned>(value.name.size()));
      std::normal_distribution<float> normal;
      const auto row = static_cast<std::int32_t>(begin + r);
      for (std::int64_t c = 0; c < columns; ++c) {
        if (value.name == "ids")
          ints[r] = (row * 5 + 1) % 11;
        else if (value.name == "positions" || value.name == "cells")
          ints[r] = row;
        else if (value.name == "sequences" || value.name == "use")
          ints[r] = 0;
        else if (value.name == "wanted")
          ints[r] = row % 4;
        else if (value.name == "copied")  // Some of the piece's rows, unordered, and some twice.
          ints[r] = static_cast<std::int32_t>(r * 3 % count / 2);
        else if (value.name == "summed")
          ints[r] = row % 4 < 2 ? row % 4 - 2 : row * 37 % 900;
        else if (value.name == "ends")
          ints[r] = row + 1;
        else if (value.name == "hidden_first")
          ints[r] = -1;
        else if (value.dtype == DType::kF32)
          floats[r * columns + c] = normal(random);
      }
    }
    if (value.name == "extents")
      for (int i = 0; i < kPages; ++i)
        reinterpret_cast<Extent*>(ints)[i] = {.mask = ~std::uint64_t{0}, .page = i, .base = 64 * i};
    if (value.name == "counts") ints[0] = kPages;
  }
};

/// A layer with everything in it: norms, head norms, rope, caches, attention, experts, gated and plain
/// products.
std::vector<ValueId> build_layer(PlanRig& rig, DType dtype) {
  Graph& g = rig.graph;
  const Dim n(1, rig.n);
  constexpr int d = 64, heads = 4, kv_heads = 2, head_dim = 16, ff = 96;
  const ValueId ids = g.add_input("ids", DType::kI32, {n});
  const ValueId positions = g.add_input("positions", DType::kI32, {n});
  const ValueId sequences = g.add_input("sequences", DType::kI32, {n});
  const ValueId cells = g.add_input("cells", DType::kI32, {n});
  const ValueId table = g.add_input("extents", DType::kI32, {1, kPages, kExtentWords});
  const ValueId counts = g.add_input("counts", DType::kI32, {1});
  const ValueId ends = g.add_input("ends", DType::kI32, {n});
  const ValueId hidden_first = g.add_input("hidden_first", DType::kI32, {n});
  const ValueId hidden = g.add_input("hidden", DType::kI32, {1, kHiddenWords});
  const ValueId given = g.add_input("given", DType::kF32, {n, d});
  const ValueId use = g.add_input("use", DType::kI32, {n});
  const ValueId k_cache = g.add_state("k", DType::kF16, {kPages * 64, kv_heads, head_dim});
  const ValueId v_cache = g.add_state("v", DType::kF16, {kPages * 64, kv_heads, head_dim});
  const ops::Rope rope{.head_dim = head_dim, .n_rot = head_dim, .neox = true};

  std::vector<ValueId> all;
  const auto add = [&](Op op, std::initializer_list<ValueId> inputs, const char* name) {
    all.push_back(g.add(std::move(op), inputs, name));
    return all.back();
  };
  ValueId x = add(ops::GetRows{}, {rig.weight("embedding", {11, d}, dtype), ids}, "embedded");
  x = add(ops::Scale{1.5f}, {x}, "scaled");
  x = add(ops::Override{}, {x, given, use}, "overridden");
  ValueId h = add(ops::Norm{}, {x, rig.weight("norm1", {d})}, "normed1");
  ValueId q =
      add(ops::Matmul{},
          {rig.weight("wq", {heads * head_dim, d}, dtype), h, rig.weight("bq", {heads * head_dim})}, "q");
  ValueId k = add(ops::Matmul{}, {rig.weight("wk", {kv_heads * head_dim, d}, dtype), h}, "k_raw");
  ValueId v = add(ops::Matmul{}, {rig.weight("wv", {kv_heads * head_dim, d}, dtype), h}, "v_raw");
  q = add(ops::Norm{.group = head_dim}, {q, rig.weight("qn", {head_dim})}, "q_normed");
  q = add(rope, {q, positions}, "q_rope");
  k = add(rope, {k, positions}, "k_rope");
  const ValueId ks = g.add(ops::StoreCache{CacheRole::kKeys}, {k_cache, k, cells}, "k_stored");
  const ValueId vs = g.add(ops::StoreCache{CacheRole::kValues}, {v_cache, v, cells}, "v_stored");
  ValueId a = add(ops::Attention{.n_heads = heads, .scale = 0.25f},
                  {q, ks, vs, positions, sequences, table, counts, ends, hidden_first, hidden}, "attended");
  a = add(ops::Matmul{}, {rig.weight("wo", {d, heads * head_dim}, dtype), a}, "projected");
  x = add(ops::Add{}, {x, a}, "residual1");
  h = add(ops::Norm{}, {x, rig.weight("norm2", {d})}, "normed2");
  const ValueId gate = add(ops::Matmul{}, {rig.weight("wg", {ff, d}, dtype), h}, "gate");
  const ValueId up = add(ops::Matmul{}, {rig.weight("wu", {ff, d}, dtype), h}, "up");
  ValueId f = add(ops::Glu{}, {gate, up}, "glu");
  f = add(ops::Matmul{}, {rig.weight("wd", {d, ff}, dtype), f}, "down");
  f = add(ops::Norm{.kind = NormKind::kLayer}, {f, rig.weight("pn", {d}), rig.weight("pb", {d})},
          "post_normed");
  x = add(ops::Add{}, {f, x}, "residual2");
  const ValueId logits = add(ops::Matmul{}, {rig.weight("wr", {6, d}), x}, "router");
  const ValueId experts = g.add(ops::TopK{2}, {logits}, "experts");
  const ValueId weights = add(ops::ExpertWeights{}, {logits, experts}, "expert_weights");
  const ValueId eg = add(ops::MatmulExperts{}, {rig.weight("eg", {6, 32, d}, dtype), x, experts}, "e_gate");
  const ValueId eu = add(ops::MatmulExperts{}, {rig.weight("eu", {6, 32, d}, dtype), x, experts}, "e_up");
  const ValueId e = add(ops::Glu{Activation::kGelu}, {eg, eu}, "e_glu");
  const ValueId ed = add(ops::MatmulExperts{}, {rig.weight("ed", {6, d, 32}, dtype), e, experts}, "e_down");
  const ValueId sum = add(ops::SumExperts{}, {ed, weights}, "e_sum");
  x = add(ops::Add{}, {x, sum}, "residual3");
  ValueId p = add(ops::Matmul{}, {rig.weight("wp", {ff, d}, dtype), x}, "plain");
  p = add(ops::Activate{Activation::kGelu}, {p}, "plain_active");
  p = add(ops::Softcap{2.0f}, {p}, "capped");
  p = add(ops::Mul{}, {p, rig.weight("m", {ff})}, "scaled_by_vector");
  p = add(ops::Concat{}, {p, x, sum}, "side_by_side");
  return all;
}

TEST(CpuConcat, PutsColumnsSideBySide) {
  PlanRig rig;
  const ValueId a = rig.graph.add_input("a", DType::kF32, {Dim(1, rig.n), 3});
  const ValueId b = rig.graph.add_input("b", DType::kF32, {Dim(1, rig.n), 5});
  const ValueId doubled = rig.graph.add(ops::Scale{2.0f}, {b}, "doubled");  // Of the same chain.
  const ValueId c = rig.graph.add(ops::Concat{}, {a, doubled, a}, "c");
  auto out = rig.run({a, b, c}, 1, 4, 4);
  ASSERT_EQ(out[c].size(), 4u * 11);
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t i = 0; i < 11; ++i) {
      const float expected = i < 3   ? out[a][r * 3 + i]
                             : i < 8 ? 2.0f * out[b][r * 5 + i - 3]
                                     : out[a][r * 3 + i - 8];
      EXPECT_EQ(out[c][r * 11 + i], expected);
    }
}

class CpuPlan : public testing::TestWithParam<DType> {};

TEST_P(CpuPlan, FusionThreadsAndPiecesChangeNoBit) {
  PlanRig rig;
  const std::vector<ValueId> all = build_layer(rig, GetParam());
  const ValueId last = all.back();
  // With every value as an output nothing can be fused.
  const auto unfused = rig.run(all, 1, 20, 20);
  const std::string plain = rig.description;
  for (const ValueId value : all)
    for (const float x : unfused.at(value)) ASSERT_TRUE(std::isfinite(x)) << rig.graph.value(value).name;
  for (const int n_threads : {1, 2, 3}) {
    for (const std::int64_t piece : {20, 7, 1}) {
      const auto fused = rig.run({last}, n_threads, 20, piece);
      EXPECT_TRUE(fused.at(last) == unfused.at(last)) << n_threads << " threads, pieces of " << piece;
    }
  }
  // With this many threads, two rows are computed right after the ops that they read from.
  EXPECT_TRUE(rig.run({last}, 8, 20, 2).at(last) == unfused.at(last));
  rig.device = make_device({.n_threads = 2, .repack = false});
  for (const std::int64_t piece : {20, 1})
    EXPECT_TRUE(rig.run({last}, 2, 20, piece).at(last) == unfused.at(last))
        << "not packed, pieces of " << piece;
  EXPECT_LT(std::count(rig.description.begin(), rig.description.end(), '\n'),
            std::count(plain.begin(), plain.end(), '\n'));
}

INSTANTIATE_TEST_SUITE_P(Types, CpuPlan,
                         testing::Values(DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_1),
                         [](const auto& test) { return std::string(weft::info(test.param).name); });

// A product with enough panels for helpers, and the best tokens of each row, which every worker keeps for
// itself.
TEST(CpuPlan, HelpersChangeNoBit) {
  PlanRig rig;
  const ValueId x = rig.graph.add_input("x", DType::kF32, {Dim(1, rig.n), 512});
  const ValueId wide = rig.graph.add(ops::Matmul{}, {rig.weight("wide", {2048, 512}), x}, "wide");
  const ValueId logits = rig.graph.add(ops::Matmul{}, {rig.weight("head", {600, 2048}), wide}, "logits");
  const ValueId best = rig.graph.add(ops::Best{8}, {logits, kNoValue}, "best");
  const auto alone = rig.run({wide, best}, 2, kPlanRows, kPlanRows);
  for (rig.n_helpers = 1; rig.n_helpers < 4; rig.n_helpers += 2)
    for (const std::int64_t piece : {kPlanRows, std::int64_t{1}})
      EXPECT_TRUE(rig.run({wide, best}, 2, kPlanRows, piece) == alone) << rig.n_helpers << " helpers";
}

TEST(CpuSchedule, PhasesThatComputeAndHaveManyTasksWantHelp) {
  EXPECT_TRUE(wants_help(true, 64, 8));
  EXPECT_FALSE(wants_help(true, 63, 8));
  EXPECT_FALSE(wants_help(false, 6400, 8));
  EXPECT_FALSE(wants_help(true, 0, 2));
}

struct Head {
  DType dtype;
  int n_columns, n_outputs;
};
class CpuBest : public testing::TestWithParam<Head> {};

TEST_P(CpuBest, OfAProductWithoutWritingItAreTheSameBits) {
  for (const int form : {0, 1, 2, 3}) {  // Plain; with a bias; capped; counted.
    PlanRig rig;
    Graph& g = rig.graph;
    const auto [dtype, n_columns, n_outputs] = GetParam();
    constexpr int kBest = 5;
    const ValueId x = g.add_input("x", DType::kF32, {Dim(1, rig.n), n_columns});
    const ValueId w = rig.weight("w", {n_outputs, n_columns}, dtype);
    const ValueId bias = form == 1 ? rig.weight("bias", {n_outputs}) : kNoValue;
    const ValueId counts = form == 3 ? g.add_input("wanted", DType::kI32, {Dim(1, rig.n)}) : kNoValue;
    const ValueId logits = g.add(ops::Matmul{}, {w, x, bias}, "logits");
    // So low a cap makes equals of many.
    const ValueId capped = form == 2 ? g.add(ops::Softcap{0.25f}, {logits}, "capped") : logits;
    const ValueId best = g.add(ops::Best{kBest}, {capped, counts}, "best");
    const auto unfused = rig.run({logits, capped, best}, 1, 20, 20);
    for (const Isa isa : kIsas) {
      if (!supported(isa)) continue;
      PlanRig other = rig;
      other.device = make_device({.isa = isa, .n_threads = 2});
      const std::vector<float> own = other.run({logits, capped, best}, 1, 20, 20).at(best);
      EXPECT_TRUE(other.run({best}, 2, 20, 20).at(best) == own) << kernels(isa).name;
    }
    EXPECT_EQ(rig.description.find("best_merge"), std::string::npos) << rig.description;
    const std::vector<float>& rows = unfused.at(capped);
    for (std::size_t r = 0; r < 20; ++r) {
      const auto row = std::span(rows).subspan(r * static_cast<std::size_t>(n_outputs),
                                               static_cast<std::size_t>(n_outputs));
      const std::size_t n = form == 3 ? r % 4 : kBest;
      for (std::size_t i = 0; i < n; ++i) {
        const auto id = static_cast<std::size_t>(unfused.at(best)[(2 * r + 1) * kBest + i]);
        EXPECT_EQ(row[id], unfused.at(best)[2 * r * kBest + i]);
        const auto before = [&](std::size_t other) {
          return row[other] > row[id] || (row[other] == row[id] && other < id);
        };
        std::size_t n_before = 0;
        for (std::size_t other = 0; other < row.size(); ++other) n_before += before(other) ? 1 : 0;
        EXPECT_EQ(n_before, i) << "row " << r;
      }
    }
    for (const bool packed : {true, false}) {
      rig.device = make_device({.n_threads = 2, .repack = packed});
      for (const int n_threads : {1, 2, 3})
        for (const std::int64_t piece : {20, 7, 2, 1})
          EXPECT_TRUE(rig.run({best}, n_threads, 20, piece).at(best) == unfused.at(best))
              << form << ": " << n_threads << " threads, pieces of " << piece;
      EXPECT_NE(rig.description.find("matmul w" + std::string(form == 1 ? " + bias" : "") + " best"),
                std::string::npos)
          << rig.description;
      // Neither a bias nor a cap is in the sums of high bits.
      EXPECT_EQ(rig.description.find("screen w") != std::string::npos,
                is_tall(dtype, n_outputs, n_columns) && form != 1 && form != 2)
          << rig.description;
    }
  }
}

TEST_P(CpuBest, CombinesWithCopiesAndRowSumsInOneProduct) {
  for (const float cap : {0.0f, 3.0f}) {  // Without one, steps that copy nothing may be screened.
    PlanRig rig;
    Graph& g = rig.graph;
    const auto [dtype, n_columns, n_outputs] = GetParam();
    const SymbolId n_copies = g.add_symbol("n_copies", 0, kPlanRows);
    const ValueId x = g.add_input("x", DType::kF32, {Dim(1, rig.n), n_columns});
    const ValueId counts = g.add_input("wanted", DType::kI32, {Dim(1, rig.n)});
    const ValueId ids = g.add_input("copied", DType::kI32, {Dim(1, n_copies)});
    const ValueId w = rig.weight("w", {n_outputs, n_columns}, dtype);
    const ValueId logits = g.add(ops::Matmul{}, {w, x}, "logits");
    const ValueId capped = cap > 0.0f ? g.add(ops::Softcap{cap}, {logits}, "capped") : logits;
    const ValueId best = g.add(ops::Best{5}, {capped, counts}, "best");
    const ValueId copies = g.add(ops::GetRows{}, {capped, ids}, "copies");
    const ValueId summed = g.add_input("summed", DType::kI32, {Dim(1, rig.n)});
    const ValueId sums = g.add(ops::LogSumExp{}, {capped, summed}, "sums");
    for (const bool packed : {true, false}) {
      rig.device = make_device({.n_threads = 2, .repack = packed});
      for (const std::int64_t piece : {20, 7, 2, 1})
        for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, piece}) {
          rig.more_symbols = {n};
          const auto unfused = rig.run({logits, capped, best, copies, sums}, 1, 20, piece);
          for (const int n_threads : {1, 3}) {
            const auto fused = rig.run({best, copies, sums}, n_threads, 20, piece);
            EXPECT_TRUE(fused.at(sums) == unfused.at(sums)) << piece << ", copies " << n;
            EXPECT_TRUE(fused.at(best) == unfused.at(best)) << piece << ", copies " << n;
            EXPECT_TRUE(fused.at(copies) == unfused.at(copies)) << piece << ", copies " << n;
          }
          // The product is made once, and not written.
          EXPECT_NE(rig.description.find("matmul w best"), std::string::npos) << rig.description;
          EXPECT_EQ(rig.description.find("get_rows"), std::string::npos) << rig.description;
          EXPECT_EQ(rig.description.find("log_sum_exp"), std::string::npos) << rig.description;
        }
    }
  }
}

// The last panel is never full.
INSTANTIATE_TEST_SUITE_P(Heads, CpuBest,
                         testing::Values(Head{DType::kF32, 256, 1000}, Head{DType::kBF16, 256, 1000},
                                         Head{DType::kQ8_0, 256, 1000}, Head{DType::kQ4_1, 256, 1000},
                                         Head{DType::kQ6_K, 256, 1000}, Head{DType::kQ8_0, 64, 4100}),
                         [](const auto& test) {
                           const Head& head = test.param;
                           const bool tall = is_tall(head.dtype, head.n_outputs, head.n_columns);
                           return std::string(weft::info(head.dtype).name) + (tall ? "_tall" : "");
                         });

TEST(CpuPlanFusion, ProductsMakeTheFormsInWhichTheyAreRead) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ6_K}) {
    PlanRig rig;
    Graph& g = rig.graph;
    // Tasks end within groups of columns.
    constexpr int kColumns = 256, kInner = 1280;
    const ValueId x = g.add_input("x", DType::kF32, {Dim(1, rig.n), kColumns});
    const ValueId gate = g.add(ops::Matmul{}, {rig.weight("wg", {kInner, kColumns}, dtype), x}, "gate");
    const ValueId up = g.add(ops::Matmul{}, {rig.weight("wu", {kInner, kColumns}, dtype), x}, "up");
    const ValueId glu = g.add(ops::Glu{}, {gate, up}, "glu");
    const ValueId down = g.add(ops::Matmul{}, {rig.weight("wd", {kColumns, kInner}, dtype), glu}, "down");
    const DType other = dtype == DType::kQ8_0 ? DType::kQ6_K : DType::kQ8_0;  // In the other form.
    const ValueId more = g.add(ops::Matmul{}, {rig.weight("wm", {kColumns, kInner}, other), glu}, "more");
    const auto unfused = rig.run({gate, up, glu, down, more}, 1, 20, 20);
    EXPECT_NE(rig.description.find("quantise:glu quantise:glu"), std::string::npos) << rig.description;
    for (const bool packed : {true, false}) {
      rig.device = make_device({.n_threads = 2, .repack = packed});
      for (const int n_threads : {1, 2, 3})
        for (const std::int64_t piece : {20, 7, 1}) {
          auto made = rig.run({down, more}, n_threads, 20, piece);
          EXPECT_TRUE(made.at(down) == unfused.at(down) && made.at(more) == unfused.at(more))
              << n_threads << " threads, pieces of " << piece;
        }
      EXPECT_NE(rig.description.find("-> glu quantised"), std::string::npos) << rig.description;
      EXPECT_NE(rig.description.find("rows quantise:glu"), std::string::npos) << rig.description;
    }
  }
}

TEST(CpuPlanFusion, GroupsAreWholeOnceInAStep) {
  for (const Form form : {Form::kQ8, Form::kQ8Wide}) {
    constexpr std::int64_t kColumns = 1000;  // The last group is not full.
    const std::int64_t width = group_columns(form);
    QuantisedOutput output(form, kColumns, 2);
    std::mt19937 random(1);
    for (std::uint64_t step = 1; step < 50; ++step) {
      output.begin_step({.symbols = {}, .number = step});
      std::vector<Range> tasks;
      for (std::int64_t begin = 0; begin < kColumns;) {
        const std::int64_t end = std::min<std::int64_t>(begin + 16 * (1 + random() % 20), kColumns);
        tasks.push_back({begin, end});
        begin = end;
      }
      std::shuffle(tasks.begin(), tasks.end(), random);
      if (step % 3 == 0) tasks.resize(tasks.size() / 2);  // Cancelled.
      std::vector<int> made(kColumns), whole(kColumns);
      for (const Range& task : tasks) {
        const Range ready = output.whole_groups(1, task);
        for (std::int64_t c = task.begin; c < task.end; ++c) ++made[static_cast<std::size_t>(c)];
        for (std::int64_t c = ready.begin; c < ready.end; ++c) {
          ++whole[static_cast<std::size_t>(c)];
          EXPECT_EQ(made[static_cast<std::size_t>(c)], 1);
        }
      }
      for (std::int64_t begin = 0; begin < kColumns; begin += width) {
        const auto first = made.begin() + begin, last = made.begin() + std::min(begin + width, kColumns);
        const int expected = std::count(first, last, 1) == last - first ? 1 : 0;
        for (auto c = first; c < last; ++c)
          EXPECT_EQ(whole[static_cast<std::size_t>(c - made.begin())], expected);
      }
    }
  }
}

TEST(CpuPlanFusion, SkipsUnusedNodes) {
  PlanRig rig;
  const std::vector<ValueId> all = build_layer(rig, DType::kF32);
  const ValueId embedded = all.front();
  rig.run({embedded}, 1, 4, 4);
  // Caches keep stored values, so all ops that lead to them stay; ops after attention do not.
  EXPECT_NE(rig.description.find("store_cache:k_stored"), std::string::npos) << rig.description;
  for (const char* dead : {"attention", "matmul wo", "matmul wu", "expert", "plain"})
    EXPECT_EQ(rig.description.find(dead), std::string::npos) << rig.description;
}

TEST(CpuPlanFusion, FusesNodesAndMergesPhases) {
  PlanRig rig;
  const std::vector<ValueId> all = build_layer(rig, DType::kQ8_0);
  rig.run({all.back()}, 1, 4, 4);
  const std::string& d = rig.description;
  // Scale and norm with the embedding, quantised in the same pass.
  EXPECT_NE(
      d.find("rows get_rows:embedded* scale:scaled* override:overridden norm:normed1* quantise:normed1"),
      std::string::npos)
      << d;
  // Rope with the cache write, the raw product never stored elsewhere.
  EXPECT_NE(d.find("rope:k_rope* store_cache:k_stored"), std::string::npos) << d;
  // Gate and up with their activation; residual in the product.
  EXPECT_NE(d.find("matmul wu gated by wg + activation -> glu"), std::string::npos) << d;
  EXPECT_NE(d.find("matmul wo + overridden -> residual1"), std::string::npos) << d;
  EXPECT_NE(d.find("matmul_experts eu gated by eg + activation -> e_glu"), std::string::npos) << d;
  // Q, K and V share a phase.
  const auto phase_of = [&](const std::string& launch) {
    const std::size_t at = d.find(launch);
    EXPECT_NE(at, std::string::npos) << launch;
    const std::size_t line = d.rfind('\n', at);
    return d.substr(line == std::string::npos ? 0 : line + 1,
                    at - (line == std::string::npos ? 0 : line + 1));
  };
  EXPECT_EQ(phase_of("matmul wq"), phase_of("matmul wk"));
  EXPECT_EQ(phase_of("matmul wq"), phase_of("matmul wv"));
}

TEST(CpuPlanMemory, CountsMemoryOfLaunches) {
  // With a workspace that plans share, all else is their own.
  const auto device = make_device({.n_threads = 2});
  const auto own = [&](const Graph& g, int n_threads) {
    const CompileOptions shared{.n_threads = n_threads, .workspaces = std::make_shared<Workspaces>()};
    const PlanMemory memory = device->memory_of(g, shared);
    const PlanMemory alone = device->memory_of(g, {.n_threads = n_threads});
    EXPECT_EQ(alone.own, memory.own + memory.shared);
    EXPECT_EQ(alone.shared, 0u);
    return memory.own;
  };

  PlanRig turned;
  const ValueId x = turned.graph.add_input("x", DType::kF32, {Dim(1, turned.n), 64});
  const ValueId positions = turned.graph.add_input("positions", DType::kI32, {Dim(1, turned.n)});
  Graph none = turned.graph;
  none.add_output(none.add(ops::Scale{2.0f}, {x}, "scaled"));
  EXPECT_EQ(own(none, 2), 0u);
  turned.graph.add_output(turned.graph.add(ops::Rope{.head_dim = 32, .n_rot = 16}, {x, positions}, "turned"));
  EXPECT_EQ(own(turned.graph, 2), kPlanRows * 16 * sizeof(float));

  PlanRig head;
  const ValueId in = head.graph.add_input("x", DType::kF32, {Dim(1, head.n), 64});
  const ValueId logits = head.graph.add(ops::Matmul{}, {head.weight("w", {500, 64}), in}, "logits");
  head.graph.add_output(head.graph.add(ops::Best{8}, {logits, kNoValue}, "best"));
  for (const int n_threads : {1, 3})
    EXPECT_EQ(own(head.graph, n_threads),
              static_cast<std::size_t>(n_threads * kPlanRows * 8) * sizeof(BestEntry));

  // Tiles that two layers share count once.
  PlanRig once, twice;
  build_layer(once, DType::kF32);
  build_layer(twice, DType::kF32);
  const auto attend_again = [](Graph& g) {
    for (std::size_t i = 0; i < g.nodes().size(); ++i) {
      const Node node = g.nodes()[i];
      if (get_op<ops::Attention>(node) == nullptr) continue;
      std::vector<ValueId> inputs = node.inputs;
      inputs[0] = node.output;  // As wide as the queries.
      g.add_output(g.add(node.op, inputs, "attended_again"));
      return;
    }
  };
  for (const Node& node : once.graph.nodes())
    if (get_op<ops::Attention>(node) != nullptr) once.graph.add_output(node.output);
  attend_again(twice.graph);
  EXPECT_EQ(own(once.graph, 2), own(twice.graph, 2));
  EXPECT_GT(own(once.graph, 2), kPlanRows * (16 + 1) * sizeof(float)) << "the table of its ropes, and tiles";

  // What was said before is what a plan has.
  once.run({}, 2, 1, 1);
  EXPECT_EQ(once.memory.own,
            device->memory_of(once.graph, {.allowed = {.shapes = true}, .n_threads = 2}).own);
}

// A cancel may come while a step is run that only moves cells, or between steps: the one that follows ends,
// too.
TEST(CpuPlan, StepsEndWhileTheFlagIsSet) {
  PlanRig rig;
  const ValueId x = rig.graph.add_input("x", DType::kF32, {Dim(1, rig.n), 64});
  const ValueId y = rig.graph.add(ops::Scale{2.0f}, {x}, "y");
  rig.graph.add_output(y);
  const std::int64_t shape[] = {kPlanRows, 64};
  const auto xs = rig.device->create_host_tensor(DType::kF32, shape);
  const auto ys = rig.device->create_host_tensor(DType::kF32, shape);
  Bindings bindings(rig.graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(x)] = xs.get();
  bindings[static_cast<std::size_t>(y)] = ys.get();
  std::atomic<bool> cancelled{false};
  const auto plan = rig.device->compile(rig.graph, bindings, {.n_threads = 2, .cancelled = &cancelled});
  float& in = *reinterpret_cast<float*>(xs->host().data());
  const float& out = *reinterpret_cast<const float*>(ys->host().data());
  const std::int64_t rows = kPlanRows;
  float expected = 0.0f;
  for (const bool cancel : {false, true, true, false}) {
    cancelled = cancel;
    in += 1.0f;
    if (!cancel) expected = 2.0f * in;
    plan->submit({&rows, 1}, bindings, {});
    plan->wait();
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace weft::cpu
