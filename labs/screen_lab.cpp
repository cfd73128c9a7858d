// The gain from screening the candidate rows of an output head (screen.inl), on one thread. Compares the
// whole product with a pass over the high bits, or over high and middle bits, and the remaining work. The
// rest depends on how far the best rows stand out, and on how even the activations are.
//
//   screen_lab [isa] [columns] [rows]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "base/memory.h"
#include "tensor/codec.h"

namespace {

using namespace weft;
using namespace weft::cpu;

/// A head of normal numbers, in memory as the engine's.
struct Head {
  PackedMatrix matrix;
  base::Memory memory;
  std::vector<float> row;  ///< The one that activations point to.

  Head(std::int64_t rows, std::int64_t columns)
      : matrix(packed_shape(DType::kQ8_0, rows, columns)), memory(packed_bytes(DType::kQ8_0, rows, columns)) {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(columns));
    std::vector<std::byte> canonical(row_bytes(DType::kQ8_0, columns) * kPanelRows);
    matrix.data = memory.data();
    for (std::int64_t p = 0; p < matrix.n_panels(); ++p) {
      for (std::size_t r = 0; r < kPanelRows; ++r) {
        for (float& v : values) v = normal(random);
        pack_row(DType::kQ8_0, values, canonical.data() + r * row_bytes(DType::kQ8_0, columns));
      }
      pack_panels(DType::kQ8_0, rows, columns, canonical.data(), p, p + 1, memory.data());
    }
    row = values;
  }
};

/// Activations that give the head's last row a product of `peak` standard deviations. Of `outliers` columns
/// they are ten times as large as of others.
std::vector<std::byte> activations(const Kernels& kernels, const Head& head, float peak, int outliers) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(head.row.size());
  for (float& v : x) v = normal(random);
  for (int i = 0; i < outliers; ++i) x[random() % x.size()] *= 10.0f;
  double own = 0.0, size = 0.0, square = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    own += static_cast<double>(x[i] * head.row[i]);
    size += static_cast<double>(x[i] * x[i]);
    square += static_cast<double>(head.row[i] * head.row[i]);
  }
  const auto more = static_cast<float>((static_cast<double>(peak) * std::sqrt(size) - own) / square);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += more * head.row[i];
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::byte> row(activation_row_bytes(Form::kQ8, n));
  kernels.quantise_row(Form::kQ8, x.data(), n, row.data());
  return row;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

template <class F>
double least_ms(F f) {
  double least = 1e30;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    least = std::min(least, milliseconds_since(start));
  }
  return least;
}

void measure(const Kernels& kernels, const Head& head, float peak, int outliers, int n_best) {
  const std::vector<std::byte> x = activations(kernels, head, peak, outliers);
  const std::int64_t n_panels = head.matrix.n_panels(), stride = n_panels * kPanelRows;
  const auto n = static_cast<std::size_t>(n_best);
  std::vector<BestEntry> best(n), sums_best(n);
  MatmulArgs product = {.weight = &head.matrix, .x = x.data(), .x_row_bytes = x.size()};
  product.best = {.lists = best.data(), .n = n_best};
  const double whole = least_ms([&] {
    std::fill(best.begin(), best.end(), kNoBest);
    kernels.matmul(product, {0, n_panels}, {0, 1});
  });
  const std::vector<BestEntry> truth = best;
  std::printf("peak %4.1f, %2d outliers, best %2d: whole %6.2f ms", static_cast<double>(peak), outliers,
              n_best, whole);

  const base::Memory memory(2 * sizeof(float) * static_cast<std::size_t>(stride));
  ScreenArgs args = {.weight = &head.matrix, .x = x.data(), .x_row_bytes = x.size()};
  args.sums = reinterpret_cast<float*>(memory.data());
  args.bounds = args.sums + stride;
  args.stride = stride;
  std::vector<std::byte> scratch(screen_scratch_bytes(head.matrix.columns));
  std::vector<std::int32_t> found(static_cast<std::size_t>(n_panels));
  for (const bool deep : {false, true}) {
    args.deep = deep;
    int n_found = 0, n_left = 0;
    double pass = 1e30;
    const double all = least_ms([&] {
      const auto start = std::chrono::steady_clock::now();
      std::fill(sums_best.begin(), sums_best.end(), kNoBest);
      kernels.screen(args, {0, n_panels}, {0, 1}, {.lists = sums_best.data(), .n = n_best}, scratch.data());
      pass = std::min(pass, milliseconds_since(start));
      // How good the best are at least: the products of the panels with the best sums.
      std::vector<std::int32_t> panels;
      for (const BestEntry& entry : sums_best) panels.push_back(entry.index / kPanelRows);
      std::sort(panels.begin(), panels.end());
      panels.erase(std::unique(panels.begin(), panels.end()), panels.end());
      std::fill(best.begin(), best.end(), kNoBest);
      for (const std::int32_t p : panels) kernels.matmul(product, {p, p + 1}, {0, 1});
      const float least = best.back().value;
      n_left = n_found = kernels.find_candidates(args, {0, n_panels}, 0, least, found.data());
      if (!deep) n_left = kernels.sift_candidates(args, 0, least, found.data(), n_found, scratch.data());
      std::fill(best.begin(), best.end(), kNoBest);
      for (int i = 0; i < n_left; ++i)
        kernels.matmul(product, {found[static_cast<std::size_t>(i)], found[static_cast<std::size_t>(i)] + 1},
                       {0, 1});
    });
    const bool equal = std::equal(
        best.begin(), best.end(), truth.begin(),
        [](const BestEntry& a, const BestEntry& b) { return a.value == b.value && a.index == b.index; });
    std::printf(" | %s %6.2f (pass %5.2f; left %4.1f %%, %4.1f %%)%s", deep ? "deep" : "high bits", all, pass,
                100.0 * n_found / static_cast<double>(n_panels),
                100.0 * n_left / static_cast<double>(n_panels), equal ? "" : " DIFFERENT");
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  Isa isa = best_isa();
  std::int64_t columns = 640, rows = 65536;
  int n_numbers = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (const long number = std::strtol(word.c_str(), nullptr, 10); number > 0) {
      (n_numbers++ == 0 ? columns : rows) = number / 32 * 32;
    } else {
      isa = isa_named(word);
    }
  }
  if (!is_tall(DType::kQ8_0, rows, columns)) {
    std::fprintf(stderr, "screen_lab: %lld rows of %lld columns are no tall matrix\n",
                 static_cast<long long>(rows), static_cast<long long>(columns));
    return 2;
  }
  const Head head(rows, columns);
  std::printf("kernels: %s, %lld x %lld\n", kernels(isa).name, static_cast<long long>(rows),
              static_cast<long long>(columns));
  for (const int n_best : {1, 40})
    for (const int outliers : {0, 8})
      for (const float peak : {5.0f, 7.0f, 10.0f}) measure(kernels(isa), head, peak, outliers, n_best);
}
