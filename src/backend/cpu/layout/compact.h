#pragma once
// Compact panels: matrices of BF16 in 12 bits a weight, with the same values bit by bit.
//
// The weights of a matrix lie within a few powers of two of each other. So a weight's low byte (mantissa,
// last bit of the exponent) is stored unchanged. The high byte (sign, the other bits of the exponent) is an
// index of four bits into a table of its panel. The table has eight pairs of neighbouring exponents with both
// signs: of normally distributed weights all but one in 15,000. Other values are escapes, with room for one
// weight in 256. A matrix with a panel that needs more is packed like others (packed.h).
//
//   [table of 16 bytes][escapes of 4 bytes, a last one after all units] up to compact_header_bytes
//   [unit of 64 columns][unit] ...
//
// A unit is two records of 32 columns, whose sums can go side by side, in groups of four columns:
//
//   [64 indices, of the first record in low nibbles][64 low bytes of the first][64 of the second]   8 times
//
// The byte of a row and a column t of the group is row / 4 * 16 + t / 2 * 8 + row % 4 * 2 + t % 2:
// interleaved with the high bytes, each 16 of them become 32 bits for two columns of a row. An escape is
//
//   unit << 18 | record << 17 | group << 14 | byte << 8 | the weight's high byte
#include <cstddef>
#include <cstdint>

#include "backend/cpu/layout/packed.h"

namespace weft::cpu {

inline constexpr int kCompactColumns = 2 * kBlockColumns;  ///< Of a unit.
inline constexpr int kCompactTable = 16;
inline constexpr int kCompactGroups = kBlockColumns / 4;             ///< Of a record.
inline constexpr int kCompactPlaces = kPanelRows * kCompactColumns;  ///< Of a unit.
inline constexpr int kEscapeUnitShift = 18;
inline constexpr int kEscapePlaceShift = 8;

static inline std::int64_t compact_header_bytes(std::int64_t columns) {
  return (kCompactTable + columns / 4 + 63) / 64 * 64;
}

/// Whether matrices of this type and length of rows are tried.
bool may_be_compact(DType dtype, std::int64_t columns);
/// As packed_shape.
PackedMatrix compact_shape(std::int64_t rows, std::int64_t columns);
/// As pack_panels, of BF16. False where a panel needs more escapes than it has room for; the output is then
/// unusable.
bool pack_compact_panels(std::int64_t rows, std::int64_t columns, const std::byte* canonical,
                         std::int64_t begin, std::int64_t end, std::byte* out);
/// As unpack_packed_row.
void unpack_compact_row(const PackedMatrix& matrix, std::int64_t row, float* out);

}  // namespace weft::cpu
