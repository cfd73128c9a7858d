// The speed of the attention kernels on one thread. Prefill tiles are measured in GFLOP/s (2 for each
// multiply-add of Q K^T and P V, softmax for free). Decode rows are measured in GB/s of K and V read from
// memory, also with pages read in parts that several threads could share.
//
//   attention_lab [isa [type]]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "base/memory.h"

namespace {

using namespace weft;
using namespace weft::cpu;

/// The processor's time, which other work of the machine does not count in.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Shape {
  const char* name;
  int n_heads;
  int n_kv_heads;
  int head_dim;
  int n_rows;
  int n_positions;  ///< Cells of one sequence
  int n_sequences;  ///< One after another, so that decode reads memory, not caches
};

void measure(const Kernels& kernels, const Shape& shape, DType type) {
  AttentionArgs args;
  args.layout = {type, type, shape.n_kv_heads, shape.head_dim, shape.head_dim};
  args.n_heads = shape.n_heads;
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  const int n_pages = (shape.n_positions + kPageCells - 1) / kPageCells;
  const std::size_t page_bytes = k_page_bytes(args.layout);
  const std::size_t bytes = page_bytes * static_cast<std::size_t>(n_pages * shape.n_sequences);
  const base::Memory k(bytes);  // As the engine allocates: huge pages where the system has them.
  const base::Memory v(bytes);
  // One page of random cells, then its copies: the numbers do not matter, the addresses do.
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<std::size_t>(shape.n_kv_heads * shape.head_dim));
  for (int cell = 0; cell < kPageCells; ++cell) {
    for (float& x : row) x = normal(random);
    kernels.store_k(args.layout, row.data(), cell, k.data());
    kernels.store_v(args.layout, row.data(), cell, v.data());
  }
  for (std::size_t at = page_bytes; at < bytes; at += page_bytes) {
    std::memcpy(k.data() + at, k.data(), page_bytes);
    std::memcpy(v.data() + at, v.data(), page_bytes);
  }

  std::vector<float> q(static_cast<std::size_t>(shape.n_rows * shape.n_heads * shape.head_dim));
  for (float& x : q) x = normal(random);
  std::vector<float> out(q.size());
  std::vector<std::int32_t> positions(static_cast<std::size_t>(shape.n_rows));
  std::iota(positions.begin(), positions.end(), shape.n_positions - shape.n_rows);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(shape.n_rows));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Extent> extents;
  for (int p = 0; p < n_pages * shape.n_sequences; ++p)
    extents.push_back({.mask = ~std::uint64_t{0}, .page = p, .base = p % n_pages * kPageCells});
  args.q = q.data();
  args.out = out.data();
  args.q_stride = args.out_stride = shape.n_heads * shape.head_dim;
  args.k_cache = k.data();
  args.v_cache = v.data();
  args.positions = positions.data();
  std::vector<std::int32_t> ends = positions;
  for (std::int32_t& end : ends) ++end;
  const std::vector<std::int32_t> hidden_first(positions.size(), -1);
  args.ends = ends.data();
  args.hidden_first = hidden_first.data();
  const base::Memory scratch(attention_scratch_bytes(args));

  const base::Memory partials(attention_partial_floats(args, shape.n_rows) *
                              static_cast<std::size_t>(n_pages) * sizeof(float));
  auto* const partial = reinterpret_cast<float*>(partials.data());
  const auto least_seconds = [&](bool by_parts) {
    double best = 1e9;
    for (int repeat = 0; repeat < 7; ++repeat) {
      const auto start = now();
      for (int sequence = 0; sequence < shape.n_sequences; ++sequence) {
        const AttentionSegment segment{0, shape.n_rows, extents.data() + sequence * n_pages, n_pages};
        const AttentionTile tile{rows.data(), shape.n_rows, &segment, 1, 0};
        for (int head = 0; head < shape.n_kv_heads; ++head) {
          if (!by_parts) {
            kernels.attention(args, tile, head, scratch.data());
            continue;
          }
          constexpr int kParts = 4;
          for (int part = 0; part < kParts; ++part)
            kernels.attention_partials(args, tile, head,
                                       {n_pages * part / kParts, n_pages * (part + 1) / kParts}, partial,
                                       scratch.data());
          kernels.attention_merge(args, tile, head, partial, scratch.data());
        }
      }
      best = std::min(best, now() - start);
    }
    return best;
  };
  const double best = least_seconds(false);
  // Row r of the last rows sees n_positions - n_rows + r + 1 cells.
  const double seen = shape.n_rows * (shape.n_positions - 0.5 * (shape.n_rows - 1));
  const double flops = 4.0 * seen * shape.n_heads * shape.head_dim * shape.n_sequences;
  const double read = 2.0 * static_cast<double>(bytes) * shape.n_positions / (n_pages * kPageCells);
  std::printf("%-8s %-30s %-4s %8.3f ms  %6.1f GFLOP/s", kernels.name, shape.name, info(type).name.data(),
              best * 1e3, flops / best * 1e-9);
  if (shape.n_rows == 1)
    std::printf("  %5.1f GB/s, in four parts %.2f times as long", read / best * 1e-9,
                least_seconds(true) / best);
  std::printf("\n");
}

/// GB/s of reading memory in order, a number from each line: what decode is measured against.
double read_speed() {
  const base::Memory memory(std::size_t{256} << 20);
  std::memset(memory.data(), 1, memory.size());
  double best = 1e9;
  volatile std::uint64_t sink = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = now();
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < memory.size(); i += 64) sum += static_cast<std::uint64_t>(memory.data()[i]);
    sink = sum;
    best = std::min(best, now() - start);
  }
  static_cast<void>(sink);
  return static_cast<double>(memory.size()) / best * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const Shape shapes[] = {
      {"prefill 32 rows, 9/3 x 64", 9, 3, 64, 32, 1024, 4},
      {"prefill 32 rows, 4/1 x 256", 4, 1, 256, 32, 1024, 4},
      {"prefill 32 rows, 32/8 x 128", 32, 8, 128, 32, 1024, 1},
      {"prefill first rows, 9/3 x 64", 9, 3, 64, 32, 32, 64},
      {"decode, 9/3 x 64", 9, 3, 64, 1, 1024, 96},
      {"decode, 4/1 x 256", 4, 1, 256, 1, 1024, 96},
      {"decode, 32/8 x 64", 32, 8, 64, 1, 1024, 48},
      {"decode, 16/2 x 128", 16, 2, 128, 1, 1024, 96},
      {"decode in cache, 9/3 x 64", 9, 3, 64, 1, 256, 1},
  };
  std::printf("memory, one thread in order: %.1f GB/s\n", read_speed());
  for (const Isa isa : kIsas) {
    if (!supported(isa) || (argc > 1 && std::string_view(argv[1]) != kernels(isa).name)) continue;
    for (const Shape& shape : shapes) {
      for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                               DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL}) {
        if (argc <= 2 || info(type).name == argv[2]) measure(kernels(isa), shape, type);
      }
    }
  }
}
