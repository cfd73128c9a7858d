#include "quantize/source_file.h"

#include <string>
#include <vector>

#include "gguf/limits.h"
#include "gguf/split.h"
#include "weft/error.h"

namespace weft::quantize_impl {
namespace {

/// All files of what `from` is, or is a part of.
std::vector<std::filesystem::path> files_of(const gguf::File& file, const std::filesystem::path& from) {
  if (file.n_parts() == 1) return {from};
  const std::string name = from.string();
  std::vector<std::filesystem::path> files;
  for (int own = 0; own < file.n_parts() && files.empty(); ++own) {
    const std::string suffix = gguf::split_file_name("", own, file.n_parts());
    if (!name.ends_with(suffix)) continue;
    const std::string prefix = name.substr(0, name.size() - suffix.size());
    for (int i = 0; i < file.n_parts(); ++i)
      files.emplace_back(gguf::split_file_name(prefix, i, file.n_parts()));
  }
  return files;
}

}  // namespace

void refuse_overwriting(const gguf::File& file, const std::filesystem::path& from,
                        const std::filesystem::path& to) {
  std::error_code ignored;
  for (const std::filesystem::path& own : files_of(file, from))
    if (std::filesystem::equivalent(own, to, ignored))
      throw Error(ErrorCode::kInvalidArgument,
                  "the result would overwrite " + to.string() + ", the input; give it another name");
}

Written::~Written() {
  std::error_code ignored;
  if (!all)
    for (const std::filesystem::path& path : paths) std::filesystem::remove(path, ignored);
}

void copy_alignment(const gguf::File& file, gguf::Writer& writer) {
  if (const auto alignment = file.get_int(gguf::kAlignmentKey)) writer.set_alignment(*alignment);
}

void copy_metadata(const gguf::File& file, gguf::Writer& writer) {
  for (const gguf::File::Entry& entry : file.metadata())
    if (entry.key == gguf::kAlignmentKey)
      copy_alignment(file, writer);
    else if (!entry.key.starts_with("split."))
      writer.set(entry.key, entry.value);
}

}  // namespace weft::quantize_impl
