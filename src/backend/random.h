#pragma once
// ops::Random, the same on every device. It uses integers, and additions, multiplications, divisions and
// square roots of doubles, which IEEE 754 defines exactly. The functions' series are cut where a term no
// longer shows in a double.
#include <array>
#include <cmath>
#include <cstdint>

namespace weft {

using PhiloxWords = std::array<std::uint32_t, 4>;

/// Philox4x32-10 (Salmon et al., SC11, section 4.3).
inline PhiloxWords philox(PhiloxWords x, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0], b = std::uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<std::uint32_t>(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

/// The words of elements 4 * block to 4 * block + 3.
inline PhiloxWords random_words(std::uint64_t seed, std::int32_t counter, std::uint64_t block) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(counter), 0},
                static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

inline float uniform_of(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Two numbers of a normal distribution.
inline std::array<float, 2> normals_of(std::uint32_t u, std::uint32_t v) {
  // log(x) for x = (u + 1) / 2^32 = m 2^e, m in [1/sqrt 2, sqrt 2): e log 2 + 2 artanh((m - 1) / (m + 1)).
  const std::uint64_t whole = std::uint64_t{u} + 1;
  int exponent = 63 - __builtin_clzll(whole);
  double m = static_cast<double>(whole) / static_cast<double>(std::uint64_t{1} << exponent);
  exponent -= 32;
  if (m >= 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  static constexpr double kOdd[] = {1.0,        1.0 / 3.0,  1.0 / 5.0,  1.0 / 7.0,  1.0 / 9.0,  1.0 / 11.0,
                                    1.0 / 13.0, 1.0 / 15.0, 1.0 / 17.0, 1.0 / 19.0, 1.0 / 21.0, 1.0 / 23.0};
  double series = kOdd[11];
  for (int i = 10; i >= 0; --i) series = series * s2 + kOdd[i];
  const double log = exponent * 0x1.62e42fefa39efp-1 + 2.0 * s * series;
  const double radius = std::sqrt(-2.0 * log);
  // The angle within an eighth of a turn of a quarter.
  const std::uint32_t quarter = (v + 0x20000000u) >> 30;
  const auto rest = static_cast<std::int32_t>(v - (quarter << 30));
  const double angle = rest * 0x1.921fb54442d18p-30, a2 = angle * angle;
  // 1 / ((n - 1) n) for n = 2, 3, 4 ...: each term of a series, by the one before.
  static constexpr double kNext[] = {
      1.0 / 2.0,  1.0 / 6.0,   1.0 / 12.0,  1.0 / 20.0,  1.0 / 30.0,  1.0 / 42.0,  1.0 / 56.0,  1.0 / 72.0,
      1.0 / 90.0, 1.0 / 110.0, 1.0 / 132.0, 1.0 / 156.0, 1.0 / 182.0, 1.0 / 210.0, 1.0 / 240.0, 1.0 / 272.0};
  double sine = 1.0, cosine = 1.0;
  for (int i = 14; i >= 0; i -= 2) {
    cosine = 1.0 - cosine * (a2 * kNext[i]);
    sine = 1.0 - sine * (a2 * kNext[i + 1]);
  }
  sine *= angle;
  const double c[] = {cosine, -sine, -cosine, sine}, sn[] = {sine, cosine, -sine, -cosine};
  return {static_cast<float>(radius * c[quarter & 3]), static_cast<float>(radius * sn[quarter & 3])};
}

}  // namespace weft
