#include "terminal/graphemes.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/to_size.h"

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
  point.n_bytes = to_size(n);
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

ClusterBounds cluster_bounds(std::string_view text, std::size_t place) {
  constexpr std::size_t kReach = 1024;  // Bytes, to both sides.
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  // A cluster begins between two printable ASCII characters, and after a newline.
  const auto is_sure = [&](std::size_t i) {
    return text[i - 1] == '\n' || (byte(i - 1) - 0x20u < 0x5fu && byte(i) - 0x20u < 0x5fu);
  };
  const std::size_t least = place > kReach ? place - kReach : 0;
  std::size_t begin = place > 0 ? place - 1 : 0;
  while (begin > least && !is_sure(begin)) --begin;
  while (begin > 0 && continues(begin)) --begin;
  std::size_t end = std::min(place + kReach, text.size());
  while (continues(end)) ++end;

  const std::vector<std::size_t> starts = grapheme_starts(text.substr(begin, end - begin));
  const auto place_here = place - begin;
  const auto at = std::lower_bound(starts.begin(), starts.end(), place_here);
  const auto after = std::upper_bound(starts.begin(), starts.end(), place_here);
  return {.before = at == starts.begin() ? begin : begin + *(at - 1),
          .at = at == starts.end() ? text.size() : begin + *at,
          .after = after == starts.end() ? text.size() : begin + *after};
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
