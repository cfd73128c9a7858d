#include "split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace weft::fetch {
namespace {

constexpr std::size_t kTail = std::string_view("-00001-of-00003.gguf").size();
constexpr std::size_t kDigits = 5;

bool is_number(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

SplitName split_of(const std::string& path) {
  const std::string_view tail = path.size() > kTail ? std::string_view(path).substr(path.size() - kTail) : "";
  if (!tail.empty() && tail[0] == '-' && is_number(tail.substr(1, kDigits)) && tail.substr(6, 4) == "-of-" &&
      is_number(tail.substr(10, kDigits)))
    return {path.substr(0, path.size() - kTail), std::stoi(std::string(tail.substr(1, kDigits))) - 1,
            std::stoi(std::string(tail.substr(10, kDigits)))};
  return {path.substr(0, path.size() - std::string_view(".gguf").size()), 0, 1};
}

std::vector<std::filesystem::path> split_files(const std::filesystem::path& first) {
  const SplitName split = split_of(first.string());
  std::vector<std::filesystem::path> files = {first};
  for (int part = 2; part <= split.n_parts; ++part)
    files.emplace_back(fmt::format("{}-{:05}-of-{:05}.gguf", split.stem, part, split.n_parts));
  return files;
}

}  // namespace weft::fetch
