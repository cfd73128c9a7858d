#pragma once
// Limits of llama.cpp's server for editors: they end a completion before the model does.
#include <chrono>
#include <optional>
#include <string_view>

namespace weft::server {

struct LineLimits {
  int n_indent = 0;     ///< A later line with less indentation ends the completion. 0: no limit.
  double max_ms = 0.0;  ///< Time since the first piece, checked after the first line break; 0: no limit.
};

/// Reads the pieces of one completion.
class LineCut {
 public:
  /// The part of the piece that belongs to the completion.
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
