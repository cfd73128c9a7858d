#pragma once
// Windows of images: convolutions, and strided rows. Needs rows.inl, elementwise.inl and WEFT_CPU_ISA.
//
// A result is one chain of multiply-adds over the taps, in order, so its bits do not show which block or
// tile it was made in. If there are many channels, they are the lanes. A tile of pixels times two vectors of
// channels stays in registers. Weights stream in as packed, and pixels are broadcast from their places for
// any window: nothing is copied for each tap. Results are turned before they are stored. Where a group has
// few channels, or rows are about whole vectors, pixels are the lanes.
#include "backend/cpu/kernels/elementwise.inl"
#include "backend/cpu/kernels/rows.inl"

namespace weft::cpu::WEFT_CPU_ISA {

inline constexpr int kWindowLanes = 2 * kLanes;
/// Pixels of a tile, with registers left for two vectors of weights and one pixel.
inline constexpr int kTilePixels = kRegisters == 32 ? 12 : 6;

using FourFloats = float __attribute__((vector_size(16)));
static inline FourFloats load_four(const float* p) {
  FourFloats r;
  __builtin_memcpy(&r, p, sizeof(r));
  return r;
}
static inline void store_four(float* p, FourFloats a) { __builtin_memcpy(p, &a, sizeof(a)); }

/// Stores a tile [pixel][kWindowLanes] as rows of channels.
template <int n_pixels>
static inline void store_turned(const float* tile, const WindowArgs& args, float* out) {
  int lane = args.first_lane;
  if constexpr (n_pixels >= 4) {
    for (; lane + 4 <= args.end_lane; lane += 4) {
      // The last four overlap the ones before if the number of pixels is not a multiple of four.
#pragma GCC unroll 3
      for (int block = 0; block < (n_pixels + 3) / 4; ++block) {
        const int pixel = 4 * block + 4 <= n_pixels ? 4 * block : n_pixels - 4;
        const float* const from = tile + pixel * kWindowLanes + lane;
        const FourFloats a = load_four(from), b = load_four(from + kWindowLanes);
        const FourFloats c = load_four(from + 2 * kWindowLanes), d = load_four(from + 3 * kWindowLanes);
        const FourFloats ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                         cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        const FourFloats ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const FourFloats cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        float* const to = out + lane * args.out_channel + pixel;
        store_four(to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
        store_four(to + args.out_channel, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
        store_four(to + 2 * args.out_channel, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
        store_four(to + 3 * args.out_channel, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
      }
    }
  }
  for (; lane < args.end_lane; ++lane)
    for (int pixel = 0; pixel < n_pixels; ++pixel)
      out[lane * args.out_channel + pixel] = tile[pixel * kWindowLanes + lane];
}

template <int n_pixels, int n_vectors>
static void window_tile(const WindowArgs& args, const float* x, float* out) {
  F32 sums[n_pixels][n_vectors];
#pragma GCC unroll 12
  for (int p = 0; p < n_pixels; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; ++v) sums[p][v] = load(args.bias + v * kLanes);
  const float* w[n_vectors];
  for (int v = 0; v < n_vectors; ++v) w[v] = args.weights[v];
  const std::int64_t n_taps = args.n_taps;
  const std::int64_t* const taps = args.taps;
  for (std::int64_t k = 0; k < n_taps; ++k) {
    const float* const pixels = x + taps[k];
    F32 weights[n_vectors];
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; ++v) weights[v] = load(w[v] + k * kPanelRows);
#pragma GCC unroll 12
    for (int p = 0; p < n_pixels; ++p) {
      const F32 pixel = broadcast(pixels[p]);
#pragma GCC unroll 2
      for (int v = 0; v < n_vectors; ++v) sums[p][v] = fma(pixel, weights[v], sums[p][v]);
    }
  }
  float tile[n_pixels * kWindowLanes];
#pragma GCC unroll 12
  for (int p = 0; p < n_pixels; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < n_vectors; ++v) store(tile + p * kWindowLanes + v * kLanes, sums[p][v]);
  store_turned<n_pixels>(tile, args, out);
}

using WindowTile = void (*)(const WindowArgs& args, const float* x, float* out);
template <int n_vectors>
static WindowTile tile_of(std::int64_t n_pixels) {
  switch (n_pixels) {
    case 1:
      return window_tile<1, n_vectors>;
    case 2:
      return window_tile<2, n_vectors>;
    case 3:
      return window_tile<3, n_vectors>;
    case 4:
      return window_tile<4, n_vectors>;
    case 5:
      return window_tile<5, n_vectors>;
    case 6:
      return window_tile<6, n_vectors>;
    default:
      break;
  }
  if constexpr (kTilePixels == 12) {
    switch (n_pixels) {
      case 7:
        return window_tile<7, n_vectors>;
      case 8:
        return window_tile<8, n_vectors>;
      case 9:
        return window_tile<9, n_vectors>;
      case 10:
        return window_tile<10, n_vectors>;
      case 11:
        return window_tile<11, n_vectors>;
      default:
        break;
    }
  }
  return window_tile<kTilePixels, n_vectors>;
}

static void convolve(const WindowArgs& args) {
  // Tiles of equal width, or one pixel less: a few lonely pixels would leave the units idle.
  const std::int64_t n_tiles = (args.n_columns + kTilePixels - 1) / kTilePixels;
  if (n_tiles == 0) return;
  const std::int64_t width = args.n_columns / n_tiles, n_wider = args.n_columns % n_tiles;
  const bool two = args.end_lane > kLanes;
  const WindowTile narrow = two ? tile_of<2>(width) : tile_of<1>(width);
  const WindowTile wide = two ? tile_of<2>(width + 1) : tile_of<1>(width + 1);
  for (std::int64_t row = 0; row < args.n_rows; ++row) {
    std::int64_t column = 0;
    for (std::int64_t i = 0; i < n_tiles; ++i) {
      const WindowTile tile = i < n_wider ? wide : narrow;
      tile(args, args.x + row * args.x_row + column, args.out + row * args.out_row + column);
      column += i < n_wider ? width + 1 : width;
    }
  }
}

/// Vectors of pixels that stay in registers for each of four channels.
inline constexpr int kTileVectors = kRegisters == 32 ? 4 : 2;

/// `n_columns` end in the last vector.
template <int n_channels, int n_vectors>
static inline void pixel_tile(const WindowArgs& args, const float* x, float* out, std::int64_t n_columns) {
  F32 sums[n_channels][n_vectors];
#pragma GCC unroll 4
  for (int c = 0; c < n_channels; ++c)
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; ++v) sums[c][v] = broadcast(args.bias[c]);
  for (std::int64_t k = 0; k < args.n_taps; ++k) {
    const float* const from = x + args.taps[k];
    F32 pixels[n_vectors];
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; ++v) pixels[v] = load(from + v * kLanes);
#pragma GCC unroll 4
    for (int c = 0; c < n_channels; ++c) {
      const F32 weight = broadcast(args.weights[c][k * kPanelRows]);
#pragma GCC unroll 4
      for (int v = 0; v < n_vectors; ++v) sums[c][v] = fma(pixels[v], weight, sums[c][v]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < n_channels; ++c) {
    float* const to = out + c * args.out_channel;
#pragma GCC unroll 4
    for (int v = 0; v + 1 < n_vectors; ++v) store(to + v * kLanes, sums[c][v]);
    constexpr int last = n_vectors - 1;
    store_partial(to + last * kLanes, sums[c][last], static_cast<int>(n_columns - last * kLanes));
  }
}

template <int n_channels>
static void pixel_rows(const WindowArgs& args, std::int64_t first_row) {
  for (std::int64_t row = first_row; row < args.n_rows; ++row)
    for (std::int64_t column = 0; column < args.n_columns; column += kTileVectors * kLanes) {
      const float* const x = args.x + row * args.x_row + column;
      float* const out = args.out + row * args.out_row + column;
      const std::int64_t rest = args.n_columns - column;
      if (rest <= kLanes) {
        pixel_tile<n_channels, 1>(args, x, out, rest);
      } else if (rest <= 2 * kLanes) {
        pixel_tile<n_channels, 2>(args, x, out, rest);
      } else if (rest < kTileVectors * kLanes) {
        pixel_tile<n_channels, kTileVectors == 4 ? 3 : 2>(args, x, out,
                                                          rest < 3 * kLanes ? rest : 3 * kLanes);
        if (rest > 3 * kLanes)
          pixel_tile<n_channels, 1>(args, x + 3 * kLanes, out + 3 * kLanes, rest - 3 * kLanes);
      } else {
        pixel_tile<n_channels, kTileVectors>(args, x, out, kTileVectors * kLanes);
      }
    }
}

/// Four rows of one channel and a square kernel at once, `step` rows of x apart. Each row of x is read for
/// all results that use it. Returns how many rows it has made.
template <int side, int step>
static std::int64_t rows_of_squares(const WindowArgs& args) {
  constexpr int kRows = 4, kVectors = kRegisters == 32 && side == 3 ? 2 : 1;
  const std::int64_t x_row = args.taps[side] - args.taps[0];
  std::int64_t row = 0;
  for (; row + kRows <= args.n_rows; row += kRows)
    for (std::int64_t column = 0; column < args.n_columns; column += kVectors * kLanes) {
      const float* const x = args.x + row * args.x_row + column;
      F32 sums[kRows][kVectors];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[r][v] = broadcast(args.bias[0]);
#pragma GCC unroll 13
      for (int i = 0; i < (kRows - 1) * step + side; ++i)
#pragma GCC unroll 7
        for (int j = 0; j < side; ++j) {
          const float* const from = x + i * x_row + args.taps[j];
          F32 pixels[kVectors];
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) pixels[v] = load(from + v * kLanes);
#pragma GCC unroll 4
          for (int r = 0; r < kRows; ++r) {
            if (i - r * step < 0 || i - r * step >= side) continue;
            const F32 weight = broadcast(args.weights[0][((i - r * step) * side + j) * kPanelRows]);
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(pixels[v], weight, sums[r][v]);
          }
        }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const std::int64_t rest = args.n_columns - column - v * kLanes;
          float* const to = args.out + (row + r) * args.out_row + column + v * kLanes;
          if (rest >= kLanes) {
            store(to, sums[r][v]);
          } else if (rest > 0) {
            store_partial(to, sums[r][v], static_cast<int>(rest));
          }
        }
    }
  return row;
}
template <int side>
static std::int64_t square_rows(const WindowArgs& args) {
  const std::int64_t x_row = args.taps[side] - args.taps[0];
  if (args.x_row == x_row) return rows_of_squares<side, 1>(args);
  return args.x_row == 2 * x_row ? rows_of_squares<side, 2>(args) : 0;
}

static void convolve_few(const WindowArgs& args) {
  std::int64_t first_row = 0;
  if (args.n_channels == 1 && args.square == 3) first_row = square_rows<3>(args);
  if (args.n_channels == 1 && args.square == 5) first_row = square_rows<5>(args);
  if (args.n_channels == 1 && args.square == 7) first_row = square_rows<7>(args);
  switch (args.n_channels) {
    case 1:
      return pixel_rows<1>(args, first_row);
    case 2:
      return pixel_rows<2>(args, 0);
    case 3:
      return pixel_rows<3>(args, 0);
    default:
      return pixel_rows<4>(args, 0);
  }
}

static void fill_row(float value, std::int64_t n, float* out) {
  for_each_vector(n, [&](std::int64_t i, auto at) { store(out + i, broadcast(value), at); });
}

static void window_rows(const WindowRows& rows) {
  // The first i inside, and the first behind.
  const auto steps_to = [&](std::int64_t place) {
    const std::int64_t i = place <= rows.left ? 0 : (place - rows.left + rows.step - 1) / rows.step;
    return i < rows.n ? i : rows.n;
  };
  const std::int64_t first = steps_to(0), end = steps_to(rows.width), inside = end - first;
  for (std::int64_t r = 0; r < rows.n_rows; ++r) {
    float* const out = rows.out + r * rows.out_row;
    const std::int64_t y = rows.top + r;
    if (y < 0 || y >= rows.height || inside <= 0) {
      fill_row(rows.outside, rows.n, out);
      continue;
    }
    fill_row(rows.outside, first, out);
    fill_row(rows.outside, rows.n - end, out + end);
    const float* const from = rows.x + y * rows.row + rows.left + first * rows.step;
    float* const to = out + first;
    if (rows.step == 1) {
      for_each_vector(inside, [&](std::int64_t i, auto at) { store(to + i, load(from + i, at), at); });
      continue;
    }
    if (rows.step == 2) {
      // Elements 0, 2, ... up to the last, which no odd one follows.
      const std::int64_t n = 2 * inside - 1;
      for_each_vector(inside, [&](std::int64_t i, auto at) {
        const auto part = [&](std::int64_t begin) {
          return begin + kLanes <= n ? load(from + begin)
                 : begin < n         ? load_partial(from + begin, static_cast<int>(n - begin))
                                     : zero();
        };
        store(to + i, even_elements(part(2 * i), part(2 * i + kLanes)), at);
      });
      continue;
    }
    for (std::int64_t i = 0; i < inside; ++i) to[i] = from[rows.step * i];
  }
}

template <typename Take>
static inline void pool_rows(const WindowArgs& args, Take take) {
  for (std::int64_t row = 0; row < args.n_rows; ++row)
    for_each_vector(args.n_columns, [&](std::int64_t i, auto at) {
      const float* const x = args.x + row * args.x_row + i;
      F32 taken = load(x + args.taps[0]);
      for (std::int64_t k = 1; k < args.n_taps; ++k) taken = take(taken, load(x + args.taps[k]));
      store(args.out + row * args.out_row + i, taken, at);
    });
}
static void pool_windows(PoolKind kind, const WindowArgs& args) {
  if (kind == PoolKind::kMax) return pool_rows(args, [](F32 a, F32 b) { return maximum(a, b); });
  pool_rows(args, [](F32 a, F32 b) { return a + b; });
}

static void gather_row(const float* x, const std::int32_t* from, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[from[i]];
}

static void lerp_row(const float* x, const std::int32_t* from, const std::int32_t* to, const float* part,
                     std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[from[i]] * (1.0f - part[i]) + x[to[i]] * part[i];
}

static void unpack_halves(const std::uint16_t* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i + kLanes <= n; i += kLanes) store(out + i, load_f16(x + i));
}

}  // namespace weft::cpu::WEFT_CPU_ISA
