#include "backend/cpu/layout/packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "backend/cpu/layout/compact.h"
#include "backend/cpu/layout/packed_layout.h"
#include "backend/cpu/layout/packed_source.h"
#include "backend/cpu/layout/packed_source_small.h"
#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "Packing copies little-endian words as they are.");

/// A matrix is tall if its rows are at least this many times its columns. Only heads are.
constexpr std::int64_t kTall = 12;

const PanelLayout& layout_of(DType dtype) {
  for (const PanelLayout& layout : kPanelLayouts) {
    if (layout.dtype == dtype && !layout.tall) return layout;
  }
  throw Error(ErrorCode::kUnsupported, "the CPU multiplies no matrices of type " +
                                           std::string(info(dtype).name) +
                                           "; convert the weight to one of the float or quantised types");
}

const PanelLayout* tall_layout_of(DType dtype) {
  for (const PanelLayout& layout : kPanelLayouts) {
    if (layout.dtype == dtype && layout.tall) return &layout;
  }
  return nullptr;
}

const PanelLayout& layout_of(const PackedMatrix& matrix) {
  return matrix.low_bytes > 0 ? *tall_layout_of(matrix.dtype) : layout_of(matrix.dtype);
}

std::int64_t n_records(std::int64_t columns) { return (columns + kBlockColumns - 1) / kBlockColumns; }

using LowPlanes = std::array<std::byte*, kLowPlanes>;

// Writes one row's 32 codes, given as eight words of four columns, into its lane of a record and of low
// planes, from `at_low` on.
template <const PanelLayout& kLayout>
void put_codes(const Words& codes, int row, std::byte* record, const LowPlanes& low, std::int64_t at_low) {
  std::byte* const lane = record + row * 4;
  constexpr int kLow = low_bits(kLayout);
  const auto plane_pairs = [&](int shift, std::byte* to) {
    for (int half = 0; half < 2; ++half) {
      std::uint32_t bits = 0;
      for (int j = 0; j < 4; ++j) bits |= (codes[4 * half + j] >> shift & 0x03030303u) << (2 * j);
      put_word(to + 64 * half, bits);
    }
  };
  const auto plane_bits_of = [&](int shift, std::byte* to) {
    std::uint32_t bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[j] >> shift & 0x01010101u) << j;
    put_word(to, bits);
  };
  if constexpr (kLayout.base == Plane::kBytes) {
    for (int j = 0; j < 8; ++j) put_word(lane + 64 * j, codes[j]);
  } else if constexpr (kLayout.base == Plane::kBits) {
    plane_bits_of(0, lane);
  } else if constexpr (kLayout.base == Plane::kNibbles) {
    for (int j = 0; j < 4; ++j) {
      put_word(lane + 64 * j, (codes[j] >> kLow & 0x0f0f0f0fu) | (codes[j + 4] >> kLow & 0x0f0f0f0fu) << 4);
    }
  } else {
    plane_pairs(0, lane);
  }
  if constexpr (kLayout.tall)
    for (std::size_t i = 0; i < low.size(); ++i)
      plane_pairs(kLow - 2 * static_cast<int>(i + 1), low[i] + at_low + row * 4);
  constexpr int kShift = plane_bits(kLayout.base);
  std::byte* const extra = lane + plane_bytes(kLayout.base);
  if constexpr (kLayout.extra == Plane::kPairs) plane_pairs(kShift, extra);
  if constexpr (kLayout.extra == Plane::kBits) plane_bits_of(kShift, extra);
}

/// The offset of the scales of a unit's block: in the header, or after the codes.
constexpr int scales_offset(const PanelLayout& layout, int block) {
  if (!has_super_blocks(layout.scales)) return code_bytes(layout);
  return factor_bytes(layout.scales) + block * scale_bytes(layout);
}

template <const PanelLayout& kLayout>
void put_scales(const Scales& scales, int row, std::byte* to) {
  const auto put_byte = [&](int at, int value) { to[at] = static_cast<std::byte>(value & 0xff); };
  switch (kLayout.scales) {
    case ScaleKind::kHalfMin:
      put_half(to + 32 + 2 * row, scales.min_half);
      [[fallthrough]];
    case ScaleKind::kHalf:
      put_half(to + 2 * row, scales.half);
      break;
    case ScaleKind::kExponent:
    case ScaleKind::kSuper:
      put_byte(row, scales.scale[0]);
      break;
    case ScaleKind::kSuper16:
    case ScaleKind::kSuperE4M3:
      put_byte(row, scales.scale[0]);
      put_byte(16 + row, scales.scale[1]);
      break;
    case ScaleKind::kSuper16Min:
      put_byte(row, scales.scale[0] | scales.min[0] << 4);
      put_byte(16 + row, scales.scale[1] | scales.min[1] << 4);
      break;
    case ScaleKind::kNone:
    case ScaleKind::kSuperMin:
    case ScaleKind::kSuperFlat:
      break;
  }
}

void put_bits(std::byte& to, int at, int mask, int value) {
  to = static_cast<std::byte>((std::to_integer<int>(to) & ~(mask << at)) | (value & mask) << at);
}

/// One row's scales and mins of kSuperMin, from a canonical block.
template <const PanelLayout& kLayout>
void put_six_bits(const std::byte* block, int row, std::byte* low) {
  for (int i = 0; i < kSuperBlocks; ++i) {
    const Scales scales = Source<kLayout.dtype>::scales(block, i);
    std::byte* const mins = low + 64 * (1 + i / 4);
    put_bits(low[six_bit_scale(row, i)], i / 4 * 4, 15, scales.scale[0]);
    put_bits(mins[six_bit_scale(row, i)], 6, 3, scales.scale[0] >> 4);
    put_bits(mins[six_bit_min(row, i)], 0, 63, scales.min[0]);
  }
}

/// One row's odd scales, from a canonical block.
template <const PanelLayout& kLayout>
void put_odd_scales(const std::byte* block, int row, std::byte* to) {
  constexpr int kOfBlock = kLayout.scales == ScaleKind::kSuper16 ? 2 : 1;
  for (int i = 0; i < kSuperBlocks * kOfBlock; ++i) {
    const Scales scales = Source<kLayout.dtype>::scales(block, i / kOfBlock);
    put_bits(to[odd_scale_byte(row, i)], odd_scale_shift(i), 15, scales.scale[i % kOfBlock]);
  }
}

template <const PanelLayout& kLayout>
void put_factors(const std::byte* block, int row, std::byte* to) {
  if constexpr (factor_bytes(kLayout.scales) > 0) {
    const Factors factors = Source<kLayout.dtype>::factors(block);
    put_half(to + 2 * row, factors.d);
    if (factor_bytes(kLayout.scales) > 32) put_half(to + 32 + 2 * row, factors.d_min ^ 0x8000);
  }
}

template <const PanelLayout& kLayout>
void pack_quantised(std::int64_t n_rows, std::int64_t columns, const std::byte* canonical, std::size_t stride,
                    std::byte* panel, const LowPlanes& low) {
  using From = Source<kLayout.dtype>;
  constexpr int kHeader = header_bytes(kLayout);
  constexpr int kRecord = record_bytes(kLayout);
  constexpr bool kSuper = has_super_blocks(kLayout.scales);
  constexpr int kBlocks = kSuper ? kLayout.super_blocks : kSuperBlocks;
  // A few records at a time, so that they stay in the first-level cache while all rows write to them.
  for (std::int64_t at = 0; at < n_records(columns); at += kBlocks) {
    const int n = static_cast<int>(std::min<std::int64_t>(kBlocks, n_records(columns) - at));
    if (kSuper && n < kBlocks) std::memset(panel, 0, to_size(unit_bytes(kLayout)));
    for (int row = 0; row < n_rows; ++row) {
      const std::byte* const blocks =
          canonical + to_size(row) * stride + to_size(at / From::kParts) * From::kBytes;
      put_factors<kLayout>(blocks, row, panel);
      if constexpr (kLayout.scales == ScaleKind::kSuperMin)
        put_six_bits<kLayout>(blocks, row, panel + factor_bytes(kLayout.scales));
      if constexpr (kLayout.odd) put_odd_scales<kLayout>(blocks, row, panel + factor_bytes(kLayout.scales));
      for (int i = 0; i < n; ++i) {
        const std::byte* const block = blocks + i / From::kParts * From::kBytes;
        const int part = i % From::kParts;
        std::byte* const record = panel + kHeader + i * kRecord;
        put_codes<kLayout>(From::codes(block, part), row, record, low, (at + i) * plane_bytes(Plane::kPairs));
        if constexpr (!kLayout.odd)
          put_scales<kLayout>(From::scales(block, part), row,
                              (kSuper ? panel : record) + scales_offset(kLayout, i));
      }
    }
    panel += kHeader + n * kRecord;
  }
}

template <const PanelLayout& kLayout>
void pack_floats(std::int64_t n_rows, std::int64_t columns, const std::byte* canonical, std::size_t stride,
                 std::byte* panel) {
  constexpr int kSize = kLayout.element_bytes;
  for (std::int64_t begin = 0; begin < columns; begin += kBlockColumns) {
    const std::int64_t n = std::min<std::int64_t>(kBlockColumns, columns - begin);
    if (n < kBlockColumns) std::memset(panel, 0, to_size(record_bytes(kLayout)));
    for (int row = 0; row < n_rows; ++row) {
      const std::byte* const from = canonical + to_size(row) * stride + begin * kSize;
      for (std::int64_t k = 0; k < n; ++k) {
        std::memcpy(panel + (k * kPanelRows + row) * kSize, from + k * kSize, kSize);
      }
    }
    panel += record_bytes(kLayout);
  }
}

template <const PanelLayout& kLayout>
void pack_panel(std::int64_t n_rows, std::int64_t columns, const std::byte* canonical, std::size_t stride,
                std::byte* panel, const LowPlanes& low) {
  if constexpr (kLayout.element_bytes > 0) {
    pack_floats<kLayout>(n_rows, columns, canonical, stride, panel);
  } else {
    pack_quantised<kLayout>(n_rows, columns, canonical, stride, panel, low);
  }
}

using PackPanel = void (*)(std::int64_t, std::int64_t, const std::byte*, std::size_t, std::byte*,
                           const LowPlanes&);
template <std::size_t... kIndex>
PackPanel packer_of(const PanelLayout& layout, std::index_sequence<kIndex...>) {
  PackPanel found = nullptr;
  ((&kPanelLayouts[kIndex] == &layout ? void(found = pack_panel<kPanelLayouts[kIndex]>) : void()), ...);
  return found;
}

int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }
int signed_byte_at(const std::byte* p) { return static_cast<std::int8_t>(byte_at(p)); }
float half_at(const std::byte* p) {
  std::uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return f16_to_f32(half);
}

/// The bits of a row's 32 codes in a plane.
Words bits_in(Plane plane, const std::byte* p, int row) {
  const std::byte* const lane = p + row * 4;
  Words words = {};
  for (int j = 0; j < 8; ++j) {
    const auto u = to_size(j);
    switch (plane) {
      case Plane::kNone:
        break;
      case Plane::kBits:
        words[u] = word_at(lane) >> j & 0x01010101u;
        break;
      case Plane::kPairs:
        words[u] = word_at(lane + j / 4 * 64) >> (2 * (j % 4)) & 0x03030303u;
        break;
      case Plane::kNibbles:
        words[u] = word_at(lane + j % 4 * 64) >> (4 * (j / 4)) & 0x0f0f0f0fu;
        break;
      case Plane::kBytes:
        words[u] = word_at(lane + j * 64);
        break;
    }
  }
  return words;
}

/// A row's codes in a block of 32 columns.
Words codes_in(const PackedMatrix& matrix, const PanelLayout& layout, const std::byte* record,
               std::int64_t block, std::int64_t row) {
  const int lane = static_cast<int>(row % kPanelRows);
  Words codes = bits_in(layout.base, record, lane);
  or_shifted(codes, bits_in(layout.extra, record + plane_bytes(layout.base), lane), plane_bits(layout.base));
  if (!layout.tall) return codes;
  Words tall = {};
  or_shifted(tall, codes, low_bits(layout));
  for (int i = 0; i < kLowPlanes; ++i) {
    const std::byte* const low = low_of(matrix, i, row / kPanelRows) + block * plane_bytes(Plane::kPairs);
    or_shifted(tall, bits_in(Plane::kPairs, low, lane), 2 * (kLowPlanes - 1 - i));
  }
  return tall;
}

struct ScaleAndMin {
  float scale = 0.0f;
  float min = -0.0f;  // Where there is none: adding it keeps the sign of a zero.
};

/// Of a row's column in block `block` of a unit; `p` is where the block's scales lie.
ScaleAndMin scale_at(const PanelLayout& layout, const std::byte* factors, const std::byte* p, int row,
                     int block, int column) {
  const ScaleKind kind = layout.scales;
  if (layout.odd) {
    const int i = kind == ScaleKind::kSuper16 ? 2 * block + column / 16 : block;
    const int s = byte_at(factors + factor_bytes(kind) + odd_scale_byte(row, i)) >> odd_scale_shift(i) & 15;
    return {half_at(factors + 2 * row) * layout.unit * static_cast<float>(2 * s + 1)};
  }
  const std::byte* const half = p + column / 16 * 16 + row;  // Of a kind with two scales a record.
  switch (kind) {
    case ScaleKind::kNone:
      return {};
    case ScaleKind::kHalf:
      return {half_at(p + 2 * row)};
    case ScaleKind::kHalfMin:
      return {half_at(p + 2 * row), half_at(p + 32 + 2 * row)};
    case ScaleKind::kExponent: {
      const auto e = static_cast<std::uint32_t>(byte_at(p + row));
      return {std::bit_cast<float>(e < 2 ? 0x200000u << e : (e - 1) << 23)};
    }
    case ScaleKind::kSuper:
      return {half_at(factors + 2 * row) * static_cast<float>(signed_byte_at(p + row))};
    case ScaleKind::kSuperMin: {
      const std::byte* const low = factors + factor_bytes(kind);
      const std::byte* const mins = low + 64 * (1 + block / 4);
      const int at = six_bit_scale(row, block);
      const int scale = (byte_at(low + at) >> block / 4 * 4 & 15) | byte_at(mins + at) >> 6 << 4;
      const int min = byte_at(mins + six_bit_min(row, block)) & 63;
      return {half_at(factors + 2 * row) * static_cast<float>(scale),
              half_at(factors + 32 + 2 * row) * static_cast<float>(min)};
    }
    case ScaleKind::kSuper16:
      return {half_at(factors + 2 * row) * static_cast<float>(signed_byte_at(half))};
    case ScaleKind::kSuper16Min:
      return {half_at(factors + 2 * row) * static_cast<float>(byte_at(half) & 15),
              half_at(factors + 32 + 2 * row) * static_cast<float>(byte_at(half) >> 4)};
    case ScaleKind::kSuperFlat:
      return {half_at(factors + 2 * row)};
    case ScaleKind::kSuperE4M3:
      return {f16_to_f32(static_cast<std::uint16_t>(byte_at(half) << 7)) * layout.unit};
  }
  return {};
}

float element_at(DType dtype, const std::byte* p) {
  std::uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  if (dtype == DType::kF16) return f16_to_f32(half);
  if (dtype == DType::kBF16) return bf16_to_f32(half);
  float value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

}  // namespace

bool is_tall(DType dtype, std::int64_t rows, std::int64_t columns) {
  return rows / kTall >= columns && tall_layout_of(dtype) != nullptr;
}

PackedMatrix packed_shape(DType dtype, std::int64_t rows, std::int64_t columns) {
  const PanelLayout& layout = is_tall(dtype, rows, columns) ? *tall_layout_of(dtype) : layout_of(dtype);
  const std::int64_t n = (columns + unit_columns(layout) - 1) / unit_columns(layout);
  const auto panel_bytes = to_size((n * unit_bytes(layout) + 63) / 64 * 64);
  const auto low_bytes = to_size(layout.tall ? n * plane_bytes(Plane::kPairs) : 0);
  return {
      .dtype = dtype, .rows = rows, .columns = columns, .panel_bytes = panel_bytes, .low_bytes = low_bytes};
}

std::size_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t columns) {
  return matrix_bytes(packed_shape(dtype, rows, columns));
}

std::size_t matrix_bytes(const PackedMatrix& matrix) {
  if (matrix.canonical != nullptr) return row_bytes(matrix.dtype, matrix.columns) * to_size(matrix.rows);
  return to_size(matrix.n_panels()) * (matrix.panel_bytes + kLowPlanes * matrix.low_bytes);
}

void pack_panels(DType dtype, std::int64_t rows, std::int64_t columns, const std::byte* canonical,
                 std::int64_t begin, std::int64_t end, std::byte* out) {
  PackedMatrix matrix = packed_shape(dtype, rows, columns);
  matrix.data = out;
  const std::size_t stride = row_bytes(dtype, columns);
  const PackPanel pack = packer_of(layout_of(matrix), std::make_index_sequence<kNumPanelLayouts>());
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t row = p * kPanelRows;
    const std::int64_t n_rows = std::min<std::int64_t>(kPanelRows, rows - row);
    std::byte* const panel = out + to_size(p) * matrix.panel_bytes;
    LowPlanes low;
    for (std::size_t i = 0; i < low.size(); ++i)
      low[i] = out + (low_of(matrix, static_cast<int>(i), p) - out);
    if (n_rows < kPanelRows) {
      std::memset(panel, 0, matrix.panel_bytes);
      for (std::byte* plane : low) std::memset(plane, 0, matrix.low_bytes);
    }
    pack(n_rows, columns, canonical, stride, panel, low);
    canonical += to_size(n_rows) * stride;
  }
}

void unpack_packed_row(const PackedMatrix& matrix, std::int64_t row, float* out) {
  if (matrix.canonical != nullptr) {
    const std::size_t stride = row_bytes(matrix.dtype, matrix.columns);
    unpack_row(matrix.dtype, matrix.canonical + to_size(row) * stride, {out, to_size(matrix.columns)});
    return;
  }
  if (matrix.compact) return unpack_compact_row(matrix, row, out);
  const PanelLayout& layout = layout_of(matrix);
  const int lane = static_cast<int>(row % kPanelRows);
  const std::byte* const panel = panel_of(matrix, row / kPanelRows);
  const bool has_table = layout.table.of[0] != 0;
  for (std::int64_t block = 0; block * kBlockColumns < matrix.columns; ++block, out += kBlockColumns) {
    const int blocks_of_unit = unit_columns(layout) / kBlockColumns;
    const int part = static_cast<int>(block % blocks_of_unit);
    const std::byte* const unit = panel + block / blocks_of_unit * unit_bytes(layout);
    const std::byte* const record = unit + header_bytes(layout) + part * record_bytes(layout);
    const auto n =
        static_cast<int>(std::min<std::int64_t>(kBlockColumns, matrix.columns - block * kBlockColumns));
    if (layout.element_bytes > 0) {
      for (int k = 0; k < n; ++k)
        out[k] = element_at(layout.dtype, record + (k * kPanelRows + lane) * layout.element_bytes);
      continue;
    }
    const Words codes = codes_in(matrix, layout, record, block, row);
    ScaleAndMin s;
    for (int k = 0; k < n; ++k) {
      if (k % 16 == 0) s = scale_at(layout, unit, unit + scales_offset(layout, part), lane, part, k);
      int code = static_cast<int>(codes[to_size(k / 4)] >> (8 * (k % 4)) & 0xff);
      if (has_table) code = layout.table.of[code];
      out[k] = s.scale * static_cast<float>(code - layout.zero) + s.min;
    }
  }
}

Form activation_form(DType weight) {
  const PanelLayout& layout = layout_of(weight);
  if (layout.element_bytes > 0) return Form::kPlain;
  return has_super_blocks(layout.scales) ? Form::kQ8Wide : Form::kQ8;
}

std::size_t activation_row_bytes(Form form, std::int64_t columns) {
  const auto n = to_size(columns);
  std::size_t bytes = n * sizeof(float);
  if (form == Form::kQ8) bytes = (n + kBlockColumns - 1) / kBlockColumns * sizeof(Q8Group);
  if (form == Form::kQ8Wide) bytes = (n + kWideColumns - 1) / kWideColumns * sizeof(Q8Wide);
  return (bytes + 63) / 64 * 64;
}

}  // namespace weft::cpu
