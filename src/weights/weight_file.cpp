#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_map>

#include "base/mapped_file.h"
#include "base/mapping_guard.h"
#include "base/open_file.h"
#include "gguf/gguf.h"
#include "weft/error.h"
#include "weft/weights.h"
#include "weights/ggml_file.h"
#include "weights/safetensors.h"

namespace weft {

struct WeightFile::Impl {
  explicit Impl(const std::filesystem::path& path) {
    std::array<std::byte, 4> magic{};
    constexpr std::array kGguf = {std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
    constexpr auto kGgml = std::bit_cast<std::array<std::byte, 4>>(kGgmlMagic);
    if (base::OpenFile(path).read_at(0, magic) == magic.size() && magic == kGguf) {
      gguf = gguf::File::open(path);
      for (const gguf::TensorInfo& tensor : gguf->tensors())
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
    } else {
      mapped = std::make_shared<const base::MappedFile>(path);
      try {
        tensors = magic == kGgml ? read_ggml(*mapped).tensors : read_safetensors(*mapped);
      } catch (const Error& error) {
        throw Error(error.code(), path.string() + ": " + error.what() +
                                      (magic == kGgml ? "" : " (GGUF and safetensors can be read)"));
      }
    }
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (!places.emplace(tensors[i].name, i).second)
        throw Error(ErrorCode::kInvalidFile,
                    path.string() + ": there are two tensors '" + tensors[i].name.substr(0, 120) + "'");
    for (const Tensor& tensor : tensors)
      reach.push_back({tensor.bytes.data(), tensor.bytes.data() + tensor.bytes.size()});
    std::sort(reach.begin(), reach.end(),
              [](const Reach& a, const Reach& b) { return std::less<>()(a.begin, b.begin); });
    for (std::size_t i = 1; i < reach.size(); ++i)
      reach[i].end = std::max(reach[i].end, reach[i - 1].end, std::less<>());
  }

  /// Whether a part is within one tensor.
  bool holds(std::span<const std::byte> part) const {
    const auto behind =
        std::upper_bound(reach.begin(), reach.end(), part.data(),
                         [](const std::byte* at, const Reach& one) { return std::less<>()(at, one.begin); });
    return behind != reach.begin() && !std::less<>()(std::prev(behind)->end, part.data() + part.size());
  }

  /// The begin of a tensor, and the end of it and all before it: tensors may overlap.
  struct Reach {
    const std::byte *begin, *end;
  };

  std::optional<gguf::File> gguf;
  std::shared_ptr<const base::MappedFile> mapped;  // Of safetensors and ggml files.
  std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<Reach> reach;  // By where they begin.
};

WeightFile::WeightFile(const std::filesystem::path& path) : impl_(std::make_shared<const Impl>(path)) {}

std::span<const WeightFile::Tensor> WeightFile::tensors() const { return impl_->tensors; }

const WeightFile::Tensor* WeightFile::find(std::string_view name) const {
  const auto found = impl_->places.find(name);
  return found == impl_->places.end() ? nullptr : &impl_->tensors[found->second];
}

void WeightFile::read(std::span<const std::byte> part, std::span<std::byte> to) const {
  if (!impl_->holds(part) || part.size() != to.size())
    throw Error(ErrorCode::kInvalidArgument, "these are no bytes of a tensor of the file, or not as many");
  impl_->gguf ? impl_->gguf->read(part, to) : impl_->mapped->read(part, to);
}

void WeightFile::check_unchanged() const {
  impl_->gguf ? impl_->gguf->check_unchanged() : impl_->mapped->check_unchanged();
}

std::shared_ptr<const base::MappedFile> WeightFile::file_of(std::span<const std::byte> part) const {
  return impl_->gguf ? impl_->gguf->file_of(part) : impl_->mapped;
}

void guard_mapped_files(bool guarded) { base::allow_mapping_guards(guarded); }

}  // namespace weft
