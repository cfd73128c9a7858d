#include "split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/to_size.h"

namespace weft::fetch {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::string_view kTail = "-00001-of-00003.gguf";
constexpr std::size_t kPart = 1, kOf = 6, kCount = 10, kDigits = 5;  // Their offsets in the tail.

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

SplitName split_of(std::string_view path) {
  if (path.size() > kTail.size()) {
    const std::string_view tail = path.substr(path.size() - kTail.size());
    const auto part = number(tail.substr(kPart, kDigits)), count = number(tail.substr(kCount, kDigits));
    if (tail.starts_with('-') && tail.substr(kOf).starts_with("-of-") && part && count && *part >= 1 &&
        *part <= *count)
      return {std::string(path.substr(0, path.size() - kTail.size())), *part - 1, *count};
  }
  path.remove_suffix(std::min(path.size(), kEnding.size()));
  return {std::string(path), 0, 1};
}

std::vector<std::string> all_parts(const std::string& path) {
  const int n_parts = split_of(path).n_parts;
  std::vector<std::string> paths(to_size(n_parts), path);
  for (int part = 0; n_parts > 1 && part < n_parts; ++part)
    paths[to_size(part)].replace(path.size() - kTail.size() + kPart, kDigits, fmt::format("{:05}", part + 1));
  return paths;
}

}  // namespace weft::fetch
