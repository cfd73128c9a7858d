#pragma once
// XXH3 (github.com/Cyan4973/xxHash): checksums and fingerprints. Fast, and equal on every machine; made for
// accidents, not for forgers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "weft/hash.h"

namespace weft::base {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

using weft::Hash128;

/// The 128-bit hash of bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  /// The bytes of a number, or of another type without padding.
  template <typename T>
  void add_value(const T& value) {
    static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>);
    add(std::as_bytes(std::span(&value, 1)));
  }
  Hash128 result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::base
