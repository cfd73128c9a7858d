#include "graphemes.h"

#include <utf8proc.h>

#include <algorithm>

namespace weft::cli {
namespace {

constexpr utf8proc_int32_t kInvalid = -1;

struct CodePoint {
  utf8proc_int32_t value = kInvalid;
  std::size_t n_bytes = 1;
};

CodePoint first_of(std::string_view text) {
  CodePoint point;
  const utf8proc_ssize_t n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                              static_cast<utf8proc_ssize_t>(text.size()), &point.value);
  if (n <= 0) return {};
  point.n_bytes = static_cast<std::size_t>(n);
  return point;
}

}  // namespace

std::vector<std::size_t> grapheme_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  utf8proc_int32_t before = kInvalid, state = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_of(text.substr(at));
    const bool known = before != kInvalid && point.value != kInvalid;
    if (!known) state = 0;
    if (!known || utf8proc_grapheme_break_stateful(before, point.value, &state)) starts.push_back(at);
    before = point.value;
    at += point.n_bytes;
  }
  starts.push_back(text.size());
  return starts;
}

int grapheme_columns(std::string_view cluster) {
  constexpr utf8proc_int32_t kEmojiStyle = 0xfe0f;
  int columns = 0;
  for (; !cluster.empty(); cluster.remove_prefix(std::min(first_of(cluster).n_bytes, cluster.size()))) {
    const CodePoint point = first_of(cluster);
    if (point.value == kEmojiStyle) {
      columns = std::max(columns, 2);
    } else {
      columns += point.value == kInvalid ? 1 : utf8proc_charwidth(point.value);
    }
  }
  return std::max(columns, 1);
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    if (point.value != kInvalid) valid += text.substr(0, point.n_bytes);
    text.remove_prefix(point.n_bytes);
  }
  return valid;
}

}  // namespace weft::cli
