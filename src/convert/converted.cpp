// Hugging Face folders as models: they are converted on first use.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder.h"
#include "base/hash.h"
#include "convert/version.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft {
namespace {

void add_files(const std::filesystem::path& folder, bool with_folders, std::string& text) {
  std::vector<std::string> names = base::names_in(folder).value_or(std::vector<std::string>());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::error_code error;
    const std::filesystem::path file = folder / name;
    if (with_folders && std::filesystem::is_directory(file, error)) {
      text += name + "/\n";
      add_files(file, false, text);
    }
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const auto size = std::filesystem::file_size(file, error);
    const auto time = std::filesystem::last_write_time(file, error).time_since_epoch().count();
    text += name + "\n" + std::to_string(size) + " " + std::to_string(time) + "\n";
  }
}

std::string hex(std::uint64_t number) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4)
    *digit = std::string_view("0123456789abcdef")[number & 15];
  return text;
}

/// Changes with the folder's place, and with the name, size or time of any file in it or in a folder there,
/// as sentence-transformers has them.
Hash128 identity(const std::filesystem::path& folder) {
  std::string text = std::to_string(convert_impl::kConverterVersion) + " " + folder.string() + "\n";
  add_files(folder, true, text);
  base::Hasher hasher;
  hasher.add(std::as_bytes(std::span(text)));
  return hasher.result();
}

}  // namespace

ConvertedModel converted(const std::filesystem::path& folder, const std::filesystem::path& cache,
                         const std::function<bool(double)>& progress) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  if (error) throw Error(ErrorCode::kIo, folder.string() + ": " + error.message());
  const Hash128 hash = identity(whole);
  const std::filesystem::path file =
      cache / (whole.filename().string() + "-" + hex(hash.high) + hex(hash.low) + ".gguf");
  if (std::filesystem::exists(file, error)) return {.file = file};
  std::filesystem::create_directories(cache, error);
  if (error) throw Error(ErrorCode::kIo, cache.string() + ": " + error.message());
  return {.file = file, .made = convert(whole, file, {.progress = progress})};
}

}  // namespace weft
