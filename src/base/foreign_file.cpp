#include "base/foreign_file.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>
#include <system_error>

namespace weft::base {
namespace {

using namespace std::literals;

struct Signature {
  std::string_view bytes;
  std::string_view message;
};

constexpr Signature kSignatures[] = {
    {"PK\003\004"sv, "a ZIP archive or a PyTorch checkpoint; weft reads GGUF, and converts safetensors"},
    {"\x80\x02"sv, "a PyTorch checkpoint; weft reads GGUF, and converts safetensors"},
    {"\x1f\x8b"sv, "compressed with gzip; unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd; unpack it first"},
    {"\xfd"
     "7zXZ"sv,
     "compressed with xz; unpack it first"},
    {"BZh"sv, "compressed with bzip2; unpack it first"},
    {"\x89HDF"sv, "an HDF5 file; weft reads GGUF, and converts safetensors"},
    {"tjgg"sv, "a file of llama.cpp from before GGUF; convert the original model again"},
    {"fmgg"sv, "a file of llama.cpp from before GGUF; convert the original model again"},
    {"lmgg"sv,
     "a Whisper model of whisper.cpp, which weft transcribe and weft serve read, or a file of llama.cpp from "
     "before GGUF; "
     "convert the original model again"},
    {"algg"sv, "a LoRA adapter of llama.cpp from before GGUF; convert the original adapter again"},
};

// "<!doctype html>" and so on: in lower case, without a byte order mark and white space before it.
std::string markup_of(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string lower(text.substr(0, 32));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// A length in 8 bytes, then a JSON object.
bool has_header(std::string_view begin) {
  return begin.size() > sizeof(std::uint64_t) && begin[sizeof(std::uint64_t)] == '{';
}

bool is_safetensors(std::string_view begin) {
  constexpr std::uint64_t kMostHeader = std::uint64_t{1} << 30;
  if (!has_header(begin)) return false;
  std::uint64_t n_bytes = 0;
  std::memcpy(&n_bytes, begin.data(), sizeof(n_bytes));
  return n_bytes < kMostHeader;
}

bool is_json(std::string_view markup) { return markup.starts_with('{') || markup.starts_with('['); }

}  // namespace

std::string foreign_file_text(std::span<const std::byte> begin, FileKind expected) {
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()),
                               std::min(begin.size(), kSniffedBytes));
  const std::string markup = markup_of(bytes);
  if (expected == FileKind::kSafetensors && has_header(bytes)) return "";
  if (expected == FileKind::kJson && is_json(markup)) return "";
  if (is_lfs_pointer(begin)) return std::string(kLfsPointer);
  for (const Signature& known : kSignatures)
    if (bytes.starts_with(known.bytes)) return std::string(known.message);
  if (is_safetensors(bytes))
    return "a safetensors file; 'weft convert FOLDER' converts a model's folder, and "
           "'weft convert --base MODEL FOLDER' an adapter's";
  if (markup.starts_with("<!doctype") || markup.starts_with("<html") || markup.starts_with("<head"))
    return "an HTML page; a server sent a page in place of the file: download it again, perhaps after a "
           "login";
  if (markup.starts_with("<?xml") || markup.starts_with("<error"))
    return "an XML document; a server sent a message in place of the file: download it again";
  if (is_json(markup)) return "a JSON file; name the model's file, or its folder";
  const bool all_zero = !bytes.empty() && bytes.find_first_not_of('\0') == std::string_view::npos;
  return all_zero ? "zeros at its beginning; the download is not complete" : "";
}

std::string folder_text(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(folder / name, ignored);
  };
  if (has("adapter_config.json"))
    return "a folder with a PEFT adapter; 'weft convert --base MODEL FOLDER' writes it as a GGUF file for "
           "--lora";
  if (has("config.json")) return "a model's folder; 'weft convert' writes it as a GGUF file";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".gguf")
      return "a folder; name a file in it, such as " + entry.path().string();
  return "a folder, and no GGUF file is in it";
}

}  // namespace weft::base
