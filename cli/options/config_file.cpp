#include "options/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "commands/command.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;
constexpr const char* kSystemFile = "/etc/weft/config.toml";

int line_of(const toml::source_region& region) { return static_cast<int>(region.begin.line); }

// A number, string or boolean as a word of the command line; nothing for other nodes.
std::optional<std::string> word_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

ConfigEntry entry_of(const ConfigFile& file, std::string table, std::string_view key,
                     const toml::node& node) {
  ConfigEntry entry{.table = std::move(table), .key = std::string(key), .line = line_of(node.source())};
  const auto take = [&](const toml::node& value) {
    std::optional<std::string> word = word_of(value);
    if (!word || word->find('\0') != std::string::npos)
      throw UsageError(fmt::format("{}: {} must be a string, a number, or true or false{}",
                                   file.place(line_of(value.source())), key,
                                   entry.is_array ? ", and so must all values of a list" : ""));
    entry.values.push_back(std::move(*word));
  };
  if (const toml::array* const list = node.as_array()) {
    entry.is_array = true;
    for (const toml::node& value : *list) take(value);
  } else {
    take(node);
  }
  return entry;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Returns 0 or errno's value.
int read_file(const std::string& path, std::string& text) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return errno;
  text.resize(kMaxConfigBytes + 1);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return errno;
  return text.size() > kMaxConfigBytes ? EFBIG : 0;
}

std::string user_file() {
  // As the XDG specification says, a path that is not absolute does not count.
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return fmt::format("{}/weft/config.toml", config);
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fmt::format("{}/.config/weft/config.toml", home) : std::string();
}

}  // namespace

std::string ConfigFile::place(int line) const { return fmt::format("{}:{}", path, line); }

ConfigFile parse_config(const std::string& path, std::string_view text) {
  ConfigFile file{.path = path};
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}: {}", file.place(line_of(error.source())), error.description()));
  }
  for (const auto& [name, node] : root) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      file.entries.push_back(entry_of(file, "", name.str(), node));
      continue;
    }
    file.tables.push_back({std::string(name.str()), line_of(name.source())});
    for (const auto& [key, value] : *table)
      file.entries.push_back(entry_of(file, std::string(name.str()), key.str(), value));
  }
  std::stable_sort(file.entries.begin(), file.entries.end(),
                   [](const ConfigEntry& a, const ConfigEntry& b) { return a.line < b.line; });
  return file;
}

std::vector<ConfigFile> read_configs(const std::optional<std::string>& named,
                                     std::vector<std::string>& notes) {
  std::vector<ConfigFile> files;
  std::string text;
  if (named) {
    if (named->empty()) return files;
    if (const int error = read_file(*named, text); error == ENOENT) {
      throw Error(ErrorCode::kNotFound, fmt::format("there is no configuration file '{}'", *named));
    } else if (error != 0) {
      throw Error(ErrorCode::kIo,
                  fmt::format("cannot read the configuration file '{}': {}", *named, std::strerror(error)));
    }
    files.push_back(parse_config(*named, text));
    return files;
  }
  for (const std::string& path : {user_file(), std::string(kSystemFile)}) {
    if (path.empty()) continue;
    const int error = read_file(path, text);
    if (error == 0) {
      files.push_back(parse_config(path, text));
    } else if (error != ENOENT && error != ENOTDIR) {
      notes.push_back(fmt::format("{} is not used: {}", path, std::strerror(error)));
    }
  }
  return files;
}

}  // namespace weft::cli
