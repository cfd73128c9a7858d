#pragma once
// Random numbers that are the same on every platform: xoshiro256** (Blackman
// and Vigna 2018), seeded by splitmix64.
#include <array>
#include <bit>
#include <cstdint>

namespace weft::engine {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      std::uint64_t z = seed;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      word = z ^ z >> 31;
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// In [0, 1): 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace weft::engine
