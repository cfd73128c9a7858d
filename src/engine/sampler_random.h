#pragma once
// Random numbers for sampling: the same on every machine for the same seed. PCG32 (O'Neill 2014, XSH-RR).
#include <cstdint>

namespace weft::engine {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(0) {
    next();
    state_ += seed;
    next();
  }

  /// In [0, 1), with 53 random bits.
  double uniform() {
    const std::uint64_t high = next();
    const std::uint64_t low = next();
    return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
  }

 private:
  std::uint32_t next() {
    const std::uint64_t old = state_;
    state_ = old * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto mixed = static_cast<std::uint32_t>(((old >> 18) ^ old) >> 27);
    const auto turn = static_cast<std::uint32_t>(old >> 59);
    return mixed >> turn | mixed << ((32 - turn) & 31);
  }

  std::uint64_t state_;
};

}  // namespace weft::engine
