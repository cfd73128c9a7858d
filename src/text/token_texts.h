#pragma once
// Many short strings in one block of memory, and an index that finds them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/to_size.h"
#include "weft/types.h"

namespace weft::text {

/// Strings numbered from 0, at most 4 GiB in all.
class TokenTexts {
 public:
  void add(std::string_view text);
  std::string_view operator[](Token id) const {
    const auto i = to_size(id);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
  }
  std::size_t size() const { return begins_.size() - 1; }
  std::size_t longest() const { return longest_; }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> begins_ = {0};
  std::size_t longest_ = 0;
};

/// Finds strings of a TokenTexts, which must not change any more and outlives the index. Open addressing;
/// strings of a file may be chosen to collide, so long probes change the hash's seed.
class TokenIndex {
 public:
  /// Indexes the strings at the positions `ids`. The first in `ids` counts where strings are equal.
  TokenIndex(const TokenTexts& texts, const std::vector<Token>& ids);
  Token find(std::string_view text) const;
  Token duplicate() const { return duplicate_; }  ///< An id whose string an earlier one has, or kNoToken.
  std::size_t n_duplicates() const { return n_duplicates_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    Token id = kNoToken;
  };
  bool build(const std::vector<Token>& ids);

  const TokenTexts* texts_;
  std::vector<Slot> slots_;
  std::uint64_t seed_ = 0;
  Token duplicate_ = kNoToken;
  std::size_t n_duplicates_ = 0;
};

}  // namespace weft::text
