#pragma once
// Where the answer of an editor's request ends before the model ends it, as llama.cpp's server cuts it.
#include <chrono>
#include <optional>
#include <string_view>

namespace weft::server {

struct LineLimits {
  int n_indent = 0;     ///< A later line that begins with less white space ends the answer. 0: none does.
  double max_ms = 0.0;  ///< Since the first piece, once there was a line break; 0: no limit.
};

/// Reads one answer's pieces.
class LineCut {
 public:
  /// The part of the piece that belongs to the answer.
  std::string_view take(std::string_view text, const LineLimits& limits);
  bool is_over() const { return over_; }
  bool has_new_line() const { return has_new_line_; }
  double ms() const;  ///< Since the first piece.

 private:
  bool over_ = false;
  bool has_new_line_ = false;
  bool in_indent_ = false;
  int indent_ = 0;
  std::optional<std::chrono::steady_clock::time_point> begin_;
};

}  // namespace weft::server
