#include "gguf/split.h"

#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

#include "base/foreign_file.h"
#include "base/to_size.h"
#include "gguf/limits.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& problem) {
  throw Error(ErrorCode::kInvalidFile, path.string() + ": " + problem);
}

// An integer of a part's metadata.
std::optional<std::int64_t> find_int(const Part& part, std::string_view key,
                                     const std::filesystem::path& path) {
  for (const File::Entry& entry : part.metadata) {
    if (entry.key != key) continue;
    if (const auto value = to_int(entry.value)) return value;
    refuse(path, "metadata key " + in_quotes(key) + ": expected an integer");
  }
  return std::nullopt;
}

std::int64_t require_int(const Part& part, std::string_view key, const std::filesystem::path& path) {
  const auto value = find_int(part, key, path);
  if (!value) refuse(path, "metadata key " + in_quotes(key) + " is missing in this part of a split set");
  return *value;
}

}  // namespace

std::string split_file_name(const std::string& prefix, std::int64_t number, std::int64_t count) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), "-%05lld-of-%05lld.gguf", static_cast<long long>(number + 1),
                static_cast<long long>(count));
  return prefix + suffix;
}

SplitSet open_split_set(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorCode::kInvalidFile,
                path.string() + ": not a GGUF file: it is " + base::folder_text(path));
  base::MappedFile file(path);
  Part part = read_part(file, path.string());
  SplitSet set;
  const std::int64_t count = find_int(part, kSplitCountKey, path).value_or(1);
  if (count <= 1) {
    set.files.push_back(std::move(file));
    set.parts.push_back(std::move(part));
    return set;
  }

  constexpr std::int64_t kMaxParts = 99999;  // What five digits can say.
  if (count > kMaxParts)
    refuse(path, "metadata key " + in_quotes(kSplitCountKey) + ": found " + std::to_string(count) +
                     ", expected at most " + std::to_string(kMaxParts));
  const std::int64_t given = require_int(part, kSplitNumberKey, path);
  if (given < 0 || given >= count)
    refuse(path, "metadata key " + in_quotes(kSplitNumberKey) + ": found " + std::to_string(given) +
                     ", expected 0 to " + std::to_string(count - 1));
  const std::int64_t n_tensors = require_int(part, kSplitTensorsKey, path);

  const std::string name = path.filename().string();
  const std::string suffix = split_file_name("", given, count);
  if (!name.ends_with(suffix))
    refuse(path, "this is part " + std::to_string(given + 1) + " of " + std::to_string(count) +
                     " files, whose names must end in " + suffix + " for the others to be found");
  const std::string prefix = name.substr(0, name.size() - suffix.size());

  std::size_t n_found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::filesystem::path part_path = path.parent_path() / split_file_name(prefix, i, count);
    if (i == given) {
      set.files.push_back(std::move(file));
      set.parts.push_back(std::move(part));
    } else {
      try {
        set.files.emplace_back(part_path);
      } catch (const Error& error) {
        throw Error(error.code(),
                    "part " + std::to_string(i + 1) + " of " + std::to_string(count) + ": " + error.what());
      }
      Part& other = set.parts.emplace_back(read_part(set.files.back(), part_path.string()));
      const std::pair<const char*, std::int64_t> expected[] = {
          {kSplitNumberKey, i}, {kSplitCountKey, count}, {kSplitTensorsKey, n_tensors}};
      for (const auto& [key, value] : expected)
        if (const std::int64_t found = require_int(other, key, part_path); found != value)
          refuse(part_path, "metadata key " + in_quotes(key) + ": found " + std::to_string(found) +
                                ", expected " + std::to_string(value) + "; the parts do not belong together");
    }
    n_found += set.parts.back().tensors.size();
  }
  if (n_tensors < 0 || n_found != to_size(n_tensors))
    refuse(path, "the parts hold " + std::to_string(n_found) + " tensors, but metadata key " +
                     in_quotes(kSplitTensorsKey) + " says " + std::to_string(n_tensors));
  return set;
}

}  // namespace weft::gguf
