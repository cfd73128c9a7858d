#include "weft/model_files.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "gguf/gguf.h"
#include "gguf/limits.h"
#include "gguf/split.h"
#include "gguf/writer.h"
#include "quantize/source_file.h"
#include "weft/error.h"

namespace weft {
namespace {

using namespace quantize_impl;
using gguf::TensorInfo;

/// The tensors of each part, as numbers of the first and one past the last.
std::vector<std::pair<std::size_t, std::size_t>> parts_of(const gguf::File& file, const SplitParams& params) {
  if (params.max_tensors < 0) refuse("max_tensors is " + std::to_string(params.max_tensors));
  if (params.max_tensors == 0 && params.max_bytes == 0)
    refuse("set the maximum number of tensors or bytes per part");
  const auto tensors = file.tensors();
  std::vector<std::pair<std::size_t, std::size_t>> parts;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = tensors[i].data.size();
    const bool full = parts.empty() ||
                      (params.max_tensors > 0 && i - parts.back().first >= to_size(params.max_tensors)) ||
                      (params.max_bytes > 0 && bytes + more > params.max_bytes);
    if (full) {
      parts.emplace_back(i, i);
      bytes = 0;
    }
    parts.back().second = i + 1;
    bytes += more;
  }
  if (parts.size() < 2) refuse("one part would hold all " + std::to_string(tensors.size()) + " tensors");
  constexpr std::size_t kMostParts = 65535;  // The key has 16 bits.
  if (parts.size() > kMostParts) refuse("that would be " + std::to_string(parts.size()) + " parts");
  return parts;
}

std::vector<FilePart> plan_of(const gguf::File& file, const std::filesystem::path& prefix,
                              const SplitParams& params) {
  std::vector<FilePart> plan;
  const auto parts = parts_of(file, params);
  for (const auto& [begin, end] : parts) {
    const auto name = gguf::split_file_name(prefix.string(), static_cast<std::int64_t>(plan.size()),
                                            static_cast<std::int64_t>(parts.size()));
    FilePart& part = plan.emplace_back(FilePart{name, static_cast<int>(end - begin), 0});
    for (std::size_t i = begin; i < end; ++i) part.bytes += file.tensors()[i].data.size();
  }
  return plan;
}

/// Copies tensors and reports the progress.
class Copier {
 public:
  Copier(const gguf::File& file, const std::function<bool(double)>& progress)
      : file_(file), progress_(progress) {
    for (const TensorInfo& tensor : file.tensors()) n_bytes_ += tensor.data.size();
  }

  void add(gguf::Writer& writer, const TensorInfo& tensor) {
    writer.add_tensor(tensor.name, tensor.dtype, tensor.shape, [this, &tensor](std::span<std::byte> out) {
      file_.read(tensor.data, out);
      done_ += out.size();
      if (progress_ && !progress_(static_cast<double>(done_) / static_cast<double>(n_bytes_)))
        throw Error(ErrorCode::kCancelled, "copying was cancelled");
    });
  }

 private:
  const gguf::File& file_;
  const std::function<bool(double)>& progress_;
  std::uint64_t n_bytes_ = 0, done_ = 0;
};

}  // namespace

std::vector<FilePart> plan_split(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                 const SplitParams& params) {
  return plan_of(gguf::File::open(from), prefix, params);
}

std::vector<FilePart> split_model(const std::filesystem::path& from, const std::filesystem::path& prefix,
                                  const SplitParams& params) {
  const gguf::File file = gguf::File::open(from);
  std::vector<FilePart> plan = plan_of(file, prefix, params);
  for (const FilePart& part : plan) {
    refuse_overwriting(file, from, part.path);
    if (std::filesystem::exists(part.path))
      refuse(part.path.string() + " exists already; remove it, or choose another prefix");
  }
  Copier copier(file, params.progress);
  Written written;
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    gguf::Writer writer;
    if (i == 0)
      copy_metadata(file, writer);
    else
      copy_alignment(file, writer);
    writer.set(gguf::kSplitNumberKey, static_cast<std::uint16_t>(i));
    writer.set(gguf::kSplitCountKey, static_cast<std::uint16_t>(plan.size()));
    writer.set(gguf::kSplitTensorsKey, static_cast<std::int32_t>(file.tensors().size()));
    for (int t = 0; t < plan[i].n_tensors; ++t) copier.add(writer, file.tensors()[next++]);
    writer.write_file(plan[i].path);
    written.paths.push_back(plan[i].path);
  }
  written.all = true;
  return plan;
}

void merge_model(const std::filesystem::path& from, const std::filesystem::path& to,
                 const std::function<bool(double)>& progress) {
  const gguf::File file = gguf::File::open(from);
  if (file.n_parts() == 1) refuse(from.string() + " is not a split model");
  refuse_overwriting(file, from, to);
  Copier copier(file, progress);
  gguf::Writer writer;
  copy_metadata(file, writer);
  for (const TensorInfo& tensor : file.tensors()) copier.add(writer, tensor);
  writer.write_file(to);
}

}  // namespace weft
