#include "serving/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "base/hash.h"
#include "options/arguments.h"
#include "options/options.h"

namespace weft::cli {
namespace {

/// The name of a key without one. It follows from the key, so that a key keeps its sessions when others come
/// and go, and does not show it.
std::string name_of(const std::string& key) {
  return fmt::format("key-{:016x}", base::hash64(std::as_bytes(std::span(key))));
}

/// "KEY" or "KEY NAME", as line `number` of the file has it.
server::ApiKey named_key(const std::string& text, const std::string& file, std::size_t number) {
  const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::size_t begin = std::min(text.find_first_not_of(" \t", end), text.size());
  server::ApiKey key{text.substr(0, end), text.substr(begin)};
  if (key.name.empty()) key.name = name_of(key.key);
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (!std::all_of(key.name.begin(), key.name.end(), fits))
    throw UsageError(fmt::format(
        "--api-key-file: '{}', line {}: the name after the key may have letters, digits, '-' and '_' only",
        file, number));
  return key;
}

}  // namespace

std::vector<server::ApiKey> read_keys(const std::vector<std::string>& given, const std::string& file) {
  std::vector<server::ApiKey> keys;
  for (const std::string& text : given) {
    for (std::size_t begin = 0; begin <= text.size();) {  // llama.cpp takes several with commas
      const std::size_t comma = std::min(text.find(',', begin), text.size());
      const std::string key = text.substr(begin, comma - begin);
      if (!key.empty()) keys.push_back({key, name_of(key)});
      begin = comma + 1;
    }
  }
  if (keys.empty() && !given.empty())
    throw UsageError("--api-key: the key is empty; leave the option out to serve without keys");
  if (file.empty()) return keys;
  const std::string text = read_text(file);
  const std::size_t before = keys.size();
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.empty() && line.front() != '#') keys.push_back(named_key(line, file, number));
    begin = end + 1;
  }
  if (keys.size() == before) throw UsageError(fmt::format("--api-key-file: '{}' has no key", file));
  return keys;
}

}  // namespace weft::cli
