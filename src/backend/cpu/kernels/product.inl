#pragma once
// Products of float matrices that a step has made. Needs rows.inl and WEFT_CPU_ISA.
//
// An element is one chain of multiply-adds over k, in order, so its bits depend on its row of a and its
// column of b alone. Tiles of kProductTileRows rows and two vectors of columns stay in registers. Their
// operands are copied first, a part of k at a time. Rows of a are copied with a stride that avoids conflicts
// in the cache's sets. A panel of b is copied so that it fits into the first level for all rows of the block.
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA {

/// As many as leave room for two vectors of b and one of a.
inline constexpr int kProductTileRows = kRegisters == 32 ? 12 : 6;
inline constexpr int kProductTileColumns = 2 * kLanes;
inline constexpr std::int64_t kPartOfK = 192;
inline constexpr std::int64_t kRowStride = kPartOfK + 16;
static_assert(kProductScratchFloats >= kProductRows * kRowStride + kPartOfK * kProductTileColumns);

/// One tile: `a` has rows kRowStride apart, `b` rows b_stride apart. `first`: there is nothing in out yet.
template <int n_rows>
static inline void product_tile(const float* a, const float* b, std::int64_t b_stride, std::int64_t n_k,
                                float* out, std::int64_t out_stride, int n_columns, bool first) {
  const int n_second = n_columns - kLanes;
  const auto load_at = [](const float* p, int n) {
    return n >= kLanes ? load(p) : n > 0 ? load_partial(p, n) : zero();
  };
  const auto store_at = [](float* p, F32 x, int n) {
    if (n >= kLanes) return store(p, x);
    if (n > 0) store_partial(p, x, n);
  };
  F32 sums[n_rows][2];
#pragma GCC unroll 12
  for (int r = 0; r < n_rows; ++r) {
    sums[r][0] = first ? zero() : load_at(out + r * out_stride, n_columns);
    sums[r][1] = first ? zero() : load_at(out + r * out_stride + kLanes, n_second);
  }
  for (std::int64_t k = 0; k < n_k; ++k) {
    const F32 b0 = load(b);
    const F32 b1 = load(b + kLanes);
    b += b_stride;
#pragma GCC unroll 12
    for (int r = 0; r < n_rows; ++r) {
      const F32 x = broadcast(a[r * kRowStride + k]);
      sums[r][0] = fma(x, b0, sums[r][0]);
      sums[r][1] = fma(x, b1, sums[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < n_rows; ++r) {
    store_at(out + r * out_stride, sums[r][0], n_columns);
    store_at(out + r * out_stride + kLanes, sums[r][1], n_second);
  }
}

/// Like copy_block, but transposes. It works in small blocks, so that each line of either side is touched
/// once. Lines whose distance is a power of two evict each other from the cache.
static void turn_block(const float* x, std::int64_t column, std::int64_t n_rows, std::int64_t n,
                       std::int64_t width, float* out, std::int64_t out_stride) {
  constexpr std::int64_t kSide = 16;
  float block[kSide * kSide];
  for (std::int64_t i0 = 0; i0 < n_rows; i0 += kSide) {
    const std::int64_t n_i = i0 + kSide < n_rows ? kSide : n_rows - i0;
    for (std::int64_t j0 = 0; j0 < n; j0 += kSide) {
      const std::int64_t n_j = j0 + kSide < n ? kSide : n - j0;
      for (std::int64_t j = 0; j < n_j; ++j) {
        const float* const from = x + i0 + (j0 + j) * column;
        for_each_vector(
            n_i, [&](std::int64_t i, auto at) { store(block + j * kSide + i, load(from + i, at), at); });
      }
      float* const to = out + i0 * out_stride + j0;
      if (n_i == kSide && n_j == kSide) {
        for (std::int64_t i = 0; i < kSide; ++i)
          for (std::int64_t j = 0; j < kSide; ++j) to[i * out_stride + j] = block[j * kSide + i];
      } else {
        for (std::int64_t i = 0; i < n_i; ++i)
          for (std::int64_t j = 0; j < n_j; ++j) to[i * out_stride + j] = block[j * kSide + i];
      }
    }
    for (std::int64_t i = i0; i < i0 + n_i; ++i)
      for (std::int64_t j = n; j < width; ++j) out[i * out_stride + j] = 0.0f;
  }
}

/// out[i * out_stride + j] = x[i * row + j * column]; the columns from n on, to `width`, are zero.
static void copy_block(const float* x, std::int64_t row, std::int64_t column, std::int64_t n_rows,
                       std::int64_t n, std::int64_t width, float* out, std::int64_t out_stride) {
  if (n == 1 && width == 1) {
    for (std::int64_t i = 0; i < n_rows; ++i) out[i * out_stride] = x[i * row];
    return;
  }
  if (column == 1) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
      for_each_vector(n, [&](std::int64_t j, auto at) {
        store(out + i * out_stride + j, load(x + i * row + j, at), at);
      });
      for (std::int64_t j = n; j < width; ++j) out[i * out_stride + j] = 0.0f;
    }
    return;
  }
  if (row == 1) return turn_block(x, column, n_rows, n, width, out, out_stride);
  // Blocks of eight rows and columns touch each line of either side once while it is near.
  constexpr std::int64_t kBlock = 8;
  for (std::int64_t i0 = 0; i0 < n_rows; i0 += kBlock) {
    const std::int64_t i_end = i0 + kBlock < n_rows ? i0 + kBlock : n_rows;
    for (std::int64_t j0 = 0; j0 < n; j0 += kBlock) {
      const std::int64_t j_end = j0 + kBlock < n ? j0 + kBlock : n;
      for (std::int64_t j = j0; j < j_end; ++j)
        for (std::int64_t i = i0; i < i_end; ++i) out[i * out_stride + j] = x[i * row + j * column];
    }
    for (std::int64_t i = i0; i < i_end; ++i)
      for (std::int64_t j = n; j < width; ++j) out[i * out_stride + j] = 0.0f;
  }
}

static void product(const ProductArgs& args, float* scratch) {
  float* const a_rows = scratch;
  float* const panel = scratch + kProductRows * kRowStride;
  if (args.k == 0)
    for (std::int64_t i = 0; i < args.m; ++i) {
      float* const row = args.out + i * args.out_stride;
      for_each_vector(args.n, [&](std::int64_t j, auto at) { store(row + j, zero(), at); });
    }
  for (std::int64_t k = 0; k < args.k; k += kPartOfK) {
    const std::int64_t n_k = args.k - k < kPartOfK ? args.k - k : kPartOfK;
    copy_block(args.a + k * args.a_column, args.a_row, args.a_column, args.m, n_k, n_k, a_rows, kRowStride);
    for (std::int64_t j = 0; j < args.n; j += kProductTileColumns) {
      const int n_columns =
          static_cast<int>(args.n - j < kProductTileColumns ? args.n - j : kProductTileColumns);
      const float* b = args.b + k * args.b_row + j * args.b_column;
      std::int64_t b_stride = args.b_row;
      // One tile of rows reads b once: there is nothing to gain from a copy.
      if (args.b_column != 1 || n_columns < kProductTileColumns || args.m > kProductTileRows) {
        copy_block(b, args.b_row, args.b_column, n_k, n_columns, kProductTileColumns, panel,
                   kProductTileColumns);
        b = panel;
        b_stride = kProductTileColumns;
      }
      float* const out = args.out + j;
      std::int64_t i = 0;
      const auto tiles = [&]<int n_rows>() {
        for (; i + n_rows <= args.m; i += n_rows)
          product_tile<n_rows>(a_rows + i * kRowStride, b, b_stride, n_k, out + i * args.out_stride,
                               args.out_stride, n_columns, k == 0);
      };
      tiles.template operator()<kProductTileRows>();
      tiles.template operator()<4>();
      tiles.template operator()<2>();
      tiles.template operator()<1>();
    }
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA
