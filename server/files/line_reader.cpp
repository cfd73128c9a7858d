#include "files/line_reader.h"

#include <algorithm>
#include <span>

namespace weft::server {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

}  // namespace

/// Reads one more block. False at the end of the file.
bool LineReader::fill() {
  const std::size_t size = held_.size();
  held_.resize(size + kBlockBytes);
  const std::size_t n = file_.read_at(offset_ + size, std::as_writable_bytes(std::span(held_).subspan(size)));
  held_.resize(size + n);
  return n > 0;
}

std::optional<LineReader::Line> LineReader::next() {
  offset_ += begin_;
  held_.erase(0, std::exchange(begin_, 0));
  Line line{.offset = offset_};
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = held_.find('\n', searched);
    if (end != held_.npos) {
      line.size += end;
      line.ended = true;
      begin_ = end + 1;
      break;
    }
    searched = held_.size();
    if (searched > most_) {  // The line is only measured.
      line.too_long = true;
      line.size += searched;
      offset_ += searched;
      held_.clear();
      searched = 0;
    }
    if (fill()) continue;
    if (held_.empty() && line.size == 0) return std::nullopt;
    line.size += held_.size();
    begin_ = held_.size();
    break;
  }
  line.too_long = line.too_long || line.size > most_;
  if (!line.too_long) line.text = std::string_view(held_).substr(0, line.size);
  return line;
}

}  // namespace weft::server
