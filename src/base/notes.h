#pragma once
// Notes on oddities of a file: a sentence each, for users. A hostile file has as many oddities as it has
// entries, so their number is bounded.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace weft::base {

inline constexpr std::size_t kMaxNotes = 64;

/// Appends a note. After kMaxNotes a last one says that more were left out.
inline void add_note(std::vector<std::string>& notes, std::string note) {
  if (notes.size() < kMaxNotes)
    notes.push_back(std::move(note));
  else if (notes.size() == kMaxNotes)
    notes.emplace_back("there are more such notes, which are left out");
}

}  // namespace weft::base
