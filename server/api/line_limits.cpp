#include "api/line_limits.h"

namespace weft::server {

double LineCut::ms() const {
  if (!begin_) return 0.0;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - *begin_).count();
}

std::string_view LineCut::take(std::string_view text, const LineLimits& limits) {
  if (over_) return {};
  if (!begin_) begin_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_indent_ && (text[i] == ' ' || text[i] == '\t')) {
      ++indent_;
      continue;
    }
    if (in_indent_ && indent_ < limits.n_indent) {
      over_ = true;
      return text.substr(0, i);
    }
    in_indent_ = text[i] == '\n';
    indent_ = 0;
    has_new_line_ = has_new_line_ || in_indent_;
  }
  if (limits.max_ms > 0.0 && has_new_line_ && ms() > limits.max_ms) over_ = true;
  return text;
}

}  // namespace weft::server
