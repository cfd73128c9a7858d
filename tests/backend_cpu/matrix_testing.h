#pragma once
// What the tests of packing and of matrix products share: random numbers, and matrices in canonical form.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "backend/cpu/layout/packed.h"
#include "tensor/codec.h"

namespace weft::cpu {

/// The types that the CPU multiplies.
inline const std::vector<DType>& packed_types() {
  static const std::vector<DType> types = {
      DType::kF32,   DType::kF16,     DType::kBF16,   DType::kQ4_0,  DType::kQ4_1,    DType::kQ5_0,
      DType::kQ5_1,  DType::kQ8_0,    DType::kQ2_K,   DType::kQ3_K,  DType::kQ4_K,    DType::kQ5_K,
      DType::kQ6_K,  DType::kIQ4_NL,  DType::kIQ4_XS, DType::kMXFP4, DType::kNVFP4,   DType::kQ1_0,
      DType::kTQ1_0, DType::kTQ2_0,   DType::kIQ1_S,  DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS,
      DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S};
  return types;
}

inline std::string test_name(DType dtype) { return std::string(info(dtype).name); }

struct Random {
  std::uint64_t state;
  explicit Random(std::uint64_t seed) : state(seed * 2 + 1) {}
  std::uint32_t bits() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 32);
  }
  /// In [-1, 1)
  float uniform() { return static_cast<float>(static_cast<std::int32_t>(bits()) >> 8) * 0x1p-23f; }
};

/// Canonical rows of random values, and the values that they really hold.
struct CanonicalMatrix {
  DType dtype;
  std::int64_t rows, columns;
  std::vector<std::byte> bytes;

  CanonicalMatrix(DType type, std::int64_t n_rows, std::int64_t n_columns, std::uint64_t seed)
      : dtype(type),
        rows(n_rows),
        columns(n_columns),
        bytes(static_cast<std::size_t>(n_rows) * row_bytes(type, n_columns)) {
    Random random(seed);
    std::vector<float> values(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (float& v : values) v = random.uniform() * random.uniform();
      pack_row(dtype, values, bytes.data() + static_cast<std::size_t>(r) * row_bytes(dtype, columns));
    }
  }

  /// The rows that a panel has.
  const std::byte* panel(std::int64_t p) const {
    return bytes.data() + static_cast<std::size_t>(p * kPanelRows) * row_bytes(dtype, columns);
  }

  std::vector<float> row(std::int64_t r) const {
    std::vector<float> values(static_cast<std::size_t>(columns));
    unpack_row(dtype, bytes.data() + static_cast<std::size_t>(r) * row_bytes(dtype, columns), values);
    return values;
  }
};

/// A packed matrix in aligned memory of exactly its size, with odd bytes at first.
class Panels {
 public:
  explicit Panels(const PackedMatrix& shape)
      : matrix(shape),
        bytes_(matrix_bytes(shape)),
        memory_(static_cast<std::byte*>(::operator new(bytes_, std::align_val_t(64)))) {
    std::memset(memory_, 0xa5, bytes_);
    matrix.data = memory_;
  }
  ~Panels() { ::operator delete(memory_, std::align_val_t(64)); }
  Panels(const Panels&) = delete;
  Panels& operator=(const Panels&) = delete;

  PackedMatrix matrix;
  std::size_t bytes() const { return bytes_; }
  std::byte* memory() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

struct Packed : Panels {
  explicit Packed(const CanonicalMatrix& from) : Panels(packed_shape(from.dtype, from.rows, from.columns)) {
    pack_panels(from.dtype, from.rows, from.columns, from.bytes.data(), 0, matrix.n_panels(), memory());
  }
};

/// The bits of all values. `any_nan`: the bits of NaN may differ.
inline void expect_same_values(const PackedMatrix& packed, const CanonicalMatrix& canonical, bool any_nan) {
  std::vector<float> values(static_cast<std::size_t>(canonical.columns));
  for (std::int64_t r = 0; r < canonical.rows; ++r) {
    const std::vector<float> expected = canonical.row(r);
    unpack_packed_row(packed, r, values.data());
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (any_nan && std::isnan(expected[k]) && std::isnan(values[k])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[k]), std::bit_cast<std::uint32_t>(expected[k]))
          << "row " << r << " column " << k << ": " << values[k] << " is not " << expected[k];
    }
  }
}

}  // namespace weft::cpu
