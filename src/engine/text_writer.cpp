#include "engine/text_writer.h"

#include <algorithm>

#include "base/to_size.h"

namespace weft::engine {

bool StopFilter::push(std::string_view text, std::string& out, bool shown) {
  for (const char byte : text) {
    held_.push_back({byte, shown});
    const int found = matcher_.push(byte);
    if (found < 0 || !counts_) continue;
    found_ = found;
    const std::size_t n_hidden = found_ < n_shown_ ? 0 : stops_[to_size(found_)].size();
    release(held_.size() - n_hidden, out);
    held_.clear();
    return true;
  }
  release(held_.size() - matcher_.n_open(), out);
  return false;
}

bool StopFilter::has(std::string_view text) const {
  return std::ranges::any_of(stops_, [&](std::string_view stop) { return stop.find(text) != stop.npos; });
}

void StopFilter::release(std::size_t n, std::string& out) {
  const auto end = held_.begin() + static_cast<std::ptrdiff_t>(n);
  for (auto byte = held_.begin(); byte != end; ++byte)
    if (byte->shown) out += byte->value;
  held_.erase(held_.begin(), end);
}

bool TextWriter::push(Token token, std::string& out) {
  filter_.set_stops(n_to_min_ == 0);
  n_to_min_ = std::max(0, n_to_min_ - 1);
  const std::string text = tokenizer_.piece(token, true);
  if (shows(token, text)) return filter_.push(detokenizer_.push(token), out);
  return filter_.has(text) && filter_.push(text, out, false);
}

bool TextWriter::shows(Token token, std::string_view text) const {
  return !tokenizer_.is_end(token) && (special_ || tokenizer_.piece(token) == text);
}

std::string TextWriter::bytes_of(Token token) const {
  std::string text = tokenizer_.piece(token, true);
  return shows(token, text) ? text : std::string();
}

bool TextWriter::finish(std::string& out) {
  if (filter_.found() >= 0) return true;
  const bool found = filter_.push(detokenizer_.finish(), out);
  filter_.finish(out);
  return found;
}

}  // namespace weft::engine
