#include "backend/cpu/layout/cache_rows.h"

#include <cstring>
#include <type_traits>

#include "backend/cpu/layout/cache_layout.h"
#include "base/to_size.h"
#include "tensor/codec.h"

namespace weft::cpu {
namespace {

/// One cell in its page, piece by piece in canonical order: blocks of words and then units; floats are one
/// block without words.
class CellPieces {
 public:
  CellPieces(const CacheShape& shape, CacheRole role, std::int64_t cell)
      : unit_bytes_(cache_unit_bytes(shape.dtype)),
        n_units_(cache_units(shape.dtype, shape.head_dim)),
        n_words_(cache_words(shape.dtype, shape.head_dim)),
        words_of_block_(to_size(cache_block_words(shape.dtype))),
        head_bytes_(cache_page_bytes(shape.dtype, 1, shape.head_dim)),
        page_(to_size(cell / kPageCells) * to_size(shape.n_heads) * head_bytes_),
        units_(cache_places(role, is_paired_cache(shape.dtype), cell, static_cast<std::ptrdiff_t>(n_units_))),
        words_(cache_places(role, false, cell, static_cast<std::ptrdiff_t>(n_words_))) {}

  std::size_t n_blocks() const { return n_words_ > 0 ? n_words_ / words_of_block_ : 1; }  ///< Of one head
  std::size_t block_bytes() const {
    return words_of_block_ * kCacheWordBytes + n_units_ / n_blocks() * unit_bytes_;
  }

  std::size_t n_units() const { return n_units_; }
  std::size_t n_words() const { return n_words_; }
  /// Offsets in the cache.
  std::size_t unit(int head, std::size_t i) const { return first(head) + place(units_, i) * unit_bytes_; }
  std::size_t word(int head, std::size_t i) const {
    return first(head) + kPageCells * n_units_ * unit_bytes_ + place(words_, i) * kCacheWordBytes;
  }

  /// Calls copy(offset in the cache, offset in the canonical block, bytes).
  template <typename Copy>
  void for_each(int head, std::size_t block, Copy copy) const {
    std::size_t at = 0;
    for (std::size_t w = block * words_of_block_; w < (block + 1) * words_of_block_;
         ++w, at += kCacheWordBytes)
      copy(word(head, w), at, kCacheWordBytes);
    const std::size_t per_block = n_units_ / n_blocks();
    for (std::size_t u = block * per_block; u < (block + 1) * per_block; ++u, at += unit_bytes_)
      copy(unit(head, u), at, unit_bytes_);
  }

 private:
  std::size_t first(int head) const { return page_ + to_size(head) * head_bytes_; }
  static std::size_t place(const Places& places, std::size_t i) {
    return to_size(place_of(places, static_cast<std::ptrdiff_t>(i)));
  }

  std::size_t unit_bytes_, n_units_, n_words_, words_of_block_, head_bytes_, page_;
  Places units_, words_;
};

/// Calls f(head, block) for all blocks of a cell, in canonical order.
template <typename F>
void for_each_block(const CacheShape& shape, const CellPieces& pieces, F f) {
  for (int head = 0; head < shape.n_heads; ++head)
    for (std::size_t block = 0; block < pieces.n_blocks(); ++block) f(head, block);
}

constexpr std::size_t kMaxBlockBytes = 34;  // Q8_0

}  // namespace

namespace {

/// Slots lie one after another, as they cross the device's contract.
std::size_t slot_bytes(const CacheShape& shape) {
  return row_bytes(shape.dtype, std::int64_t{shape.n_heads} * shape.head_dim);
}

}  // namespace

void read_cells(const CacheShape& shape, CacheRole role, const std::byte* cache,
                std::span<const std::int32_t> cells, std::byte* rows) {
  if (role == CacheRole::kSlots) {
    const std::size_t n = slot_bytes(shape);
    for (std::size_t i = 0; i < cells.size(); ++i)
      std::memcpy(rows + i * n, cache + to_size(cells[i]) * n, n);
    return;
  }
  for (const std::int32_t cell : cells) {
    const CellPieces pieces(shape, role, cell);
    for_each_block(shape, pieces, [&](int head, std::size_t block) {
      pieces.for_each(head, block, [&](std::size_t from, std::size_t at, std::size_t n) {
        std::memcpy(rows + at, cache + from, n);
      });
      rows += pieces.block_bytes();
    });
  }
}

void write_cells(const CacheShape& shape, CacheRole role, std::span<const std::int32_t> cells,
                 const std::byte* rows, std::byte* cache) {
  if (role == CacheRole::kSlots) {
    const std::size_t n = slot_bytes(shape);
    for (std::size_t i = 0; i < cells.size(); ++i)
      std::memcpy(cache + to_size(cells[i]) * n, rows + i * n, n);
    return;
  }
  for (const std::int32_t cell : cells) {
    const CellPieces pieces(shape, role, cell);
    for_each_block(shape, pieces, [&](int head, std::size_t block) {
      pieces.for_each(head, block, [&](std::size_t to, std::size_t at, std::size_t n) {
        std::memcpy(cache + to, rows + at, n);
      });
      rows += pieces.block_bytes();
    });
  }
}

void quantise_cell(const CacheShape& shape, CacheRole role, const float* row, std::int64_t cell,
                   std::byte* cache) {
  const CellPieces pieces(shape, role, cell);
  for_each_block(shape, pieces, [&](int head, std::size_t block) {
    std::byte packed[kMaxBlockBytes];
    pack_row(shape.dtype, {row, kCacheBlock}, packed);
    row += kCacheBlock;
    pieces.for_each(head, block, [&](std::size_t to, std::size_t at, std::size_t n) {
      std::memcpy(cache + to, packed + at, n);
    });
  });
}

void unpack_cell(const CacheShape& shape, CacheRole role, const std::byte* cache, std::int64_t cell,
                 float* row) {
  const CellPieces pieces(shape, role, cell);
  for_each_block(shape, pieces, [&](int head, std::size_t block) {
    std::byte packed[kMaxBlockBytes];
    pieces.for_each(head, block, [&](std::size_t from, std::size_t at, std::size_t n) {
      std::memcpy(packed + at, cache + from, n);
    });
    unpack_row(shape.dtype, packed, {row, kCacheBlock});
    row += kCacheBlock;
  });
}

void copy_cell(const CacheShape& shape, CacheRole role, std::int64_t from, std::int64_t to,
               std::byte* cache) {
  const CellPieces source(shape, role, from), target(shape, role, to);
  for (int head = 0; head < shape.n_heads; ++head) {
    const auto copy = [&](std::size_t at, std::size_t source_at, auto size) {
      std::memcpy(cache + at, cache + source_at, size());
    };
    const auto copy_units = [&](auto size) {
      for (std::size_t u = 0; u < source.n_units(); ++u)
        copy(target.unit(head, u), source.unit(head, u), size);
    };
    // Sizes that the compiler knows: a copy of each number is one load and one store.
    switch (cache_unit_bytes(shape.dtype)) {
      case 1:
        copy_units(std::integral_constant<std::size_t, 1>{});
        break;
      case 2:
        copy_units(std::integral_constant<std::size_t, 2>{});
        break;
      default:
        copy_units(std::integral_constant<std::size_t, 4>{});
    }
    for (std::size_t w = 0; w < source.n_words(); ++w)
      copy(target.word(head, w), source.word(head, w),
           std::integral_constant<std::size_t, kCacheWordBytes>{});
  }
}

}  // namespace weft::cpu
