#include "backend/cpu/layout/compact.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/to_size.h"
#include "tensor/codec.h"

namespace weft::cpu {
namespace {

constexpr int kGroupBytes = 3 * 4 * kPanelRows;
constexpr int kUnitBytes = kCompactGroups * kGroupBytes;
constexpr std::uint32_t kNoEscape = 0xffffffff;
constexpr int kEscapeBytes = sizeof(kNoEscape);
constexpr std::int64_t kLeastColumns = 256;  // Shorter panels have kernels of their own.
constexpr std::int64_t kMostColumns =
    std::int64_t{kNoEscape >> kEscapeUnitShift} * kCompactColumns;  // The last unit's number is unused.

constexpr int byte_in_group(int row, int column) {
  return row / 4 * 16 + column / 2 * 8 + row % 4 * 2 + column % 2;
}

int high_of(const std::byte* weight) { return std::to_integer<int>(weight[1]); }

/// The 16 high bytes that occur most, and each byte's index among them; kCompactTable for others.
struct Table {
  std::array<std::uint8_t, kCompactTable> bytes{};
  std::array<std::uint8_t, 256> index{};
};
Table table_of(std::int64_t n_rows, std::int64_t columns, const std::byte* rows, std::size_t stride) {
  std::array<std::int64_t, 256> counts{};
  counts[0] = (kPanelRows - n_rows) * columns;  // Rows past the last one are zero.
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const std::byte* const row = rows + to_size(r) * stride;
    for (std::int64_t k = 0; k < columns; ++k) ++counts[to_size(high_of(row + 2 * k))];
  }
  std::array<std::uint8_t, 256> order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint8_t>(i);
  std::partial_sort(
      order.begin(), order.begin() + kCompactTable, order.end(),
      [&](std::uint8_t a, std::uint8_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  Table table;
  table.index.fill(kCompactTable);
  for (std::uint8_t i = 0; i < kCompactTable; ++i) {
    table.bytes[i] = order[i];
    table.index[order[i]] = i;
  }
  return table;
}

bool pack_panel(std::int64_t n_rows, std::int64_t columns, const std::byte* rows, std::size_t stride,
                std::byte* panel) {
  const Table table = table_of(n_rows, columns, rows, stride);
  const std::int64_t header = compact_header_bytes(columns);
  std::memset(panel, 0, to_size(header));
  std::memcpy(panel, table.bytes.data(), table.bytes.size());
  std::byte* escape = panel + kCompactTable;
  const std::byte* const last_escape = panel + header - kEscapeBytes;
  const auto put_escape = [&](std::uint32_t value) {
    std::memcpy(escape, &value, sizeof(value));
    escape += sizeof(value);
  };
  const int zero = table.index[0] < kCompactTable ? table.index[0] : 0;
  std::byte* unit = panel + header;
  for (std::int64_t u = 0; u < columns / kCompactColumns; ++u, unit += kUnitBytes) {
    if (n_rows < kPanelRows) {
      std::memset(unit, 0, kUnitBytes);
      for (int group = 0; group < kCompactGroups; ++group)
        std::memset(unit + group * kGroupBytes, zero * 0x11, 4 * kPanelRows);
    }
    for (int row = 0; row < n_rows; ++row) {
      const std::byte* const from = rows + to_size(row) * stride + 2 * u * std::int64_t{kCompactColumns};
      for (int column = 0; column < kBlockColumns; ++column) {
        const int group = column / 4, place = byte_in_group(row, column % 4);
        std::byte* const to = unit + group * kGroupBytes + place;
        int nibbles = 0;
        for (int record = 0; record < 2; ++record) {
          const std::byte* const weight = from + 2 * (record * kBlockColumns + column);
          int index = table.index[to_size(high_of(weight))];
          if (index == kCompactTable) {
            if (escape == last_escape) return false;
            put_escape(static_cast<std::uint32_t>(u) << kEscapeUnitShift |
                       static_cast<std::uint32_t>((record * kCompactGroups + group) * 4 * kPanelRows + place)
                           << kEscapePlaceShift |
                       static_cast<std::uint32_t>(high_of(weight)));
            index = 0;
          }
          nibbles |= index << (4 * record);
          to[4 * kPanelRows * (1 + record)] = weight[0];
        }
        *to = static_cast<std::byte>(nibbles);
      }
    }
  }
  put_escape(kNoEscape);
  return true;
}

}  // namespace

bool may_be_compact(DType dtype, std::int64_t columns) {
  return dtype == DType::kBF16 && columns % kCompactColumns == 0 && columns >= kLeastColumns &&
         columns <= kMostColumns;
}

PackedMatrix compact_shape(std::int64_t rows, std::int64_t columns) {
  return {.dtype = DType::kBF16,
          .rows = rows,
          .columns = columns,
          .panel_bytes = to_size(compact_header_bytes(columns) + columns / kCompactColumns * kUnitBytes),
          .compact = true};
}

bool pack_compact_panels(std::int64_t rows, std::int64_t columns, const std::byte* canonical,
                         std::int64_t begin, std::int64_t end, std::byte* out) {
  const PackedMatrix matrix = compact_shape(rows, columns);
  const std::size_t stride = row_bytes(DType::kBF16, columns);
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t n_rows = std::min<std::int64_t>(kPanelRows, rows - p * kPanelRows);
    if (!pack_panel(n_rows, columns, canonical, stride, out + to_size(p) * matrix.panel_bytes)) return false;
    canonical += to_size(n_rows) * stride;
  }
  return true;
}

void unpack_compact_row(const PackedMatrix& matrix, std::int64_t row, float* out) {
  const std::byte* const panel = panel_of(matrix, row / kPanelRows);
  const int lane = static_cast<int>(row % kPanelRows);
  const auto put = [&](std::int64_t column, int high, std::byte low) {
    out[column] = bf16_to_f32(static_cast<std::uint16_t>(high << 8 | std::to_integer<int>(low)));
  };
  const auto low_at = [&](std::int64_t unit, int record, int group, int place) {
    return panel + compact_header_bytes(matrix.columns) + unit * kUnitBytes + group * kGroupBytes +
           4 * kPanelRows * (1 + record) + place;
  };
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    const int in_unit = static_cast<int>(column % kCompactColumns);
    const int record = in_unit / kBlockColumns, group = in_unit % kBlockColumns / 4;
    const int place = byte_in_group(lane, in_unit % 4);
    const std::byte* const low = low_at(column / kCompactColumns, record, group, place);
    const int index = std::to_integer<int>(low[-4 * kPanelRows * (1 + record)]) >> (4 * record) & 15;
    put(column, std::to_integer<int>(panel[index]), *low);
  }
  const std::byte* const end = panel + compact_header_bytes(matrix.columns);
  for (const std::byte* at = panel + kCompactTable; at < end; at += kEscapeBytes) {
    std::uint32_t escape;
    std::memcpy(&escape, at, sizeof(escape));
    const std::int64_t unit = escape >> kEscapeUnitShift;
    if (unit >= matrix.columns / kCompactColumns) return;  // The last one; or no escape of this panel.
    const int all = static_cast<int>(escape >> kEscapePlaceShift & (kCompactPlaces - 1));
    const int place = all % (4 * kPanelRows), group = all / (4 * kPanelRows) % kCompactGroups;
    const int record = all / (4 * kPanelRows) / kCompactGroups;
    if (place / 16 * 4 + place % 8 / 2 != lane) continue;
    put(unit * kCompactColumns + record * kBlockColumns + group * 4 + place % 16 / 8 * 2 + place % 2,
        static_cast<int>(escape & 255), *low_at(unit, record, group, place));
  }
}

}  // namespace weft::cpu
