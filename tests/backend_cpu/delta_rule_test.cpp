// The delta rule: every instruction set compared with the formulas in double. Bits are the same for any mix
// of sequences, any cut into steps and any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "backend/cpu/device.h"
#include "backend_cpu/float_testing.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kMaxRows = 40;
constexpr int kSlots = 6, kHeads = 4, kKeys = 9;

/// One row of a step: its sequence's slots, and which row of the random data it computes.
struct Row {
  std::int32_t from = -1;
  std::int32_t to = 0;
  std::int64_t data = 0;
};

/// The forms that the op has: decays of heads (with keys that heads share), of rows, and keys to remove.
enum class DeltaForm : std::uint8_t { kHeadDecays, kRowDecays, kRemovedKeys };
constexpr DeltaForm kDeltaForms[] = {DeltaForm::kHeadDecays, DeltaForm::kRowDecays, DeltaForm::kRemovedKeys};

/// A graph of one delta rule on the device, with heads of `columns` columns.
class Rig {
 public:
  Rig(Isa isa, DeltaForm form, std::int64_t columns, int n_threads)
      : form_(form), columns_(columns), device_(make_device({.isa = isa, .n_threads = n_threads})) {
    const Dim rows(1, graph_.add_symbol("n", 0, kMaxRows));
    const auto input = [&](const char* name) {
      return inputs_[name] = graph_.add_input(name, DType::kF32, {rows, width(name)});
    };
    const ValueId q = input("q"), k = input("k"), v = input("v"), decay = input("decay"),
                  beta = input("beta");
    const ValueId from = inputs_["from"] = graph_.add_input("from", DType::kI32, {rows});
    const ValueId to = inputs_["to"] = graph_.add_input("to", DType::kI32, {rows});
    const ValueId removed = form == DeltaForm::kRemovedKeys ? input("removed") : kNoValue;
    state_ = graph_.add_state("state", DType::kF32, {kSlots, kHeads * kKeys, columns});
    y_ = graph_.add(ops::DeltaRule{},
                    {.state = state_,
                     .q = q,
                     .k = k,
                     .v = v,
                     .decay = decay,
                     .beta = beta,
                     .from = from,
                     .to = to,
                     .removed = removed},
                    "y");
    graph_.add_output(y_);
    bindings_.resize(graph_.values().size(), nullptr);
    for (std::size_t i = 0; i < bindings_.size(); ++i) {
      const ValueInfo& value = graph_.values()[i];
      std::vector<std::int64_t> shape;
      for (int d = 0; d < value.shape.rank(); ++d) shape.push_back(value.shape[d].value(graph_.bounds()));
      own_.push_back(value.kind == ValueKind::kState ? device_->create_state(value.dtype, shape)
                                                     : device_->create_host_tensor(value.dtype, shape));
      bindings_[i] = own_.back().get();
    }
    plan_ = device_->compile(graph_, bindings_, {.allowed = {.shapes = true}, .n_threads = n_threads});
  }

  std::int64_t groups() const { return form_ == DeltaForm::kRemovedKeys ? kHeads : 2; }
  std::int64_t width(const std::string& name) const {
    if (name == "q" || name == "k") return groups() * kKeys;
    if (name == "v") return kHeads * columns_;
    const bool of_rows = name == "removed" || (name == "decay" && form_ != DeltaForm::kHeadDecays) ||
                         (name == "beta" && form_ == DeltaForm::kRemovedKeys);
    return of_rows ? kHeads * kKeys : kHeads;
  }

  /// Random numbers of all rows of an input. Fixed, whatever rig asks.
  const std::vector<float>& data(const std::string& name) {
    std::vector<float>& values = data_[name];
    if (!values.empty()) return values;
    values =
        random_floats(static_cast<std::size_t>(width(name) * kMaxRows), std::hash<std::string>()(name), 0.3f);
    if (name == "decay" || name == "beta")
      for (float& x : values) x = 1.0f / (1.0f + std::exp(-5.0f * x));
    return values;
  }

  void run(const std::vector<Row>& rows) {
    const std::int64_t symbols[] = {static_cast<std::int64_t>(rows.size())};
    for (const auto& [name, value] : inputs_) {
      if (name == "from" || name == "to") continue;
      const auto n = static_cast<std::size_t>(width(name));
      for (std::size_t r = 0; r < rows.size(); ++r)
        std::memcpy(host<float>(value) + r * n,
                    data(name).data() + static_cast<std::size_t>(rows[r].data) * n, n * sizeof(float));
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      host<std::int32_t>(inputs_["from"])[r] = rows[r].from;
      host<std::int32_t>(inputs_["to"])[r] = rows[r].to;
    }
    plan_->submit(symbols, bindings_, {.shapes = true});
  }

  std::vector<float> output(std::size_t row) {
    const float* const begin = host<float>(y_) + static_cast<std::int64_t>(row) * width("v");
    return {begin, begin + width("v")};
  }

  std::vector<float> state_of(std::int32_t slot) {
    std::vector<float> values(static_cast<std::size_t>(kHeads * kKeys * columns_));
    device_->read_cells(*bindings_[static_cast<std::size_t>(state_)], CacheRole::kSlots, {&slot, 1},
                        std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  template <typename T>
  T* host(ValueId value) {
    return reinterpret_cast<T*>(bindings_[static_cast<std::size_t>(value)]->host().data());
  }

  DeltaForm form_;
  std::int64_t columns_;
  std::shared_ptr<Device> device_;
  Graph graph_;
  ValueId state_ = kNoValue, y_ = kNoValue;
  std::map<std::string, ValueId> inputs_;
  std::map<std::string, std::vector<float>> data_;
  std::vector<std::unique_ptr<DeviceTensor>> own_;
  Bindings bindings_;
  std::unique_ptr<DevicePlan> plan_;
};

/// The formulas' results for one sequence of n_rows rows.
std::vector<double> formula(Rig& rig, DeltaForm form, std::size_t columns, std::size_t n_rows) {
  const auto at = [&](const char* name, std::size_t r, std::size_t i) {
    return double{rig.data(name)[r * static_cast<std::size_t>(rig.width(name)) + i]};
  };
  const auto groups = static_cast<std::size_t>(rig.groups());
  std::vector<double> state(kHeads * kKeys * columns, 0.0), y;
  for (std::size_t r = 0; r < n_rows; ++r)
    for (std::size_t h = 0; h < kHeads; ++h) {
      const std::size_t keys = h / (kHeads / groups) * kKeys;
      for (std::size_t j = 0; j < columns; ++j) {
        const auto s = [&](std::size_t i) -> double& { return state[(h * kKeys + i) * columns + j]; };
        const double v = at("v", r, h * columns + j);
        double held = 0.0, sum = 0.0;
        for (std::size_t i = 0; i < kKeys; ++i) {
          const std::size_t row = h * kKeys + i;
          if (form == DeltaForm::kRemovedKeys) held += at("removed", r, row) * s(i);
          s(i) *= at("decay", r, form == DeltaForm::kHeadDecays ? h : row);
          if (form != DeltaForm::kRemovedKeys) held += at("k", r, keys + i) * s(i);
        }
        for (std::size_t i = 0; i < kKeys; ++i) {
          const std::size_t row = h * kKeys + i;
          s(i) += form == DeltaForm::kRemovedKeys
                      ? at("k", r, keys + i) * v - at("beta", r, row) * at("removed", r, row) * held
                      : at("k", r, keys + i) * at("beta", r, h) * (v - held);
          sum += at("q", r, keys + i) * s(i);
        }
        y.push_back(sum);
      }
    }
  return y;
}

class DeltaRule : public testing::TestWithParam<Isa> {};

TEST_P(DeltaRule, FollowsItsFormulas) {
  for (const DeltaForm form : kDeltaForms)
    for (const std::int64_t columns : {1, 3, 8, 17, 64, 65, 130}) {
      Rig rig(GetParam(), form, columns, 1);
      constexpr std::size_t kRows = 20;
      std::vector<Row> rows;
      for (std::size_t r = 0; r < kRows; ++r)
        rows.push_back({.from = r == 0 ? -1 : 2, .to = 2, .data = static_cast<std::int64_t>(r)});
      rig.run(rows);
      std::vector<float> got;
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::vector<float> row = rig.output(r);
        got.insert(got.end(), row.begin(), row.end());
      }
      const std::vector<double> want = formula(rig, form, static_cast<std::size_t>(columns), kRows);
      EXPECT_LE(nmse(got, want), 1e-12) << static_cast<int>(form) << ", " << columns << " columns";
    }
}

/// Three sequences, each alone and in one step, and then mixed, cut and shared by threads. The first moves to
/// a slot of its own, from which it continues.
TEST_P(DeltaRule, MixturesPiecesAndThreadsChangeNoBit) {
  constexpr std::int64_t kColumns = 150;
  for (const DeltaForm form : kDeltaForms) {
    std::map<std::int64_t, std::vector<float>> alone;  // By row of the data.
    std::vector<float> last;
    {
      Rig rig(GetParam(), form, kColumns, 1);
      for (std::int32_t text = 0; text < 3; ++text) {
        std::vector<Row> rows;
        for (std::int64_t t = 0; t < 12; ++t)
          rows.push_back({.from = t == 0 ? -1 : text, .to = text, .data = text * 12 + t});
        rig.run(rows);
        for (std::size_t r = 0; r < rows.size(); ++r) alone[rows[r].data] = rig.output(r);
      }
      last = rig.state_of(0);
    }
    for (const int n_threads : {1, 2, 3})
      for (const bool mixed : {false, true})
        for (const std::size_t piece : {36, 7, 1}) {
          Rig rig(GetParam(), form, kColumns, n_threads);
          const auto run = [&](const std::vector<Row>& rows) {
            rig.run(rows);
            for (std::size_t r = 0; r < rows.size(); ++r)
              EXPECT_TRUE(alone[rows[r].data] == rig.output(r)) << rows[r].data;
          };
          std::vector<Row> rows;
          for (std::int64_t i = 0; i < 36; ++i) {
            const auto text = static_cast<std::int32_t>(mixed ? i % 3 : i / 12);
            const std::int64_t t = mixed ? i / 3 : i % 12;
            // The first sequence changes its slot half-way; the old slot must stay unchanged.
            const auto slot = [&](std::int64_t when) { return text > 0 ? text : when < 6 ? 4 : 0; };
            rows.push_back({.from = t == 0 ? -1 : slot(t - 1), .to = slot(t), .data = text * 12 + t});
          }
          for (std::size_t begin = 0; begin < rows.size(); begin += piece)
            run({rows.begin() + static_cast<std::ptrdiff_t>(begin),
                 rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + piece, rows.size()))});
          EXPECT_TRUE(rig.state_of(0) == last);
          // From the slot that was left half-way the second half comes out the same once more.
          rows.clear();
          for (std::int64_t t = 6; t < 12; ++t) rows.push_back({.from = t == 6 ? 4 : 5, .to = 5, .data = t});
          run(rows);
          EXPECT_TRUE(rig.state_of(5) == last);
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, DeltaRule, testing::ValuesIn(supported_isas()), isa_name);

}  // namespace
}  // namespace weft::cpu
