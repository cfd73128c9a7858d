#pragma once
// The lines of a file, with bounded memory.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/open_file.h"

namespace weft::server {

class LineReader {
 public:
  /// The file must outlive it. `most`: bytes of a line that is read as a whole.
  LineReader(const base::OpenFile& file, std::size_t most) : file_(file), most_(most) {}

  struct Line {
    std::size_t offset = 0;      ///< In the file.
    std::size_t size = 0;        ///< Without the line break.
    std::string_view text = {};  ///< Until the next call. Empty if the line is too long.
    bool too_long = false;
    bool ended = false;  ///< By a line break, not by the end of the file.
  };
  /// Nullopt at the end of the file. Throws Error kIo.
  std::optional<Line> next();

 private:
  bool fill();

  const base::OpenFile& file_;
  const std::size_t most_;
  std::string held_;
  std::size_t begin_ = 0;   ///< Of the next line in held_.
  std::size_t offset_ = 0;  ///< Of held_ in the file.
};

}  // namespace weft::server
