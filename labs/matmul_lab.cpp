// The matrix kernels' laboratory: a reference (double precision, on the same quantised activations), the
// kernels of every instruction set, and their speed.
//
//   matmul_lab [instruction set] [type ...] [columns] [shapes]     shapes: speed by the size of the tasks
//   matmul_lab [instruction set] [columns] compact                 BF16 in compact panels
//
// Few columns read a matrix that no cache holds, as decoding does: look at GB/s. Many columns use a matrix of
// one layer, as prefill does: look at Gop/s (a multiply-add is two) and at the share of the int8 peak. The
// int8 peak kPeak is the rate of one thread with dot products only, measured on a Zen 4 core at 3.69 GHz.
// Times are the least of several runs.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/compact.h"
#include "backend/cpu/layout/packed.h"
#include "base/memory.h"
#include "tensor/codec.h"

namespace {

using weft::DType;
using weft::cpu::Form;
using weft::cpu::Isa;
using weft::cpu::Kernels;
using weft::cpu::PackedMatrix;
using weft::cpu::Range;

constexpr double kPeak = 472.9e9;

/// One thread alone is measured by the processor's time, which other work of the machine does not count in.
double now(int n_threads) {
  timespec time;
  clock_gettime(n_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Numbers in [-1, 1], the same in every run.
struct Random {
  std::uint64_t state = 1;
  float next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<double>(state >> 11) / 4503599627370496.0 - 1.0);
  }
};

/// Runs job(thread) on n threads at once and returns the seconds that the slowest took, the least of
/// `repeats`.
template <class Job>
double least_seconds(int n_threads, int repeats, const Job& job) {
  double best = 1e9;
  std::atomic<int> arrived{0}, round{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 1; t < n_threads; ++t) {
    threads.emplace_back([&, t] {
      for (int r = 1; r <= repeats; ++r) {
        ++arrived;
        while (round.load() < r) {
        }
        job(t);
        ++done;
      }
    });
  }
  for (int r = 1; r <= repeats; ++r) {
    while (arrived.load() < n_threads - 1) {
    }
    arrived = 0;
    done = 0;
    const double begin = now(n_threads);
    round = r;
    job(0);
    while (done.load() < n_threads - 1) {
    }
    best = std::min(best, now(n_threads) - begin);
  }
  for (std::thread& thread : threads) thread.join();
  return best;
}

/// A packed matrix whose rows repeat after 256.
struct Matrix {
  weft::base::Memory memory;
  PackedMatrix packed;
  double pack_seconds = 0.0;

  Matrix(DType dtype, std::int64_t rows, std::int64_t columns, bool compact = false)
      : packed(compact ? weft::cpu::compact_shape(rows, columns)
                       : weft::cpu::packed_shape(dtype, rows, columns)) {
    memory = weft::base::Memory(weft::cpu::matrix_bytes(packed));
    const std::int64_t n_distinct = std::min<std::int64_t>(rows, 256);
    const std::size_t row_bytes = weft::row_bytes(dtype, columns);
    std::vector<std::byte> canonical(static_cast<std::size_t>(rows) * row_bytes);
    std::vector<float> values(static_cast<std::size_t>(columns));
    Random random;
    for (std::int64_t r = 0; r < n_distinct; ++r) {
      for (float& v : values) v = random.next() * 0.05f;
      weft::pack_row(dtype, values, canonical.data() + static_cast<std::size_t>(r) * row_bytes);
    }
    for (std::int64_t r = n_distinct; r < rows; ++r) {
      std::byte* const row = canonical.data() + static_cast<std::size_t>(r) * row_bytes;
      std::memcpy(row, row - static_cast<std::size_t>(n_distinct) * row_bytes, row_bytes);
    }
    packed.data = memory.data();
    const auto pack_all = [&] {
      if (!compact)
        weft::cpu::pack_panels(dtype, rows, columns, canonical.data(), 0, packed.n_panels(), memory.data());
      else if (!weft::cpu::pack_compact_panels(rows, columns, canonical.data(), 0, packed.n_panels(),
                                               memory.data()))
        std::printf("(does not fit) ");
    };
    pack_all();  // Touches the memory.
    const double begin = now(1);
    pack_all();
    pack_seconds = now(1) - begin;
  }
};

struct Activations {
  weft::base::Memory memory;
  std::size_t row_bytes;
  std::vector<float> values;

  Activations(const Kernels& kernels, DType weight, std::int64_t n, std::int64_t columns)
      : row_bytes(weft::cpu::activation_row_bytes(weft::cpu::activation_form(weight), columns)),
        values(static_cast<std::size_t>(n * columns)) {
    memory = weft::base::Memory(static_cast<std::size_t>(n) * row_bytes);
    Random random{7};
    for (float& v : values) v = random.next();
    for (std::int64_t c = 0; c < n; ++c) {
      const float* const x = values.data() + c * columns;
      std::byte* const to = memory.data() + static_cast<std::size_t>(c) * row_bytes;
      if (const Form form = weft::cpu::activation_form(weight); form != Form::kPlain) {
        kernels.quantise_row(form, x, columns, to);
      } else {
        std::memcpy(to, x, static_cast<std::size_t>(columns) * sizeof(float));
      }
    }
  }
};

/// Normalised error of some outputs against double precision on the float activations.
double error_of(const Kernels& kernels, DType dtype) {
  constexpr std::int64_t kRows = 64, kColumns = 1024, kN = 5;
  const Matrix matrix(dtype, kRows, kColumns);
  const Activations x(kernels, dtype, kN, kColumns);
  std::vector<float> out(kRows * kN);
  kernels.matmul({.weight = &matrix.packed,
                  .x = x.memory.data(),
                  .x_row_bytes = x.row_bytes,
                  .out = out.data(),
                  .out_stride = kRows},
                 {0, matrix.packed.n_panels()}, {0, kN});
  double error = 0.0, norm = 0.0;
  std::vector<float> row(kColumns);
  for (std::int64_t r = 0; r < kRows; ++r) {
    unpack_packed_row(matrix.packed, r, row.data());
    for (std::int64_t c = 0; c < kN; ++c) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < kColumns; ++k) {
        sum += static_cast<double>(row[static_cast<std::size_t>(k)]) *
               static_cast<double>(x.values[static_cast<std::size_t>(c * kColumns + k)]);
      }
      const double difference = static_cast<double>(out[static_cast<std::size_t>(c * kRows + r)]) - sum;
      error += difference * difference;
      norm += sum * sum;
    }
  }
  return error / norm;
}

/// Seconds of one product; every thread takes a contiguous share of the panels, in tasks of the given shape.
double seconds_of(const Kernels& kernels, const Matrix& matrix, const Activations& x, std::int64_t n,
                  int n_threads, std::int64_t task_panels, std::int64_t task_columns, int repeats,
                  float* out) {
  const weft::cpu::MatmulArgs args = {.weight = &matrix.packed,
                                      .x = x.memory.data(),
                                      .x_row_bytes = x.row_bytes,
                                      .out = out,
                                      .out_stride = matrix.packed.rows};
  const std::int64_t n_panels = matrix.packed.n_panels();
  return least_seconds(n_threads, repeats, [&](int thread) {
    const std::int64_t begin = n_panels * thread / n_threads, end = n_panels * (thread + 1) / n_threads;
    for (std::int64_t p = begin; p < end; p += task_panels) {
      for (std::int64_t c = 0; c < n; c += task_columns) {
        kernels.matmul(args, {p, std::min(end, p + task_panels)}, {c, std::min(n, c + task_columns)});
      }
    }
  });
}

void measure(const Kernels& kernels, DType dtype, std::int64_t columns, bool compact) {
  std::printf("%-7s NMSE %.1e", std::string(weft::info(dtype).name).c_str(), error_of(kernels, dtype));
  const std::int64_t canonical_row = static_cast<std::int64_t>(weft::row_bytes(dtype, columns));
  const std::int64_t many_rows = (std::int64_t{768} << 20) / canonical_row / 16 * 16;
  const Matrix large(dtype, many_rows, columns, compact), small(dtype, 1024, columns, compact);
  std::printf("  packing %.2f GB/s\n",
              static_cast<double>(many_rows * canonical_row) / large.pack_seconds * 1e-9);
  const Activations x(kernels, dtype, 512, columns);
  std::vector<float> out(static_cast<std::size_t>(std::max<std::int64_t>(many_rows * 8, 1024 * 512)));

  const int n_threads_max = static_cast<int>(std::min(2u, std::max(1u, std::thread::hardware_concurrency())));
  for (int n_threads = 1; n_threads <= n_threads_max; ++n_threads) {
    for (const std::int64_t n : {1, 2, 3, 4, 8, 32, 512}) {
      const Matrix& matrix = n <= 8 ? large : small;
      const double seconds =
          seconds_of(kernels, matrix, x, n, n_threads, matrix.packed.n_panels(), n, 12, out.data());
      const double ops = 2.0 * static_cast<double>(matrix.packed.rows * columns * n);
      const double bytes = static_cast<double>(matrix.memory.size());
      std::printf("  %d thread%s N=%-4lld %8.3f ms %7.1f Gop/s %5.1f %%", n_threads,
                  n_threads > 1 ? "s" : " ", static_cast<long long>(n), seconds * 1e3, ops / seconds * 1e-9,
                  100.0 * ops / seconds / kPeak / n_threads);
      if (n <= 8) std::printf(" %6.1f GB/s", bytes / seconds * 1e-9);
      std::printf("\n");
    }
  }
}

/// Which pieces of a product a thread should be given.
void measure_shapes(const Kernels& kernels, DType dtype, std::int64_t columns) {
  const Matrix matrix(dtype, 2048, columns);
  const Activations x(kernels, dtype, 512, columns);
  std::vector<float> out(2048 * 512);
  std::printf("%s K=%lld N=512, Gop/s of one thread by task (panels x columns)\n",
              std::string(weft::info(dtype).name).c_str(), static_cast<long long>(columns));
  for (const std::int64_t panels : {4, 8, 16, 32, 64}) {
    std::printf("  %3lld panels:", static_cast<long long>(panels));
    for (const std::int64_t task_columns : {32, 64, 128, 256, 512}) {
      const double seconds = seconds_of(kernels, matrix, x, 512, 1, panels, task_columns, 4, out.data());
      std::printf("  %lld: %5.1f", static_cast<long long>(task_columns),
                  2.0 * 2048.0 * 512.0 * static_cast<double>(columns) / seconds * 1e-9);
    }
    std::printf("\n");
  }
}

/// Multiplies one matrix after another as a model's layers do, each with its own activations and outputs.
/// Nothing is in the second-level cache when a product begins.
void measure_cold(const Kernels& kernels, DType dtype, std::int64_t columns) {
  constexpr std::int64_t kRows = 1024, kN = 512;
  constexpr int kSets = 12;
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<std::unique_ptr<Activations>> x;
  std::vector<std::vector<float>> out;
  for (int i = 0; i < kSets; ++i) {
    matrices.push_back(std::make_unique<Matrix>(dtype, kRows, columns));
    x.push_back(std::make_unique<Activations>(kernels, dtype, kN, columns));
    out.emplace_back(static_cast<std::size_t>(kRows * kN));
  }
  for (const bool cold : {false, true}) {
    for (int n_threads = 1; n_threads <= 2; ++n_threads) {
      const double seconds = least_seconds(n_threads, 6, [&](int thread) {
        for (int i = 0; i < kSets; ++i) {
          const int set = cold ? i : 0;
          const Matrix& matrix = *matrices[static_cast<std::size_t>(set)];
          const weft::cpu::MatmulArgs args = {.weight = &matrix.packed,
                                              .x = x[static_cast<std::size_t>(set)]->memory.data(),
                                              .x_row_bytes = x[static_cast<std::size_t>(set)]->row_bytes,
                                              .out = out[static_cast<std::size_t>(set)].data(),
                                              .out_stride = kRows};
          const std::int64_t n_panels = matrix.packed.n_panels();
          for (std::int64_t c = kN * thread / n_threads; c < kN * (thread + 1) / n_threads; c += 128)
            for (std::int64_t p = 0; p < n_panels; p += 16) kernels.matmul(args, {p, p + 16}, {c, c + 128});
        }
      });
      std::printf("%s K=%lld N=512 %s, %d thread%s: %.1f Gop/s\n",
                  std::string(weft::info(dtype).name).c_str(), static_cast<long long>(columns),
                  cold ? "cold" : "warm", n_threads, n_threads > 1 ? "s" : "",
                  2.0 * kRows * kN * columns * kSets / seconds * 1e-9);
    }
  }
}

/// Compares two ways to share a large matrix among threads that multiply one column. Tasks from a counter are
/// interleaved in memory; shares are one contiguous part per thread.
void measure_sharing(const Kernels& kernels, DType dtype, std::int64_t columns) {
  const std::int64_t rows =
      (std::int64_t{96} << 20) / static_cast<std::int64_t>(weft::row_bytes(dtype, columns)) / 16 * 16;
  const Matrix matrix(dtype, rows, columns);
  const Activations x(kernels, dtype, 1, columns);
  std::vector<float> out(static_cast<std::size_t>(rows));
  const weft::cpu::MatmulArgs args = {.weight = &matrix.packed,
                                      .x = x.memory.data(),
                                      .x_row_bytes = x.row_bytes,
                                      .out = out.data(),
                                      .out_stride = rows};
  std::printf("%s N=1, 2 threads, GB/s by bytes of a task\n", std::string(weft::info(dtype).name).c_str());
  const std::int64_t n_panels = matrix.packed.n_panels();
  for (const std::int64_t kib : {16, 48, 128, 512, 2048}) {
    const std::int64_t step =
        std::max<std::int64_t>(1, kib * 1024 / static_cast<std::int64_t>(matrix.packed.panel_bytes));
    double seconds[2] = {};
    for (const bool shared : {false, true}) {
      std::atomic<int> finished{0};
      std::atomic<std::int64_t> next{0};
      seconds[shared] = least_seconds(2, 40, [&](int thread) {
        std::int64_t p = shared ? next.fetch_add(step) : n_panels * thread / 2;
        const std::int64_t end = shared ? n_panels : n_panels * (thread + 1) / 2;
        while (p < end) {
          kernels.matmul(args, {p, std::min(end, p + step)}, {0, 1});
          p = shared ? next.fetch_add(step) : p + step;
        }
        if (finished.fetch_add(1) % 2 == 1) next = 0;  // No thread takes more work in this round.
      });
    }
    const double bytes = static_cast<double>(matrix.memory.size());
    std::printf("  %5lld KiB: own shares %5.1f, shared counter %5.1f\n", static_cast<long long>(kib),
                bytes / seconds[0] * 1e-9, bytes / seconds[1] * 1e-9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Isa isa = weft::cpu::best_isa();
  std::vector<DType> types;
  bool shapes = false, compact = false;
  std::int64_t columns = 2048;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto named = std::ranges::find_if(weft::cpu::kIsas, [&](Isa known) {
      return weft::cpu::supported(known) && weft::cpu::kernels(known).name == word;
    });
    if (named != std::end(weft::cpu::kIsas)) {
      isa = *named;
    } else if (word == "shapes") {
      shapes = true;
    } else if (word == "compact") {
      compact = true;
    } else if (const long number = std::strtol(word.c_str(), nullptr, 10); number > 0 && number % 32 == 0) {
      columns = number;
    } else if (const auto dtype = weft::dtype_from_name(word)) {
      types.push_back(*dtype);
    } else {
      std::fprintf(stderr, "usage: matmul_lab [instruction set] [type ...] [columns] [shapes|compact]\n");
      return 2;
    }
  }
  if (compact) types = {DType::kBF16};
  if (types.empty())
    types = {DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ8_0, DType::kQ6_K, DType::kF16};
  std::printf("kernels: %s\n", weft::cpu::kernels(isa).name);
  for (const DType dtype : types) {
    if (shapes) {
      measure_shapes(weft::cpu::kernels(isa), dtype, columns);
      measure_sharing(weft::cpu::kernels(isa), dtype, columns);
      measure_cold(weft::cpu::kernels(isa), dtype, columns);
    } else {
      measure(weft::cpu::kernels(isa), dtype, columns, compact);
    }
  }
}
