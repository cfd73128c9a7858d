#pragma once
// One case of conformance, and the suite that cases are added to. Only for this layer. The files next to it
// that add cases are named after their ops.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/conformance/truth.h"
#include "weft/backend/device.h"
#include "weft/conformance.h"

namespace weft::conformance {

inline constexpr DType kWeightTypes[] = {
    DType::kF32,   DType::kF16,     DType::kBF16,   DType::kQ4_0,  DType::kQ4_1,    DType::kQ5_0,
    DType::kQ5_1,  DType::kQ8_0,    DType::kIQ4_NL, DType::kMXFP4, DType::kNVFP4,   DType::kQ1_0,
    DType::kTQ1_0, DType::kTQ2_0,   DType::kQ2_K,   DType::kQ3_K,  DType::kQ4_K,    DType::kQ5_K,
    DType::kQ6_K,  DType::kIQ4_XS,  DType::kIQ1_S,  DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS,
    DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};
inline constexpr DType kCacheTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,  DType::kQ4_0,
                                        DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL};

inline constexpr double kFloatTolerance = 2e-6;    ///< Sums and elementary functions in float.
inline constexpr double kProductTolerance = 1e-5;  ///< Long sums.
inline constexpr double kQuantisedTolerance =
    2e-2;  ///< Products whose activations a device may quantise to eight bits.
inline constexpr double kHalfTolerance = 2e-3;   ///< What was kept as f16 ...
inline constexpr double kBrainTolerance = 1e-2;  ///< ... or bf16, perhaps multiplied by numbers of that type.
inline constexpr double kCacheTolerance = 1.5e-1;  ///< ... or in four bits.

std::string text(const Shape& shape);  ///< "{3,64}"
/// The root of the mean square.
double mean_size(const Values& values);

/// A graph of one node (and what it needs), its inputs, and what must come out.
class Case {
 public:
  Case(Device& device, std::uint64_t seed) : device_(device), random_(seed) {}

  Values floats(const Shape& shape, float low = -2.0f, float high = 2.0f);
  std::int32_t integer(std::int32_t low, std::int32_t high);

  /// The number of rows is a symbol, as in models: the step gives it, the bound is one more.
  Dim rows(std::int64_t n);

  ValueId input(const Shape& shape, const Values& values);
  ValueId input(const Shape& shape, const Indices& values);
  /// Packs the values, and replaces them by the stored ones.
  ValueId weight(DType type, const Shape& shape, Values& values);
  ValueId state(DType type, const Shape& shape, CacheRole role, Values& values);

  /// Compares an output, or the state that it represents.
  void expect(ValueId value, Values truth);
  void expect_state(ValueId state, ValueId last, Values truth);

  /// A lower bound on the magnitude of results: a sum may be much smaller than its terms.
  void measure_against(double magnitude) { magnitude_ = magnitude; }

  ConformanceCase run(std::string what, double tolerance);

  Graph graph;

 private:
  struct Bytes {
    ValueId value;
    std::vector<std::byte> bytes;
  };
  struct State {
    ValueId value;
    CacheRole role;
    std::vector<std::byte> bytes;
    std::size_t cell_bytes;
    std::int64_t n_cells;
  };
  struct Truth {
    ValueId value;
    Values values;
  };
  struct StateTruth {
    ValueId state;
    ValueId last;
    Values values;
  };

  std::string next_name() { return "v" + std::to_string(n_names_++); }

  std::vector<std::int64_t> dims(ValueId value) const;
  double error_of_run();

  Device& device_;
  double magnitude_ = 0.0;
  std::mt19937_64 random_;
  int n_names_ = 0;
  std::vector<std::int64_t> symbols_;
  std::vector<Bytes> host_data_, weights_;
  std::vector<State> states_;
  std::vector<Truth> outputs_;
  std::vector<StateTruth> state_truths_;
};

/// Runs the cases that are wanted, each with random numbers of its own.
class Suite {
 public:
  Suite(Device& device, const ConformanceOptions& options) : device_(device), options_(options) {}

  Case next() { return {device_, options_.seed + ++n_cases_}; }
  bool wanted(std::string_view op) const { return options_.only.empty() || options_.only == op; }
  void take(Case& c, std::string what, double tolerance) {
    if (n_cases_ % static_cast<std::uint64_t>(std::max(1, options_.every)) != 0) return;
    results_.push_back(c.run(std::move(what), tolerance));
    if (options_.progress) options_.progress(results_.back());
  }
  std::vector<ConformanceCase> results() { return std::move(results_); }

 private:
  Device& device_;
  const ConformanceOptions& options_;
  std::uint64_t n_cases_ = 0;
  std::vector<ConformanceCase> results_;
};

namespace cases {

void elementwise(Suite& suite);
void norms(Suite& suite);
void get_rows(Suite& suite);
void products(Suite& suite);
void ropes(Suite& suite);
void hadamards(Suite& suite);
void caches(Suite& suite);
void attention(Suite& suite);
void recurrent(Suite& suite);
void best(Suite& suite);
void log_sums(Suite& suite);
void experts(Suite& suite);
void ragged(Suite& suite);
void general(Suite& suite);
void windows(Suite& suite);
void order(Suite& suite);
void sequence(Suite& suite);

}  // namespace cases

}  // namespace weft::conformance
