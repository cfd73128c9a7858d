// Quantises float rows to kQ8 and kQ8Wide with the kernels of every instruction set. Plain loops are the
// reference for the bytes. Nanoseconds an element of one thread, by the processor's time.
//
//   quantise_lab
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace {

using namespace weft::cpu;

constexpr std::int64_t kRows = 64;

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class F>
double ns_of_an_element(std::int64_t n, const F& f) {
  double best = 1e9;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best * 1e9 / static_cast<double>(n * kRows);
}

void reference(const float* x, std::int64_t n, Q8Group* out) {
  for (; n > 0; n -= kBlockColumns, x += kBlockColumns, ++out) {
    float largest = 0.0f;
    for (int i = 0; i < kBlockColumns; ++i) largest = std::max(largest, std::fabs(x[i]));
    int sum = 0;
    for (int i = 0; i < kBlockColumns; ++i) {
      out->q[i] = static_cast<std::int8_t>(largest > 0.0f ? std::nearbyint(x[i] * (127.0f / largest)) : 0.0f);
      sum += out->q[i];
    }
    out->scale = largest / 127.0f;
    out->scaled_sum = out->scale * static_cast<float>(sum);
    out->offset = -128 * sum;
  }
}

void measure(const Kernels& kernels, std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n * kRows));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& a : x) a = normal(random);
  std::fill_n(x.begin(), kBlockColumns, 0.0f);
  std::printf("%-8s rows of %4lld:", kernels.name, static_cast<long long>(n));
  for (const Form form : {Form::kQ8, Form::kQ8Wide}) {
    const std::size_t bytes = activation_row_bytes(form, n);
    std::vector<std::byte> truth(bytes * kRows), alone(truth.size()), together(truth.size());
    const auto at = [&](std::int64_t row) { return static_cast<std::size_t>(row) * bytes; };
    const double one = ns_of_an_element(n, [&] {
      for (std::int64_t r = 0; r < kRows; ++r)
        kernels.quantise_row(form, x.data() + r * n, n, alone.data() + at(r));
    });
    const double all = ns_of_an_element(n, [&] {
      kernels.quantise_rows({.form = form,
                             .x = x.data(),
                             .x_stride = n,
                             .n = n,
                             .out = together.data(),
                             .out_stride = static_cast<std::int64_t>(bytes)},
                            kRows);
    });
    if (form == Form::kQ8) {
      for (std::int64_t r = 0; r < kRows; ++r)
        reference(x.data() + r * n, n, reinterpret_cast<Q8Group*>(truth.data() + at(r)));
    } else {
      truth = alone;
    }
    std::printf("  %s one by one %.3f, together %.3f%s", form == Form::kQ8 ? "kQ8" : "kQ8Wide", one, all,
                truth == alone && truth == together ? "" : " DIFFERENT");
  }
  std::printf("\n");
}

}  // namespace

int main() {
  for (const Isa isa : kIsas)
    if (supported(isa))
      for (const std::int64_t n : {128, 576, 2048}) measure(kernels(isa), n);
}
