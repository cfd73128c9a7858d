#include "convert/folder_weights.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "base/to_size.h"
#include "convert/quantised.h"
#include "tensor/codec.h"
#include "weft/error.h"
#include "weights/safetensors.h"

namespace weft::convert_impl {

std::int64_t Source::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

namespace {

constexpr std::string_view kWhole = "model.safetensors", kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse_without_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (std::filesystem::exists(folder / name, ignored))
      throw Error(ErrorCode::kUnsupported,
                  folder.string() +
                      " has only pickled weights (pytorch_model.bin), which may run any code when they are "
                      "read; save the model with save_pretrained(..., safe_serialization=True), or take a "
                      "version with model.safetensors");
  throw Error(ErrorCode::kNotFound, folder.string() +
                                        " has no model.safetensors, no model.safetensors.index.json and no "
                                        "model-00001-of-0000N.safetensors");
}

/// The numbers in "model-00002-of-00003.safetensors"; nullopt for other names.
std::optional<std::pair<int, int>> part_numbers(const std::string& name) {
  constexpr std::string_view kFront = "model-", kMiddle = "-of-", kEnd = ".safetensors";
  constexpr std::size_t kDigits = 5;
  if (name.size() != kFront.size() + kMiddle.size() + kEnd.size() + 2 * kDigits ||
      !name.starts_with(kFront) || !name.ends_with(kEnd) ||
      name.substr(kFront.size() + kDigits, kMiddle.size()) != kMiddle)
    return std::nullopt;
  const auto number = [&](std::size_t at) {
    int value = 0;
    const auto [end, error] = std::from_chars(name.data() + at, name.data() + at + kDigits, value);
    return error == std::errc() && end == name.data() + at + kDigits ? value : -1;
  };
  return std::pair(number(kFront.size()), number(kFront.size() + kDigits + kMiddle.size()));
}

/// Parts without an index; all of them must be there.
std::vector<std::filesystem::path> parts_of(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::map<int, std::filesystem::path> parts;
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (const auto numbers = part_numbers(entry.path().filename().string())) {
      if (n != 0 && n != numbers->second)
        throw Error(ErrorCode::kInvalidFile, folder.string() + " has parts of a model in " +
                                                 std::to_string(n) + " files and of one in " +
                                                 std::to_string(numbers->second) +
                                                 " files; remove those of one model");
      n = numbers->second;
      parts[numbers->first] = entry.path();
    }
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i <= n; ++i) {
    if (!parts.contains(i))
      throw Error(ErrorCode::kNotFound, folder.string() + " lacks part " + std::to_string(i) + " of the " +
                                            std::to_string(n) + " files with weights; download it again");
    paths.push_back(parts[i]);
  }
  return paths;
}

}  // namespace

bool has_model_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == kWhole || name == kIndex || part_numbers(name)) return true;
  }
  return false;
}

FolderWeights::FolderWeights(const std::filesystem::path& folder, const Json& config) {
  add_files(folder);
  join_quantised(config, sources_);
}

void FolderWeights::add_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path whole = folder / kWhole;
  const std::filesystem::path index = folder / kIndex;
  if (std::filesystem::exists(whole, ignored)) {
    add_file(whole, "");
    return;
  }
  if (!std::filesystem::exists(index, ignored)) {
    const std::vector<std::filesystem::path> parts = parts_of(folder);
    for (const std::filesystem::path& part : parts) add_file(part, "");
    if (parts.empty()) refuse_without_weights(folder);
    return;
  }
  const Json json = read_json(index);
  const Json* const map = find(json, "weight_map");
  if (map == nullptr || !map->is_object())
    throw Error(ErrorCode::kInvalidFile, index.string() + " has no object \"weight_map\"");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      throw Error(ErrorCode::kInvalidFile, index.string() + " has no file name for '" + tensor + "'");
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) {
    // The names are untrusted: files must be in the folder itself.
    if (name.empty() || name.front() == '.' ||
        name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
      throw Error(ErrorCode::kInvalidFile, index.string() + " names the file '" + name.substr(0, 80) +
                                               "', expected a file in its own folder");
    if (!std::filesystem::exists(folder / name, ignored))
      throw Error(ErrorCode::kNotFound, index.string() + " names " + name + ", which does not exist");
    add_file(folder / name, "");
  }
  for (const auto& [tensor, file] : map->items())
    if (!sources_.contains(tensor))
      throw Error(ErrorCode::kInvalidFile, index.string() + " says that tensor '" + tensor.substr(0, 120) +
                                               "' is in " + file.get<std::string>() +
                                               ", but that file lacks it");
}

void FolderWeights::add_file(const std::filesystem::path& path, const std::string& prefix) {
  const base::MappedFile& file = files_.emplace_back(path);
  std::vector<StoredTensor> tensors;
  try {
    tensors = list_safetensors(file);
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
  // Overlapping tensors mean a damaged file. Tied weights are never stored that way.
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const std::span<const std::byte> before = tensors[i - 1].bytes;
    if (before.data() + before.size() > tensors[i].bytes.data())
      throw Error(ErrorCode::kInvalidFile, path.string() + ": the tensors '" +
                                               tensors[i - 1].name.substr(0, 120) + "' and '" +
                                               tensors[i].name.substr(0, 120) + "' overlap");
  }
  for (StoredTensor& tensor : tensors) {
    Source source{.name = prefix + tensor.name,
                  .stored = std::move(tensor.type),
                  .dtype = tensor.dtype,
                  .shape = std::move(tensor.shape),
                  .bytes = tensor.bytes,
                  .read = {}};
    const std::int64_t n = source.n_elements();
    const std::size_t size = n > 0 ? source.bytes.size() / to_size(n) : 1;
    source.read = [&file, bytes = source.bytes, size](std::int64_t first, std::span<std::byte> to) {
      file.read(bytes.subspan(to_size(first) * size, to.size()), to);
    };
    if (!sources_.emplace(prefix + tensor.name, std::move(source)).second)
      throw Error(ErrorCode::kInvalidFile, "tensor '" + tensor.name.substr(0, 120) + "' occurs twice");
  }
}

}  // namespace weft::convert_impl
