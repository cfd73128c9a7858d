// A layer's ops that share launches give the bits that they give apart, in fewer phases.
#include "backend/gpu/fusion.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

#include "vulkan_test_support.h"

namespace weft {
namespace {

/// Tensors of a graph's values, made for it.
struct Bound {
  explicit Bound(const Graph& graph) : bindings(graph.values().size(), nullptr) {}
  DeviceTensor& operator()(ValueId value, std::unique_ptr<DeviceTensor> tensor) {
    bindings[static_cast<std::size_t>(value)] = tensor.get();
    return *tensors.emplace_back(std::move(tensor));
  }
  Bindings bindings;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
};

constexpr std::int64_t kColumns = 288, kHidden = 96, kMaxRows = 40;

/// y = x + down(glu(gate(norm(x)), up(norm(x)))), and what a product makes of y's norm, with quantised
/// weights. Some families have a norm of down before it is added. What is shown as an output keeps a launch
/// of its own.
struct LayerOptions {
  NormKind kind = NormKind::kRms;
  bool norms_down = false;  ///< By a norm of another kind than the next.
  bool biased = false;      ///< Norms have biases.
  bool shows_next = false;  ///< The next norm's floats are for others, too.
  DType dtype = DType::kQ8_0;
};
struct Layer {
  explicit Layer(bool shows_all, const LayerOptions& options = {}) : dtype(options.dtype) {
    const SymbolId n = graph.add_symbol("n", 0, kMaxRows);
    x = graph.add_input("x", DType::kF32, {Dim(1, n), kColumns});
    const ValueId norm_weight = weight("norm.weight", DType::kF32, {kColumns});
    const ValueId norm = graph.add(ops::Norm{}, {x, norm_weight}, "norm");
    const ValueId gate = product("gate", {kHidden, kColumns}, norm);
    const ValueId up = product("up", {kHidden, kColumns}, norm);
    const ValueId glu = graph.add(ops::Glu{}, {gate, up}, "glu");
    const ValueId down = product("down", {kColumns, kHidden}, glu);
    const auto norm_of = [&](ValueId of, const std::string& name, NormKind kind, float eps) {
      std::vector<ValueId> inputs = {of, weight(name + ".weight", DType::kF32, {kColumns})};
      if (options.biased) inputs.push_back(weight(name + ".bias", DType::kF32, {kColumns}));
      return graph.add(ops::Norm{.kind = kind, .eps = eps}, inputs, name);
    };
    const NormKind other = options.kind == NormKind::kRms ? NormKind::kLayer : NormKind::kRms;
    const ValueId added = options.norms_down ? norm_of(down, "down.norm", other, 0.5f) : down;
    y = graph.add(ops::Add{}, {x, added}, "y");
    const ValueId next_norm = norm_of(y, "next.norm", options.kind, 0.03f);
    next = product("next", {kColumns, kColumns}, next_norm);
    graph.add_output(next);
    if (shows_all)
      for (const ValueId value : {norm, glu, down, added, next_norm})
        if (!graph.is_output(value)) graph.add_output(value);
    if (!shows_all && options.shows_next) graph.add_output(next_norm);
  }
  ValueId product(const std::string& name, std::vector<Dim> shape, ValueId of) {
    return graph.add(ops::Matmul{}, {weight(name + ".weight", dtype, std::move(shape)), of}, name);
  }
  ValueId weight(const std::string& name, DType type, std::vector<Dim> shape) {
    return weights.emplace_back(graph.add_weight(name, type, Shape(shape)));
  }

  /// Runs it on rows of which each differs from its neighbours.
  std::vector<float> run(Device& device, std::int64_t n_rows) {
    Bound bind(graph);
    const Bindings& bindings = bind.bindings;
    for (const ValueId id : weights) {
      const ValueInfo& value = graph.value(id);
      const std::vector<std::int64_t> dims = value.shape.dims({});
      std::size_t n = 1;
      for (const std::int64_t dim : dims) n *= static_cast<std::size_t>(dim);
      std::vector<std::byte> data(row_bytes(value.dtype, static_cast<std::int64_t>(n)));
      if (value.dtype == DType::kF32) {
        for (std::size_t i = 0; i < n; ++i)
          reinterpret_cast<float*>(data.data())[i] = 0.5f + static_cast<float>((i + index(id)) % 5);
      } else if (value.dtype == DType::kF16) {  // Up to 1/4, of either sign.
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = i % 2 == 0 ? std::byte(i * 31 % 251) : std::byte((i * 7 % 2 << 7) | (24 + i * 13 % 27));
      } else {  // Blocks of a scale, 1/64 as a half, and 32 codes.
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = i % 34 == 0 ? std::byte{0} : i % 34 == 1 ? std::byte{0x24} : std::byte(i * 37 % 251);
      }
      bind(id, device.create_weight(value.dtype, dims, {data, {}}));
    }
    for (const ValueId output : graph.outputs())
      bind(output, device.create_host_tensor(DType::kF32, graph.value(output).shape.dims(graph.bounds())));
    DeviceTensor& in = bind(x, device.create_host_tensor(DType::kF32, std::vector{kMaxRows, kColumns}));
    const std::span<float> values(reinterpret_cast<float*>(in.host().data()),
                                  static_cast<std::size_t>(kMaxRows * kColumns));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i) * 0.37f) * 3.0f;
    std::atomic<bool> cancelled{false};
    const auto plan = device.compile(graph, bindings, {.allowed = {.shapes = true}, .cancelled = &cancelled});
    plan->submit({&n_rows, 1}, bindings, {.shapes = true});
    plan->wait();
    n_phases = plan->n_phases();
    const std::span<const float> result(
        reinterpret_cast<const float*>(bindings[static_cast<std::size_t>(next)]->host().data()),
        static_cast<std::size_t>(n_rows * kColumns));
    const std::vector<float> first(result.begin(), result.end());
    // Again, and after a step that was cancelled.
    for (const bool cancels : {false, true}) {
      if (cancels) {
        cancelled = true;
        plan->submit({&n_rows, 1}, bindings, {});
        plan->wait();
        cancelled = false;
      }
      std::fill_n(const_cast<float*>(result.data()), result.size(), 0.0f);
      plan->submit({&n_rows, 1}, bindings, {});
      plan->wait();
      EXPECT_EQ(first, std::vector<float>(result.begin(), result.end()));
    }
    return first;
  }
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  Graph graph;
  DType dtype = DType::kQ8_0;
  ValueId x = kNoValue, y = kNoValue, next = kNoValue;
  std::vector<ValueId> weights;
  int n_phases = 0;
};

TEST(VulkanFusion, OpsThatShareLaunchesGiveTheBitsThatTheyGiveApart) {
  const LayerOptions cases[] = {{},
                                {.kind = NormKind::kLayer, .biased = true},
                                {.kind = NormKind::kL2, .shows_next = true},
                                {.norms_down = true},
                                {.kind = NormKind::kLayer, .norms_down = true, .biased = true},
                                {.norms_down = true, .dtype = DType::kF16}};
  for (const bool staging : {false, true}) {
    const auto devices = test::vulkan_devices({.staging = staging});
    if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
    for (const LayerOptions& options : cases) {
      std::vector<float> most;
      for (const std::int64_t n_rows : {40, 8, 3, 1}) {
        Layer together(false, options), apart(true, options);
        const std::vector<float> result = together.run(*devices.front(), n_rows);
        EXPECT_EQ(result, apart.run(*devices.front(), n_rows)) << n_rows;
        EXPECT_GT(std::abs(result[1]), 0.0f);
        // Without codes of its own for each product.
        if (options.dtype == DType::kQ8_0) {
          EXPECT_LT(together.n_phases, apart.n_phases);
        }
        // A row has its norms and additions from the product before, several have launches for them.
        if (most.empty()) most = result;
        EXPECT_EQ(result, std::vector<float>(most.begin(), most.begin() + n_rows * kColumns)) << n_rows;
      }
    }
  }
}

/// Keys that are turned and stored. What is shown as an output keeps a launch of its own.
struct Keys {
  static constexpr std::int64_t kRows = 5, kHeads = 3, kCells = 64;
  Keys(DType type, const ops::Rope& rope, bool shows_turned) : head_dim(rope.head_dim), dtype(type) {
    x = graph.add_input("x", DType::kF32, {kRows, kHeads * head_dim});
    positions = graph.add_input("positions", DType::kI32, {kRows});
    cells = graph.add_input("cells", DType::kI32, {kRows});
    cache = graph.add_state("cache", type, {kCells, kHeads, head_dim});
    turned = graph.add(rope, {x, positions}, "turned");
    stored = graph.add(ops::StoreCache{.role = CacheRole::kKeys}, {cache, turned, cells}, "stored");
    graph.add_output(stored);
    if (shows_turned) graph.add_output(turned);
  }

  /// The bytes of the cells.
  std::vector<std::byte> run(Device& device) {
    const auto rows = device.create_host_tensor(DType::kF32, std::vector{kRows, kHeads * head_dim});
    const auto at = device.create_host_tensor(DType::kI32, std::vector{kRows}),
               to = device.create_host_tensor(DType::kI32, std::vector{kRows}),
               shown = device.create_host_tensor(DType::kF32, std::vector{kRows, kHeads * head_dim});
    const auto state = device.create_state(dtype, std::vector{kCells, kHeads, head_dim});
    for (std::int64_t i = 0; i < kRows * kHeads * head_dim; ++i)
      reinterpret_cast<float*>(rows->host().data())[i] = std::sin(static_cast<float>(i) * 0.37f) * 3.0f;
    std::vector<std::int32_t> used;
    for (std::int32_t r = 0; r < kRows; ++r) {
      reinterpret_cast<std::int32_t*>(at->host().data())[r] = 1000 * r + 7;
      reinterpret_cast<std::int32_t*>(to->host().data())[r] = used.emplace_back((r * 29 + 3) % kCells);
    }
    Bindings bindings(graph.values().size(), nullptr);
    const auto bind = [&](ValueId value, DeviceTensor& to_tensor) {
      bindings[static_cast<std::size_t>(value)] = &to_tensor;
    };
    bind(x, *rows), bind(positions, *at), bind(cells, *to), bind(cache, *state), bind(turned, *shown);
    const auto plan = device.compile(graph, bindings, {});
    plan->submit({}, bindings, {});
    plan->wait();
    n_launches = plan->n_launches();
    std::vector<std::byte> bytes(static_cast<std::size_t>(kRows) * row_bytes(dtype, kHeads * head_dim));
    device.read_cells(*state, CacheRole::kKeys, used, bytes);
    return bytes;
  }

  Graph graph;
  std::int64_t head_dim = 0;
  DType dtype = DType::kF16;
  ValueId x = kNoValue, positions = kNoValue, cells = kNoValue, cache = kNoValue, turned = kNoValue,
          stored = kNoValue;
  int n_launches = 0;
};

TEST(VulkanFusion, KeysAreTurnedOnTheWayToTheirCells) {
  const auto devices = test::vulkan_devices();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0})
    for (const bool neox : {false, true})
      for (const int n_rot : {64, 24, 6}) {
        // Scaled rows are multiplied by a magnitude, too.
        const ops::Rope rope = {.head_dim = 64,
                                .n_rot = n_rot,
                                .neox = neox,
                                .freq_scale = 0.25f,
                                .ext_factor = 1.0f,
                                .n_ctx_orig = 64};
        Keys together(type, rope, false), apart(type, rope, true);
        const std::vector<std::byte> bytes = together.run(*devices.front());
        EXPECT_EQ(bytes, apart.run(*devices.front())) << info(type).name << " " << neox << " " << n_rot;
        EXPECT_NE(bytes[0] | bytes[1] | bytes[2] | bytes[3], std::byte{0});
        // Blocks and single pairs are not made by fours.
        const bool fused = type != DType::kQ8_0 && n_rot != 6;
        EXPECT_EQ(together.n_launches, fused ? 1 : 2);
        EXPECT_EQ(apart.n_launches, 2);
      }
}

/// What a product makes of attention over a few pages.
struct Attending {
  static constexpr std::int64_t kMaxRows = 24, kHeads = 4, kKvHeads = 2, kHead = 64, kPages = 3;
  static constexpr std::int64_t kCells = kPages * kPageCells, kWidth = kHeads * kHead;
  explicit Attending(bool shows_attention) {
    const Dim n(1, graph.add_symbol("n", 0, kMaxRows));
    const ValueId q = graph.add_input("q", DType::kF32, {n, kWidth});
    for (const char* const name : {"k", "v"})
      states.push_back(graph.add_state(name, DType::kF16, {kCells, kKvHeads, kHead}));
    const auto ints = [&](const char* name, const Shape& shape) {
      return graph.add_input(name, DType::kI32, shape);
    };
    inputs = {.q = q,
              .k = states[0],
              .v = states[1],
              .positions = ints("positions", {n}),
              .sequences = ints("sequences", {n}),
              .extents = ints("extents", {1, kPages, kExtentWords}),
              .counts = ints("counts", {1}),
              .ends = ints("ends", {n}),
              .hidden_first = ints("hidden_first", {n}),
              .hidden = ints("hidden", {1, kHiddenWords})};
    attention = graph.add(ops::Attention{.n_heads = kHeads, .scale = 0.2f}, inputs, "attention");
    weight = graph.add_weight("weight", DType::kQ8_0, {kColumns, kWidth});
    y = graph.add(ops::Matmul{}, {weight, attention}, "y");
    graph.add_output(y);
    if (shows_attention) graph.add_output(attention);
  }

  std::vector<float> run(Device& device, std::int64_t n_rows) {
    Bound bind(graph);
    const Bindings& bindings = bind.bindings;
    const auto host = [&](ValueId value) {
      const ValueInfo& of = graph.value(value);
      return bind(value, device.create_host_tensor(of.dtype, of.shape.dims(graph.bounds()))).host();
    };
    const auto set = [&](ValueId value, auto number_of) {
      const std::span<std::byte> bytes = host(value);
      const std::span<std::int32_t> all(reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / 4);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = number_of(static_cast<std::int32_t>(i));
    };
    set(inputs.q, [](std::int32_t i) {
      return std::bit_cast<std::int32_t>(std::sin(static_cast<float>(i) * 0.37f) * 2.0f);
    });
    set(inputs.positions, [](std::int32_t row) { return 100 + row; });
    set(inputs.sequences, [](std::int32_t) { return 0; });
    // All cells of page after page.
    set(inputs.extents, [](std::int32_t i) {
      const std::int32_t page = i / static_cast<std::int32_t>(kExtentWords);
      return std::array<std::int32_t, 6>{-1, -1, page, page * 64, 1, 0}[static_cast<std::size_t>(i) % 6];
    });
    set(inputs.counts, [](std::int32_t) { return static_cast<std::int32_t>(kPages); });
    set(inputs.ends, [](std::int32_t row) { return 101 + row; });
    set(inputs.hidden_first, [](std::int32_t) { return -1; });
    set(inputs.hidden, [](std::int32_t) { return -1; });
    for (const ValueId state : states) {
      DeviceTensor& cache =
          bind(state, device.create_state(DType::kF16, std::vector{kCells, kKvHeads, kHead}));
      std::vector<std::int32_t> cells(kCells);
      std::iota(cells.begin(), cells.end(), 0);
      std::vector<std::byte> rows(static_cast<std::size_t>(kCells * kKvHeads * kHead) * 2);
      // Halves from 1/64 to 2, of either sign.
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = i % 2 == 0 ? std::byte(i * 31 % 251) : std::byte((i * 7 % 2 << 7) | (36 + i * 13 % 27));
      device.write_cells(cache, state == states[0] ? CacheRole::kKeys : CacheRole::kValues, cells, rows);
    }
    std::vector<std::byte> data(row_bytes(DType::kQ8_0, kColumns * kWidth));
    for (std::size_t i = 0; i < data.size(); ++i)  // Blocks of a scale, 1/64 as a half, and 32 codes.
      data[i] = i % 34 == 0 ? std::byte{0} : i % 34 == 1 ? std::byte{0x24} : std::byte(i * 37 % 251);
    bind(weight, device.create_weight(DType::kQ8_0, std::vector{kColumns, kWidth}, {data, {}}));
    for (const ValueId output : graph.outputs()) host(output);
    const auto plan = device.compile(graph, bindings, {.allowed = {.shapes = true}});
    plan->submit({&n_rows, 1}, bindings, {.shapes = true});
    plan->wait();
    const auto* const result =
        reinterpret_cast<const float*>(bindings[static_cast<std::size_t>(y)]->host().data());
    return {result, result + n_rows * kColumns};
  }

  Graph graph;
  ops::Attention::Inputs inputs;
  std::vector<ValueId> states;
  ValueId attention = kNoValue, weight = kNoValue, y = kNoValue;
};

TEST(VulkanFusion, MergedPagesHaveTheCodesOfAttentionTiles) {
  const auto devices = test::vulkan_devices();
  if (devices.empty()) GTEST_SKIP() << test::kNoVulkan;
  for (const bool shows_attention : {false, true}) {
    Attending attending(shows_attention);
    const std::vector<float> few = attending.run(*devices.front(), 3),
                             many = attending.run(*devices.front(), Attending::kMaxRows);
    EXPECT_EQ(few, std::vector<float>(many.begin(), many.begin() + 3 * kColumns));
    EXPECT_GT(std::abs(few[1]), 0.0f);
    const gpu::Fusion fusion(attending.graph, live_nodes(attending.graph), true);
    EXPECT_TRUE(fusion.makes_codes(attending.attention));
    EXPECT_EQ(fusion.makes_floats(attending.attention), shows_attention);
  }
}

TEST(VulkanFusion, KnowsNodesWithoutLaunches) {
  const Layer together(false), apart(true);
  const auto value = [](const Layer& layer, std::string_view name) {
    ValueId id = 0;
    while (layer.graph.value(id).name != name) ++id;
    return id;
  };
  const auto check = [&](const Layer& layer, bool codes, bool alone) {
    const gpu::Fusion fusion(layer.graph, live_nodes(layer.graph), codes);
    const NodeId sum = layer.graph.value(layer.y).producer,
                 down = layer.graph.value(value(layer, "down")).producer;
    EXPECT_EQ(fusion.product_of(sum), alone ? down : kNoNode);
    EXPECT_EQ(fusion.is_added_to(down), alone);
    EXPECT_EQ(fusion.makes_codes(value(layer, "norm")), codes);
    EXPECT_EQ(fusion.makes_floats(value(layer, "norm")), !codes || !alone);
    EXPECT_EQ(fusion.makes_codes(value(layer, "glu")), codes && alone);
    EXPECT_EQ(fusion.makes_floats(value(layer, "glu")), !codes || !alone);
    const NodeId next_norm = layer.graph.value(value(layer, "next.norm")).producer;
    EXPECT_EQ(fusion.tail(sum).norm, alone ? next_norm : kNoNode);
    EXPECT_EQ(fusion.is_in_tail(next_norm), alone);
    EXPECT_TRUE(fusion.tail(down).is_empty());
    EXPECT_FALSE(fusion.is_in_tail(layer.graph.value(value(layer, "norm")).producer));
  };
  check(together, true, true);
  check(together, false, true);
  check(apart, true, false);

  const Layer normed(false, {.norms_down = true});
  const gpu::Fusion fusion(normed.graph, live_nodes(normed.graph), true);
  const auto maker = [&](std::string_view name) { return normed.graph.value(value(normed, name)).producer; };
  const gpu::RowTail& tail = fusion.tail(maker("down"));
  EXPECT_EQ(tail.own_norm, maker("down.norm"));
  EXPECT_EQ(tail.sum, maker("y"));
  EXPECT_EQ(tail.norm, maker("next.norm"));
  for (const char* const name : {"down.norm", "y", "next.norm"}) EXPECT_TRUE(fusion.is_in_tail(maker(name)));
}

ValueId exponential(Graph& graph, ValueId of) {
  return graph.add(ops::Unary{.kind = UnaryKind::kExp}, {of}, "exp");
}

/// A product of one row and the nodes after it.
struct Behind {
  Behind() {
    x = graph.add_input("x", DType::kF32, {1, kColumns});
    weight = graph.add_weight("weight", DType::kF16, {kColumns, kColumns});
    product = graph.add(ops::Matmul{}, {weight, x}, "product");
  }
  ValueId norm(ValueId of, ops::Norm op = {}) { return graph.add(op, {of}, "norm"); }
  ValueId sum(ValueId a, ValueId b) { return graph.add(ops::Add{}, {a, b}, "sum"); }
  NodeId maker(ValueId value) const { return graph.value(value).producer; }
  /// The product's tail, where these values are the graph's outputs.
  gpu::RowTail tail(std::initializer_list<ValueId> outputs) {
    for (const ValueId output : outputs) graph.add_output(output);
    return gpu::Fusion(graph, live_nodes(graph), false).tail(maker(product));
  }

  Graph graph;
  ValueId x = kNoValue, weight = kNoValue, product = kNoValue;
};

TEST(VulkanFusion, FusesOnlyRowWiseNodesAfterProducts) {
  {
    Behind of;  // The first of two norms of a product.
    const ValueId first = of.norm(of.product), second = of.norm(of.product, {.kind = NormKind::kL2});
    EXPECT_EQ(of.tail({first, second}).norm, of.maker(first));
  }
  {
    Behind of;  // The norm on either side of a sum.
    const ValueId norm = of.norm(of.product), sum = of.sum(norm, of.x);
    EXPECT_EQ(of.tail({sum}).sum, of.maker(sum));
  }
  {
    Behind of;  // Another node reads the norm,
    const ValueId norm = of.norm(of.product), sum = of.sum(norm, of.x);
    const gpu::RowTail tail = of.tail({sum, norm});
    EXPECT_EQ(tail.sum, kNoNode);
    EXPECT_EQ(tail.norm, of.maker(norm));
  }
  {
    Behind of;  // ... or the product: the added value may depend on it.
    const ValueId norm = of.norm(of.product);
    const ValueId sum = of.sum(norm, exponential(of.graph, of.product));
    EXPECT_EQ(of.tail({sum}).sum, kNoNode);
  }
  {
    Behind of;  // The added value is computed after the product,
    const ValueId later = exponential(of.graph, of.x), sum = of.sum(of.norm(of.product), later);
    EXPECT_EQ(of.tail({sum}).sum, kNoNode);
  }
  {
    Behind of;  // ... or a view.
    const ValueId turned = of.graph.add(ops::Reshape{{1, kColumns}}, {of.x}, "view");
    const ValueId sum = of.sum(of.norm(of.product), turned);
    EXPECT_EQ(of.tail({sum}).sum, kNoNode);
  }
  {
    Behind of;  // Norms of parts of a row,
    EXPECT_TRUE(of.tail({of.norm(of.product, {.group = 32})}).is_empty());
  }
  {
    Behind of;  // ... and with a weight that is an input.
    const ValueId given = of.graph.add_input("given", DType::kF32, {kColumns});
    const ValueId norm = of.graph.add(ops::Norm{}, {of.product, given}, "norm");
    EXPECT_TRUE(of.tail({norm}).is_empty());
  }
}

}  // namespace
}  // namespace weft
