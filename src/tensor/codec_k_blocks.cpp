// Types with blocks of 256 elements, whose sub-blocks have small integer scales of their own.
//
// Unpacking follows the layouts of codec_blocks.h. Packing first fits each sub-block alone (codec_fit.h) and
// rounds the fitted scales to values that the block can store. It then chooses the codes for the stored
// scales.
#include <algorithm>
#include <array>
#include <cstddef>

#include "tensor/codec_blocks.h"
#include "tensor/codec_bytes.h"
#include "tensor/codec_fit.h"

namespace weft::codec {
namespace {

constexpr int kBlock = 256;
using Codes = std::array<std::uint8_t, kBlock>;

// Codes of `bits` bits are stored in chunks of `n` bytes. The lowest bits of a chunk hold the codes of n
// elements, the bits above them the codes of the next n elements, and so on.
struct Place {
  int byte;
  int shift;
};
Place place(int bits, int n, int i) {
  const int per_byte = 8 / bits;
  return {i / (n * per_byte) * n + i % n, i / n % per_byte * bits};
}

// The codes of elements from `first` on, up to the next multiple of n.
class Run {
 public:
  Run(const std::uint8_t* bytes, int bits, int n, int first)
      : bytes_(bytes + place(bits, n, first).byte),
        shift_(place(bits, n, first).shift),
        mask_((1 << bits) - 1) {}
  int operator[](int i) const { return bytes_[i] >> shift_ & mask_; }

 private:
  const std::uint8_t* bytes_;
  int shift_;
  int mask_;
};

// Stores `bits` bits of each code, from bit `from` on.
template <int kBits, int kN>
void store_codes(const Codes& codes, int from, std::uint8_t* bytes) {
  constexpr int kPerByte = 8 / kBits;
  for (int chunk = 0; chunk < kBlock / (kN * kPerByte); ++chunk)
    for (int j = 0; j < kN; ++j) {
      int byte = 0;
      for (int k = 0; k < kPerByte; ++k) {
        const int code = codes[static_cast<std::size_t>((chunk * kPerByte + k) * kN + j)];
        byte |= (code >> from & ((1 << kBits) - 1)) << k * kBits;
      }
      bytes[chunk * kN + j] = static_cast<std::uint8_t>(byte);
    }
}

// q4_K and q5_K: 8 scales and 8 minima of 6 bits in 12 bytes. The first four scales and minima have one byte
// each, in bytes 0 to 7. The upper two bits of these bytes belong to the last four, whose lower four bits are
// in bytes 8 to 11.
int load_scale6(const std::uint8_t* bytes, int i) {
  return i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | (bytes[i - 4] >> 6) << 4;
}
int load_min6(const std::uint8_t* bytes, int i) {
  return i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | (bytes[i] >> 6) << 4;
}
void store_scales_mins6(const std::array<int, 8>& scales, const std::array<int, 8>& mins,
                        std::uint8_t* bytes) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::uint8_t>(scales[i] | (scales[i + 4] >> 4) << 6);
    bytes[i + 4] = static_cast<std::uint8_t>(mins[i] | (mins[i + 4] >> 4) << 6);
    bytes[i + 8] = static_cast<std::uint8_t>((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4);
  }
}

// q3_K: 16 scales of 6 bits, stored + 32, as 8 bytes of lower four bits and 4 bytes of upper two.
int load_scale_q3(const std::uint8_t* bytes, int i) {
  return (Run(bytes, 4, 8, i)[0] | Run(bytes + 8, 2, 4, i)[0] << 4) - 32;
}

// iq4_xs: 8 scales of 6 bits, stored + 32: upper bits in 2 bytes, then lower bits in 4.
int load_scale_iq4(const std::uint8_t* bytes, int i) {
  return ((bytes[2 + i / 2] >> i % 2 * 4 & 15) | (bytes[i / 4] >> i % 4 * 2 & 3) << 4) - 32;
}

// Range of stored integers that are tried around the fitted value.
constexpr int kAround = 1;

// Fits x = scale * q - min in each of N sub-blocks and rounds scales and minima to integers up to
// `top_scale`.
template <std::size_t N>
struct AffineScales {
  std::array<int, N> scales{};
  std::array<int, N> mins{};
  float d;
  float dmin;

  AffineScales(const float* values, const float* weights, int top_code, int top_scale, std::uint8_t* d_bytes,
               std::uint8_t* dmin_bytes) {
    const SubBlocks subs(values, weights, N);
    const ScaleMins fits = fit_scale_mins(subs, top_code);
    const auto greatest = [](const PerSub& x) {
      return std::max(*std::max_element(x.begin(), x.end()), 0.0f);
    };
    d = store_f16(greatest(fits.scales) / static_cast<float>(top_scale), d_bytes);
    dmin = store_f16(greatest(fits.mins) / static_cast<float>(top_scale), dmin_bytes);
    const float to_scale = inverse(d);
    const float to_min = inverse(dmin);
    std::array<float, N> least;
    least.fill(INFINITY);
    for (int i = -kAround; i <= kAround; ++i)
      for (int j = -kAround; j <= kAround; ++j) {
        std::array<int, N> tried_scales, tried_mins;
        ScaleMins tried{};
        for (std::size_t at = 0; at < tried.scales.size(); ++at) {
          const std::size_t s = at * N / tried.scales.size();
          tried_scales[s] = std::clamp(nearest(fits.scales[at] * to_scale, 0, top_scale) + i, 0, top_scale);
          tried_mins[s] = std::clamp(nearest(fits.mins[at] * to_min, 0, top_scale) + j, 0, top_scale);
          tried.scales[at] = d * static_cast<float>(tried_scales[s]);
          tried.mins[at] = dmin * static_cast<float>(tried_mins[s]);
        }
        const PerSub errors = errors_of_scale_mins(subs, tried, top_code);
        for (std::size_t s = 0; s < N; ++s)
          if (const float error = errors[s * errors.size() / N]; error < least[s]) {
            least[s] = error;
            scales[s] = tried_scales[s];
            mins[s] = tried_mins[s];
          }
      }
  }

  Codes codes(const float* values, int top_code) const {
    constexpr std::size_t kSub = kBlock / N;
    Codes result;
    for (std::size_t s = 0; s < N; ++s) {
      const ScaleMin stored{d * static_cast<float>(scales[s]), dmin * static_cast<float>(mins[s])};
      nearest_codes({values + s * kSub, kSub}, stored, 0, top_code, result.data() + s * kSub);
    }
    return result;
  }
};

// Rounds scales to integers from `low` to -low - 1 times d, with the farthest at `low`. `errors_of` returns
// the error of each sub-block for given scales. Returns d.
template <std::size_t N, class ErrorsOf>
float round_scales(const PerSub& fits, int low, std::uint8_t* d_bytes, std::array<int, N>& scales,
                   ErrorsOf errors_of) {
  float farthest = 0.0f;
  for (const float scale : fits)
    if (std::fabs(scale) > std::fabs(farthest)) farthest = scale;
  const float d = store_f16(farthest / static_cast<float>(low), d_bytes);
  const float to_scale = inverse(d);
  std::array<float, N> least;
  least.fill(INFINITY);
  scales.fill(0);
  for (int i = -kAround; i <= kAround; ++i) {
    std::array<int, N> tried;
    PerSub tried_scales;
    for (std::size_t at = 0; at < fits.size(); ++at) {
      const std::size_t s = at * N / fits.size();
      tried[s] = std::clamp(nearest(fits[at] * to_scale, low, -low - 1) + i, low, -low - 1);
      tried_scales[at] = d * static_cast<float>(tried[s]);
    }
    const PerSub errors = errors_of(tried_scales);
    for (std::size_t s = 0; s < N; ++s)
      if (const float error = errors[s * fits.size() / N]; error < least[s]) {
        least[s] = error;
        scales[s] = tried[s];
      }
  }
  return d;
}

// Scales of 16 sub-blocks whose codes are integers from `low` to -low - 1.
float fit_symmetric(const float* values, const float* weights, int low, int low_scale, std::uint8_t* d_bytes,
                    std::array<int, 16>& scales) {
  const SubBlocks subs(values, weights, 16);
  return round_scales(fit_scales(subs, low, -low - 1), low_scale, d_bytes, scales,
                      [&](const PerSub& tried) { return errors_of_scales(subs, tried, low, -low - 1); });
}

// The codes of 16 sub-blocks: code 0 is the integer `low`.
Codes symmetric_codes(const float* values, float d, const std::array<int, 16>& scales, int low) {
  Codes codes;
  for (std::size_t s = 0; s < 16; ++s)
    nearest_codes({values + s * 16, 16}, {d * static_cast<float>(scales[s]), 0.0f}, low, -low - 1,
                  codes.data() + s * 16);
  return codes;
}

}  // namespace

void unpack_q2_k(const std::uint8_t* block, float* out) {
  const float d = load_f16(block + 80);
  const float dmin = load_f16(block + 82);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(block[s] & 15);
    const float min = dmin * static_cast<float>(block[s] >> 4);
    const Run codes(block + 16, 2, 32, s * 16);
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>(codes[i]) - min;
  }
}

void unpack_q3_k(const std::uint8_t* block, float* out) {
  const float d = load_f16(block + 108);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(load_scale_q3(block + 96, s));
    const Run low(block + 32, 2, 32, s * 16);
    const Run high(block, 1, 32, s * 16);
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>((low[i] | high[i] << 2) - 4);
  }
}

void unpack_q4_k(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  for (int s = 0; s < 8; ++s) {
    const float scale = d * static_cast<float>(load_scale6(block + 4, s));
    const float min = dmin * static_cast<float>(load_min6(block + 4, s));
    const Run codes(block + 16, 4, 32, s * 32);
    for (int i = 0; i < 32; ++i) *out++ = scale * static_cast<float>(codes[i]) - min;
  }
}

void unpack_q5_k(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  for (int s = 0; s < 8; ++s) {
    const float scale = d * static_cast<float>(load_scale6(block + 4, s));
    const float min = dmin * static_cast<float>(load_min6(block + 4, s));
    const Run low(block + 48, 4, 32, s * 32);
    const Run high(block + 16, 1, 32, s * 32);
    for (int i = 0; i < 32; ++i) *out++ = scale * static_cast<float>(low[i] | high[i] << 4) - min;
  }
}

void unpack_q6_k(const std::uint8_t* block, float* out) {
  const float d = load_f16(block + 208);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[192 + s]));
    const Run low(block, 4, 64, s * 16);
    const Run high(block + 128, 2, 32, s * 16);
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>((low[i] | high[i] << 4) - 32);
  }
}

void unpack_iq4_xs(const std::uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int half = 0; half < 16; ++half) {  // A sub-block's lower nibbles, then its upper ones.
    const float scale = d * static_cast<float>(load_scale_iq4(block + 2, half / 2));
    const Run codes(block + 8, 4, 16, half * 16);
    for (int i = 0; i < 16; ++i) *out++ = scale * static_cast<float>(kIQ4Values[codes[i]]);
  }
}

void pack_q2_k(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block, 80, std::uint8_t{0});
  const AffineScales<16> fit(values, weights, 3, 15, block + 80, block + 82);
  for (std::size_t s = 0; s < 16; ++s) block[s] = static_cast<std::uint8_t>(fit.scales[s] | fit.mins[s] << 4);
  store_codes<2, 32>(fit.codes(values, 3), 0, block + 16);
}

void pack_q3_k(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block, 108, std::uint8_t{0});
  std::array<int, 16> scales{};
  const float d = fit_symmetric(values, weights, -4, -32, block + 108, scales);
  for (std::size_t s = 0; s < 16; ++s) {
    const int stored = scales[s] + 32;
    block[96 + s % 8] = static_cast<std::uint8_t>(block[96 + s % 8] | (stored & 15) << s / 8 * 4);
    block[104 + s % 4] = static_cast<std::uint8_t>(block[104 + s % 4] | (stored >> 4) << s / 4 * 2);
  }
  const Codes codes = symmetric_codes(values, d, scales, -4);
  store_codes<2, 32>(codes, 0, block + 32);
  store_codes<1, 32>(codes, 2, block);
}

void pack_q4_k(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block + 16, 128, std::uint8_t{0});
  const AffineScales<8> fit(values, weights, 15, 63, block, block + 2);
  store_scales_mins6(fit.scales, fit.mins, block + 4);
  store_codes<4, 32>(fit.codes(values, 15), 0, block + 16);
}

void pack_q5_k(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block + 16, 160, std::uint8_t{0});
  const AffineScales<8> fit(values, weights, 31, 63, block, block + 2);
  store_scales_mins6(fit.scales, fit.mins, block + 4);
  const Codes codes = fit.codes(values, 31);
  store_codes<4, 32>(codes, 0, block + 48);
  store_codes<1, 32>(codes, 4, block + 16);
}

void pack_q6_k(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block, 192, std::uint8_t{0});
  std::array<int, 16> scales{};
  const float d = fit_symmetric(values, weights, -32, -128, block + 208, scales);
  for (std::size_t s = 0; s < 16; ++s) block[192 + s] = static_cast<std::uint8_t>(scales[s]);
  const Codes codes = symmetric_codes(values, d, scales, -32);
  store_codes<4, 64>(codes, 0, block);
  store_codes<2, 32>(codes, 4, block + 128);
}

void pack_iq4_xs(const float* values, const float* weights, std::uint8_t* block) {
  std::fill_n(block + 2, 134, std::uint8_t{0});
  const SubBlocks subs(values, weights, 8);
  std::array<int, 8> scales{};
  const float d = round_scales(fit_iq4_scales(subs), -32, block, scales,
                               [&](const PerSub& tried) { return errors_of_iq4(subs, tried); });
  for (int s = 0; s < 8; ++s) {
    const int stored = scales[static_cast<std::size_t>(s)] + 32;
    block[2 + s / 4] = static_cast<std::uint8_t>(block[2 + s / 4] | (stored >> 4) << s % 4 * 2);
    block[4 + s / 2] = static_cast<std::uint8_t>(block[4 + s / 2] | (stored & 15) << s % 2 * 4);
  }
  Codes codes;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float to_value = inverse(d * static_cast<float>(scales[i / 32]));
    codes[i] = static_cast<std::uint8_t>(nearest_iq4(values[i] * to_value));
  }
  store_codes<4, 16>(codes, 0, block + 8);
}

}  // namespace weft::codec
