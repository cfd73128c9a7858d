// Short convolutions and selective scans: every instruction set compared with the formulas in double. Bits
// are the same for any mix of sequences, any cut into steps and any number of threads.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "backend/cpu/device.h"
#include "backend_cpu/float_testing.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kRecurrentRows = 40;
constexpr int kRecurrentSlots = 6;
constexpr int kTaps = 4, kStates = 5;

/// One row of a step: its sequence's slots, and which row of the random data it computes.
struct RecurrentRow {
  std::int32_t from = -1;
  std::int32_t to = 0;
  std::int64_t data = 0;
};

/// Heads of an odd width where they can be, each with projections of its own.
std::int64_t heads_of(std::int64_t columns) { return columns % 2 == 0 ? 2 : 1; }

/// A graph with a convolution and both kinds of scan on one x of `columns` columns, on the device.
class RecurrentRig {
 public:
  RecurrentRig(Isa isa, std::int64_t columns, int n_threads)
      : columns_(columns), device_(make_device({.isa = isa, .n_threads = n_threads})) {
    const Dim rows(1, graph_.add_symbol("n", 0, kRecurrentRows));
    const auto input = [&](const char* name, std::int64_t n) {
      return inputs_[name] = graph_.add_input(name, DType::kF32, {rows, n});
    };
    const ValueId x = input("x", columns), dt = input("dt", columns), b = input("b", kStates),
                  c = input("c", kStates);
    const ValueId from = inputs_["from"] = graph_.add_input("from", DType::kI32, {rows});
    const ValueId to = inputs_["to"] = graph_.add_input("to", DType::kI32, {rows});
    const ValueId weight = graph_.add_weight("weight", DType::kF32, {columns, kTaps});
    const ValueId bias = graph_.add_weight("bias", DType::kF32, {columns});
    const ValueId a = graph_.add_weight("a", DType::kF32, {columns, kStates});
    const ValueId skip = graph_.add_weight("skip", DType::kF32, {columns});
    const ValueId conv_state =
        graph_.add_state("conv_state", DType::kF32, {kRecurrentSlots, kTaps - 1, columns});
    const ValueId scan_state =
        graph_.add_state("scan_state", DType::kF32, {kRecurrentSlots, kStates, columns});
    conv = graph_.add(ops::ShortConv{}, {conv_state, x, weight, from, to, bias}, "conv");
    scan = graph_.add(ops::SelectiveScan{}, {scan_state, x, dt, b, c, a, skip, from, to}, "scan");
    const std::int64_t n_heads = heads_of(columns);
    const ValueId head_dt = input("head_dt", n_heads), head_b = input("head_b", n_heads * kStates),
                  head_c = input("head_c", n_heads * kStates);
    const ValueId head_a = graph_.add_weight("head_a", DType::kF32, {n_heads});
    const ValueId head_skip = graph_.add_weight("head_skip", DType::kF32, {n_heads});
    const ValueId head_state =
        graph_.add_state("head_state", DType::kF32, {kRecurrentSlots, kStates, columns});
    heads = graph_.add(ops::SelectiveScan{},
                       {head_state, x, head_dt, head_b, head_c, head_a, head_skip, from, to}, "heads");
    graph_.add_output(heads);
    graph_.add_output(conv);
    graph_.add_output(scan);

    bindings_.resize(graph_.values().size(), nullptr);
    for (std::size_t v = 0; v < bindings_.size(); ++v) {
      const ValueInfo& value = graph_.values()[v];
      std::vector<std::int64_t> shape;
      for (int i = 0; i < value.shape.rank(); ++i) shape.push_back(value.shape[i].value(graph_.bounds()));
      if (value.kind == ValueKind::kWeight) {
        own_.push_back(
            device_->create_weight(value.dtype, shape, {std::as_bytes(std::span(data(value.name))), {}}));
      } else if (value.kind == ValueKind::kState) {
        own_.push_back(device_->create_state(value.dtype, shape));
      } else {
        own_.push_back(device_->create_host_tensor(value.dtype, shape));
      }
      bindings_[v] = own_.back().get();
    }
    plan_ = device_->compile(graph_, bindings_, {.allowed = {.shapes = true}, .n_threads = n_threads});
  }

  /// Random numbers of a weight, or of all rows of an input. Fixed, whatever rig asks.
  const std::vector<float>& data(const std::string& name) {
    std::vector<float>& values = data_[name];
    if (!values.empty()) return values;
    const auto n = static_cast<std::size_t>(columns_);
    if (name == "weight") return values = random_floats(n * kTaps, 1);
    if (name == "bias") return values = random_floats(n, 2);
    if (name == "skip") return values = random_floats(n, 3);
    if (name == "x") return values = random_floats(n * kRecurrentRows, 4);
    if (name == "b") return values = random_floats(kStates * kRecurrentRows, 5);
    if (name == "c") return values = random_floats(kStates * kRecurrentRows, 6);
    const auto n_heads = static_cast<std::size_t>(heads_of(columns_));
    if (name == "head_b") return values = random_floats(n_heads * kStates * kRecurrentRows, 9);
    if (name == "head_c") return values = random_floats(n_heads * kStates * kRecurrentRows, 10);
    if (name == "head_skip") return values = random_floats(n_heads, 11);
    if (name == "head_a") {
      values = random_floats(n_heads, 12);
      for (float& v : values) v = -std::abs(v);
      return values;
    }
    if (name == "head_dt") {
      values = random_floats(n_heads * kRecurrentRows, 13);
      for (float& v : values) v = std::abs(v);
      return values;
    }
    values = random_floats(name == "a" ? n * kStates : n * kRecurrentRows, name == "a" ? 7 : 8);
    for (float& v : values) v = name == "a" ? -std::abs(v) : std::abs(v);  // Decays, and steps of time.
    return values;
  }

  void run(const std::vector<RecurrentRow>& rows) {
    const std::int64_t symbols[] = {static_cast<std::int64_t>(rows.size())};
    for (const char* name : {"x", "dt", "b", "c", "head_dt", "head_b", "head_c"}) {
      const std::vector<float>& values = data(name);
      const std::size_t n = values.size() / kRecurrentRows;
      for (std::size_t r = 0; r < rows.size(); ++r)
        std::memcpy(host<float>(inputs_[name]) + r * n,
                    values.data() + static_cast<std::size_t>(rows[r].data) * n, n * sizeof(float));
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      host<std::int32_t>(inputs_["from"])[r] = rows[r].from;
      host<std::int32_t>(inputs_["to"])[r] = rows[r].to;
    }
    plan_->submit(symbols, bindings_, {.shapes = true});
  }

  std::vector<float> output(ValueId value, std::size_t row) {
    const float* begin = host<float>(value) + static_cast<std::int64_t>(row) * columns_;
    return {begin, begin + columns_};
  }

  std::vector<float> state_of(const char* name, std::int32_t slot, int rows) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns_));
    device_->read_cells(*bindings_[static_cast<std::size_t>(graph_.find(name))], CacheRole::kSlots,
                        {&slot, 1}, std::as_writable_bytes(std::span(values)));
    return values;
  }

  ValueId conv = kNoValue, scan = kNoValue, heads = kNoValue;

 private:
  template <typename T>
  T* host(ValueId value) {
    return reinterpret_cast<T*>(bindings_[static_cast<std::size_t>(value)]->host().data());
  }

  std::int64_t columns_;
  std::shared_ptr<Device> device_;
  Graph graph_;
  std::map<std::string, ValueId> inputs_;
  std::map<std::string, std::vector<float>> data_;
  std::vector<std::unique_ptr<DeviceTensor>> own_;
  Bindings bindings_;
  std::unique_ptr<DevicePlan> plan_;
};

class Recurrent : public testing::TestWithParam<Isa> {};

TEST_P(Recurrent, OpsFollowTheirFormulas) {
  for (const std::int64_t columns : {1, 3, 8, 17, 64, 65, 130}) {
    RecurrentRig rig(GetParam(), columns, 1);
    const auto n = static_cast<std::size_t>(columns);
    constexpr std::size_t kRows = 20;
    std::vector<RecurrentRow> rows;
    for (std::size_t r = 0; r < kRows; ++r)
      rows.push_back({.from = r == 0 ? -1 : 2, .to = 2, .data = static_cast<std::int64_t>(r)});
    rig.run(rows);
    const auto &x = rig.data("x"), &dt = rig.data("dt"), &b = rig.data("b"), &c = rig.data("c");
    const auto n_heads = static_cast<std::size_t>(heads_of(columns));
    std::vector<double> h(n * kStates, 0.0), head_h(n * kStates, 0.0), all_conv, all_scan, all_heads;
    std::vector<float> got_conv, got_scan, got_heads;
    const auto append = [](auto& all, const auto& row) { all.insert(all.end(), row.begin(), row.end()); };
    for (std::size_t r = 0; r < kRows; ++r) {
      std::vector<double> conv(n), scan(n), heads(n);
      for (std::size_t j = 0; j < n; ++j) {
        conv[j] = rig.data("bias")[j];
        for (std::size_t k = 0; k < kTaps; ++k)
          if (r + k + 1 >= kTaps)
            conv[j] += double{rig.data("weight")[j * kTaps + k]} * double{x[(r + k + 1 - kTaps) * n + j]};
        const double step = dt[r * n + j], in = x[r * n + j];
        scan[j] = double{rig.data("skip")[j]} * in;
        for (std::size_t i = 0; i < kStates; ++i) {
          double& state = h[j * kStates + i];
          state = std::exp(step * double{rig.data("a")[j * kStates + i]}) * state +
                  step * double{b[r * kStates + i]} * in;
          scan[j] += double{c[r * kStates + i]} * state;
        }
        const std::size_t head = j / (n / n_heads);
        const double head_step = rig.data("head_dt")[r * n_heads + head];
        heads[j] = double{rig.data("head_skip")[head]} * in;
        for (std::size_t i = 0; i < kStates; ++i) {
          const std::size_t at = (r * n_heads + head) * kStates + i;
          double& state = head_h[j * kStates + i];
          state = std::exp(head_step * double{rig.data("head_a")[head]}) * state +
                  head_step * double{rig.data("head_b")[at]} * in;
          heads[j] += double{rig.data("head_c")[at]} * state;
        }
      }
      append(all_conv, conv);
      append(all_scan, scan);
      append(all_heads, heads);
      append(got_conv, rig.output(rig.conv, r));
      append(got_scan, rig.output(rig.scan, r));
      append(got_heads, rig.output(rig.heads, r));
    }
    EXPECT_LE(nmse(got_conv, all_conv), 1e-13) << columns << " columns";
    EXPECT_LE(nmse(got_scan, all_scan), 1e-13) << columns << " columns";
    EXPECT_LE(nmse(got_heads, all_heads), 1e-13) << columns << " columns";
  }
}

/// Three sequences, each alone and in one step, and then mixed, cut and shared by threads. The first moves to
/// a slot of its own, from which a fourth continues while the first does, too.
TEST_P(Recurrent, MixturesPiecesAndThreadsChangeNoBit) {
  constexpr std::int64_t kColumns = 150;
  std::map<std::int64_t, std::vector<float>> conv, scan, heads;  // By row of the data.
  std::vector<float> last_conv, last_scan;
  const auto run = [&](RecurrentRig& rig, const std::vector<RecurrentRow>& rows, bool first) {
    rig.run(rows);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (first) {
        conv[rows[r].data] = rig.output(rig.conv, r);
        scan[rows[r].data] = rig.output(rig.scan, r);
        heads[rows[r].data] = rig.output(rig.heads, r);
      } else {
        EXPECT_TRUE(conv[rows[r].data] == rig.output(rig.conv, r)) << rows[r].data;
        EXPECT_TRUE(scan[rows[r].data] == rig.output(rig.scan, r)) << rows[r].data;
        EXPECT_TRUE(heads[rows[r].data] == rig.output(rig.heads, r)) << rows[r].data;
      }
    }
  };
  {
    RecurrentRig rig(GetParam(), kColumns, 1);
    for (std::int64_t text = 0; text < 3; ++text) {
      std::vector<RecurrentRow> rows;
      for (std::int64_t t = 0; t < 12; ++t)
        rows.push_back({.from = t == 0 ? -1 : static_cast<std::int32_t>(text),
                        .to = static_cast<std::int32_t>(text),
                        .data = text * 12 + t});
      run(rig, rows, true);
    }
    last_conv = rig.state_of("conv_state", 0, kTaps - 1);
    last_scan = rig.state_of("scan_state", 0, kStates);
  }
  for (const int n_threads : {1, 2, 3}) {
    for (const std::size_t piece : {36, 7, 1}) {
      RecurrentRig rig(GetParam(), kColumns, n_threads);
      std::vector<RecurrentRow> rows;
      for (std::int64_t t = 0; t < 12; ++t)
        for (std::int32_t text = 0; text < 3; ++text) {
          // The first sequence changes its slot half-way; the old slot must stay unchanged.
          const auto slot = [&](std::int64_t at) { return text > 0 ? text : at < 6 ? 4 : 0; };
          rows.push_back({.from = t == 0 ? -1 : slot(t - 1), .to = slot(t), .data = text * 12 + t});
        }
      for (std::size_t begin = 0; begin < rows.size(); begin += piece)
        run(rig,
            {rows.begin() + static_cast<std::ptrdiff_t>(begin),
             rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + piece, rows.size()))},
            false);
      EXPECT_TRUE(rig.state_of("conv_state", 0, kTaps - 1) == last_conv);
      EXPECT_TRUE(rig.state_of("scan_state", 0, kStates) == last_scan);
      // From the slot that was left half-way the second half comes out the same once more.
      rows.clear();
      for (std::int64_t t = 6; t < 12; ++t) rows.push_back({.from = t == 6 ? 4 : 5, .to = 5, .data = t});
      run(rig, rows, false);
      EXPECT_TRUE(rig.state_of("scan_state", 5, kStates) == last_scan);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Recurrent, testing::ValuesIn(supported_isas()), isa_name);

}  // namespace
}  // namespace weft::cpu
