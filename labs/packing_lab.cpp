// How fast weights are packed, against what bounds it: copying the same bytes, and the first touch of fresh
// memory. Every type is checked first against its scalar codec (the reference).
//
//   packing_lab [threads] [type...]
//
// The matrix has the size of one in a model with a billion weights in 16 layers: 8192 x 2048, random bits.
// The column "fresh" is the case of loading a model: the packed memory has never been touched. GB/s count the
// canonical bytes; the last column is the time for a billion weights.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/layout/packed.h"
#include "base/memory.h"
#include "base/pool.h"
#include "tensor/codec.h"

namespace {

using weft::DType;
using weft::base::Memory;

constexpr std::int64_t kRows = 8192, kColumns = 2048;
constexpr std::int64_t kPanelsPerTask = 8;

template <class Job>
double seconds_of(const Job& job) {
  const auto begin = std::chrono::steady_clock::now();
  job();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The least of some runs, each in memory that `fresh` makes new.
template <class Job>
double least_seconds(Memory& memory, bool fresh, const Job& job) {
  const std::size_t bytes = memory.size();
  double best = 1e9;
  for (int run = 0; run < 4; ++run) {
    if (fresh) memory = Memory(bytes);
    best = std::min(best, seconds_of(job));
  }
  return best;
}

bool equal_to_reference(const weft::cpu::PackedMatrix& matrix, const std::vector<std::byte>& canonical) {
  std::vector<float> packed(kColumns), reference(kColumns);
  for (std::int64_t row = 0; row < 64; ++row) {
    unpack_packed_row(matrix, row, packed.data());
    weft::unpack_row(
        matrix.dtype,
        canonical.data() + static_cast<std::size_t>(row) * weft::row_bytes(matrix.dtype, kColumns),
        reference);
    if (std::memcmp(packed.data(), reference.data(), kColumns * sizeof(float)) != 0) return false;
  }
  return true;
}

void measure(DType dtype, weft::base::Pool& pool) {
  // Values, not random bits: a NaN would not equal itself.
  const std::size_t row_bytes = weft::row_bytes(dtype, kColumns);
  std::vector<std::byte> canonical(kRows * row_bytes);
  std::vector<float> values(kColumns);
  std::uint32_t state = 1;
  for (std::int64_t row = 0; row < 64; ++row) {
    for (float& v : values)
      v = static_cast<float>(static_cast<std::int32_t>(state = state * 1664525u + 1013904223u)) * 0x1p-36f;
    weft::pack_row(dtype, values, canonical.data() + static_cast<std::size_t>(row) * row_bytes);
  }
  for (std::size_t at = 64 * row_bytes; at < canonical.size(); at += 64 * row_bytes)
    std::memcpy(canonical.data() + at, canonical.data(), 64 * row_bytes);

  Memory memory(weft::cpu::packed_bytes(dtype, kRows, kColumns));
  constexpr std::int64_t kPanels = kRows / weft::cpu::kPanelRows;
  const auto pack = [&] {
    pool.parallel_for(kPanels / kPanelsPerTask, [&](std::int32_t task, int) {
      const std::byte* const rows =
          canonical.data() +
          static_cast<std::size_t>(task * kPanelsPerTask * weft::cpu::kPanelRows) * row_bytes;
      weft::cpu::pack_panels(dtype, kRows, kColumns, rows, task * kPanelsPerTask, (task + 1) * kPanelsPerTask,
                             memory.data());
    });
  };
  const auto copy = [&] {
    pool.parallel_for(kPanels / kPanelsPerTask, [&](std::int32_t task, int) {
      const std::size_t part = canonical.size() / (kPanels / kPanelsPerTask);
      std::memcpy(memory.data() + static_cast<std::size_t>(task) * part,
                  canonical.data() + static_cast<std::size_t>(task) * part, part);
    });
  };
  pack();
  weft::cpu::PackedMatrix matrix = weft::cpu::packed_shape(dtype, kRows, kColumns);
  matrix.data = memory.data();
  const bool equal = equal_to_reference(matrix, canonical);
  const double warm = least_seconds(memory, false, pack), fresh = least_seconds(memory, true, pack);
  const double warm_copy = least_seconds(memory, false, copy), fresh_copy = least_seconds(memory, true, copy);
  const double bytes = static_cast<double>(canonical.size()) * 1e-9;
  std::printf(
      "%-7s %-9s touched: pack %5.2f copy %5.2f GB/s   fresh: pack %5.2f copy %5.2f GB/s   10^9 weights %.2f "
      "s\n",
      std::string(weft::info(dtype).name).c_str(), equal ? "equal" : "DIFFERENT", bytes / warm,
      bytes / warm_copy, bytes / fresh, bytes / fresh_copy, fresh * 1e9 / (kRows * kColumns));
}

}  // namespace

int main(int argc, char** argv) {
  const int n_threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : weft::base::default_threads();
  std::vector<DType> types;
  for (int i = 2; i < argc; ++i) {
    const auto dtype = weft::dtype_from_name(argv[i]);
    if (!dtype) {
      std::fprintf(stderr, "usage: packing_lab [threads] [type...]\n");
      return 2;
    }
    types.push_back(*dtype);
  }
  if (types.empty())
    types = {DType::kF16,  DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0,
             DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};
  std::printf("%d threads\n", n_threads);
  weft::base::Pool pool(n_threads, 1);
  for (const DType dtype : types) measure(dtype, pool);
}
