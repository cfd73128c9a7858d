// Compact panels have exactly the values of BF16 rows. Products with them have the same bits as with other
// panels, on every instruction set of this machine.
#include "backend/cpu/layout/compact.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "backend/cpu/device.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/tensors.h"
#include "backend_cpu/matrix_testing.h"

namespace weft::cpu {
namespace {

namespace fs = std::filesystem;

/// Rows of about normally distributed weights, like the weights of models.
CanonicalMatrix normal_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  CanonicalMatrix matrix(DType::kBF16, rows, columns, seed);
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (float& v : values) v = 0.02f * (random.uniform() + random.uniform() + random.uniform());
    pack_row(DType::kBF16, values, matrix.bytes.data() + static_cast<std::size_t>(2 * r * columns));
  }
  return matrix;
}

void put(CanonicalMatrix& matrix, std::int64_t row, std::int64_t column, std::uint16_t bits) {
  std::memcpy(matrix.bytes.data() + 2 * (row * matrix.columns + column), &bits, sizeof(bits));
}

/// Zeros, subnormals, and far too large or small values: at both ends, in neighbouring places.
CanonicalMatrix with_escapes(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  CanonicalMatrix matrix = normal_matrix(rows, columns, seed);
  constexpr std::array<std::uint16_t, 8> kRare = {0x0000, 0x8000, 0x0001, 0x807f,
                                                  0x4b80, 0xcc01, 0x1234, 0x9fff};
  for (std::int64_t i = 0; i < 8; ++i) {
    put(matrix, 0, i, kRare[static_cast<std::size_t>(i)]);
    put(matrix, rows - 1, columns - 1 - i, kRare[static_cast<std::size_t>(i)]);
  }
  return matrix;
}

struct Compact : Panels {
  explicit Compact(const CanonicalMatrix& from) : Panels(compact_shape(from.rows, from.columns)) {
    fits = pack_compact_panels(from.rows, from.columns, from.bytes.data(), 0, matrix.n_panels(), memory());
  }
  bool fits = false;
};

void expect_compact_values(const CanonicalMatrix& canonical) {
  const Compact compact(canonical);
  ASSERT_TRUE(compact.fits);
  expect_same_values(compact.matrix, canonical, /*any_nan=*/false);
}

TEST(Compact, HoldsTheValuesBitByBit) {
  for (const std::int64_t rows : {1, 16, 37}) {
    for (const std::int64_t columns : {256, 576, 2048}) {
      expect_compact_values(normal_matrix(rows, columns, 1));
      expect_compact_values(with_escapes(rows, columns, 2));
    }
  }
  CanonicalMatrix one_value = normal_matrix(16, 256, 3);
  std::fill(one_value.bytes.begin(), one_value.bytes.end(), std::byte{0xff});  // NaN
  expect_compact_values(one_value);
}

TEST(Compact, TakesTwelveBitsAndALittle) {
  const double bits = 8.0 * static_cast<double>(matrix_bytes(compact_shape(16, 4096))) / (16 * 4096);
  EXPECT_GT(bits, 12.0);
  EXPECT_LT(bits, 12.2);
}

TEST(Compact, RefusesAPanelWithMoreEscapesThanItHasRoomFor) {
  constexpr std::int64_t kColumns = 2048;
  const auto kRoom = static_cast<int>((compact_header_bytes(kColumns) - kCompactTable) / 4 - 1);
  for (const int n_escapes : {kRoom, kRoom + 1}) {
    CanonicalMatrix matrix(DType::kBF16, 32, kColumns, 1);
    for (std::int64_t i = 0; i < 32 * kColumns; ++i)  // Each of 16 high bytes equally often.
      put(matrix, i / kColumns, i % kColumns, static_cast<std::uint16_t>((0x30 + i % 16) << 8));
    for (int i = 0; i < n_escapes; ++i)
      put(matrix, 16 + i % 16, i * 3, static_cast<std::uint16_t>((0x50 + i % 4) << 8 | i % 256));
    EXPECT_EQ(Compact(matrix).fits, n_escapes == kRoom);
    if (n_escapes == kRoom) expect_compact_values(matrix);
  }
}

TEST(Compact, IsForWholeUnitsOfBF16) {
  EXPECT_TRUE(may_be_compact(DType::kBF16, 576));
  EXPECT_FALSE(may_be_compact(DType::kBF16, 600));
  EXPECT_FALSE(may_be_compact(DType::kBF16, 64));
  EXPECT_FALSE(may_be_compact(DType::kBF16, std::int64_t{1} << 40));
  EXPECT_FALSE(may_be_compact(DType::kF16, 576));
}

TEST(Compact, ProductsHaveTheBitsOfOtherPanels) {
  constexpr std::int64_t kRows = 37, kColumns = 576, kN = 19;
  const CanonicalMatrix canonical = with_escapes(kRows, kColumns, 4),
                        gate_canonical = normal_matrix(kRows, kColumns, 5);
  const Packed packed(canonical), gate(gate_canonical);
  const Compact compact(canonical), compact_gate(gate_canonical);
  ASSERT_TRUE(compact.fits && compact_gate.fits);
  std::vector<float> x(kN * kColumns);
  Random random(6);
  for (float& v : x) v = random.uniform();
  for (const Isa isa : kIsas) {
    if (!supported(isa)) continue;
    const auto product = [&](const PackedMatrix& weight, const PackedMatrix* by, std::int64_t n) {
      std::vector<float> out(kN * kRows, -1.0f);
      MatmulArgs args = {.weight = &weight,
                         .x = reinterpret_cast<const std::byte*>(x.data()),
                         .x_row_bytes = kColumns * sizeof(float),
                         .out = out.data(),
                         .out_stride = kRows};
      args.gate = by;
      if (by != nullptr) args.activation = Activation::kSilu;
      kernels(isa).matmul(args, {0, weight.n_panels()}, {0, n});
      return out;
    };
    const auto expect_same = [&](const std::vector<float>& a, const std::vector<float>& b, std::int64_t n) {
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
          << kernels(isa).name << ", " << n << " columns";
    };
    for (std::int64_t n = 1; n <= kN; ++n) {
      expect_same(product(compact.matrix, nullptr, n), product(packed.matrix, nullptr, n), n);
      const std::vector<float> truth = product(packed.matrix, &gate.matrix, n);
      expect_same(product(compact.matrix, &compact_gate.matrix, n), truth, n);
      expect_same(product(compact.matrix, &gate.matrix, n), truth, n);
      expect_same(product(packed.matrix, &compact_gate.matrix, n), truth, n);
    }
  }
}

/// A panel whose last byte is followed by memory that must not be read.
class PanelBeforeAHole {
 public:
  explicit PanelBeforeAHole(std::size_t panel_bytes)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        bytes_((panel_bytes + page_ - 1) / page_ * page_ + page_),
        memory_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(::mprotect(memory_ + bytes_ - page_, page_, PROT_NONE), 0);
    panel = memory_ + bytes_ - page_ - panel_bytes;
  }
  ~PanelBeforeAHole() { ::munmap(memory_, bytes_); }
  PanelBeforeAHole(const PanelBeforeAHole&) = delete;
  PanelBeforeAHole& operator=(const PanelBeforeAHole&) = delete;

  std::byte* panel = nullptr;

 private:
  std::size_t page_, bytes_;
  std::byte* memory_;
};

// A file of packed panels may hold anything: escapes that never end, and such of units that are not there.
TEST(Compact, EscapesOfAnyContentStayInTheirPanel) {
  constexpr std::int64_t kColumns = 256;
  PackedMatrix matrix = compact_shape(16, kColumns);
  const PanelBeforeAHole memory(matrix.panel_bytes);
  matrix.data = memory.panel;
  const std::vector<float> x(kColumns, 1.0f);
  for (const int unit : {0, 3, 4, 5, 0x3fff}) {
    const std::uint32_t escape = static_cast<std::uint32_t>(unit) << kEscapeUnitShift;
    for (std::size_t at = 0; at < matrix.panel_bytes; at += sizeof(escape))
      std::memcpy(memory.panel + at, &escape, sizeof(escape));
    std::vector<float> values(kColumns + 64 * 0x4000, -7.0f);
    for (std::int64_t row = 0; row < 16; ++row) unpack_packed_row(matrix, row, values.data());
    EXPECT_EQ(std::count(values.begin() + kColumns, values.end(), -7.0f), 64 * 0x4000) << unit;
    for (const Isa isa : kIsas) {
      if (!supported(isa)) continue;
      for (const std::int64_t n : {1, 3}) {
        std::vector<float> out(static_cast<std::size_t>(16 * n));
        std::vector<float> rows;
        for (std::int64_t i = 0; i < n; ++i) rows.insert(rows.end(), x.begin(), x.end());
        kernels(isa).matmul({.weight = &matrix,
                             .x = reinterpret_cast<const std::byte*>(rows.data()),
                             .x_row_bytes = kColumns * sizeof(float),
                             .out = out.data(),
                             .out_stride = 16},
                            {0, 1}, {0, n});
      }
    }
  }
}

/// Weights of a device that keeps packed weights.
class CompactWeights : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::shared_ptr<PackedCache> cache() const {
    return std::make_shared<PackedCache>(
        PackedCacheOptions{.folder = folder_, .max_bytes = 1 << 30, .min_free_fraction = 0.0},
        PackedModel{.name = "model", .key = {1, 2}, .identity = {3, 4}, .n_bytes = 1000});
  }
  /// Two matrices, as of experts.
  static std::unique_ptr<DeviceTensor> create(Device& device, const char* name,
                                              const std::vector<std::byte>& bytes) {
    return device.create_weight(DType::kBF16, kShape, {.bytes = bytes, .name = name});
  }
  static void expect_rows_of(const DeviceTensor& tensor, const std::vector<std::byte>& bytes, bool compact) {
    const auto& matrices = dynamic_cast<const MatrixTensor&>(tensor).matrices();
    ASSERT_EQ(matrices.size(), 2u);
    std::vector<float> row(kShape[2]), expected(kShape[2]);
    for (std::int64_t r = 0; r < 2 * kShape[1]; ++r) {
      const PackedMatrix& matrix = matrices[static_cast<std::size_t>(r / kShape[1])];
      EXPECT_EQ(matrix.compact, compact);
      unpack_packed_row(matrix, r % kShape[1], row.data());
      unpack_row(DType::kBF16, bytes.data() + 2 * r * kShape[2], expected);
      ASSERT_EQ(std::memcmp(row.data(), expected.data(), row.size() * sizeof(float)), 0) << "row " << r;
    }
  }

  static constexpr std::int64_t kShape[] = {2, 300, 512};
  const fs::path folder_ = fs::temp_directory_path() / ("weft-compact-" + std::to_string(::getpid()));
};

// A matrix without 16 frequent high bytes is packed as others are, in one panel as in all; both are kept.
TEST_F(CompactWeights, AreThoseThatFit) {
  const std::vector<std::byte> normal = with_escapes(2 * kShape[1], kShape[2], 1).bytes;
  CanonicalMatrix odd = normal_matrix(2 * kShape[1], kShape[2], 2);
  for (std::int64_t k = 0; k < kShape[2]; ++k)  // In the last panel.
    put(odd, odd.rows - 1, k, static_cast<std::uint16_t>(k % 64 << 8 | 1));
  for (const bool kept : {false, true}) {
    const auto packed_cache = cache();
    EXPECT_EQ(packed_cache->found(), kept);
    const auto device = make_device({.n_threads = 2, .packed_cache = packed_cache});
    const auto a = create(*device, "a", normal), b = create(*device, "b", odd.bytes),
               c = create(*device, "c", normal);
    device->finish_weights();
    expect_rows_of(*a, normal, true);
    expect_rows_of(*b, odd.bytes, false);
    expect_rows_of(*c, normal, true);
    const std::size_t bytes = device->bytes_of(ValueKind::kWeight, DType::kBF16, kShape);
    EXPECT_LT(a->bytes(), bytes * 4 / 5);
    EXPECT_EQ(b->bytes(), bytes);
  }
}

}  // namespace
}  // namespace weft::cpu
