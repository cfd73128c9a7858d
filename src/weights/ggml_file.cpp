#include "weights/ggml_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;  // Bytes that are read at a time.
constexpr std::int32_t kMaxTokens = 1 << 20;
constexpr std::int32_t kMaxTokenBytes = 256;
constexpr std::int32_t kMaxNameBytes = 256;
constexpr std::int32_t kMaxGgmlRank = 4;
constexpr std::size_t kMaxTensors = 1 << 16;
constexpr std::int32_t kMaxMels = 1024, kMaxBins = 1 << 16;
/// Files with quantized tensors have 1000 times the version of these in their type.
constexpr std::int32_t kVersionFactor = 1000;

/// Version 2 has today's blocks. Version 1 had other scales in most types.
bool is_current(DType type, std::int32_t version) {
  return version == 2 || (version == 1 && (type == DType::kQ5_0 || type == DType::kQ5_1));
}

[[noreturn]] void refuse_ggml(const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "ggml file: " + reason);
}

/// Reads a mapped file from its beginning, in blocks.
class GgmlReader {
 public:
  explicit GgmlReader(const base::MappedFile& mapped) : mapped_(mapped) {}

  std::size_t left() const { return mapped_.bytes().size() - at_; }
  void read(std::span<std::byte> to, const char* what) {
    if (to.size() > left()) refuse_ggml(std::string("it ends within ") + what);
    while (!to.empty()) {
      if (at_ < begin_ || at_ >= begin_ + block_.size()) load();
      const std::size_t n = std::min(to.size(), begin_ + block_.size() - at_);
      std::memcpy(to.data(), block_.data() + (at_ - begin_), n);
      at_ += n;
      to = to.subspan(n);
    }
  }
  std::int32_t number(const char* what) {
    std::int32_t value = 0;
    read(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }
  /// A number from `least` to `most`.
  std::int32_t number(const char* what, std::int32_t least, std::int32_t most) {
    const std::int32_t value = number(what);
    if (value < least || value > most)
      refuse_ggml(std::string(what) + " is " + std::to_string(value) + ", expected " + std::to_string(least) +
                  " to " + std::to_string(most));
    return value;
  }
  std::string bytes(std::int32_t n, const char* what) {
    std::string text(to_size(n), '\0');
    read(std::as_writable_bytes(std::span(text)), what);
    return text;
  }
  /// Bytes that are not read now.
  std::span<const std::byte> skip(std::size_t n, const std::string& what) {
    if (n > left())
      refuse_ggml(what + " has " + std::to_string(n) + " bytes, but the file has only " +
                  std::to_string(left()) + " more");
    at_ += n;
    return mapped_.bytes().subspan(at_ - n, n);
  }

 private:
  void load() {
    begin_ = at_;
    block_.resize(std::min(kReadBytes, left()));
    mapped_.read(mapped_.bytes().subspan(begin_, block_.size()), block_);
  }

  const base::MappedFile& mapped_;
  std::size_t at_ = 0, begin_ = 0;  // Offsets of the next byte and of the block.
  std::vector<std::byte> block_;
};

/// The type of a tensor, by its id.
DType type_of(std::int32_t id, const GgmlFile& file, const std::string& what) {
  const auto type = id < 0 ? std::nullopt : dtype_from_id(static_cast<std::uint32_t>(id));
  if (!type)
    throw Error(ErrorCode::kUnsupported,
                "ggml file: " + what + " has the unknown type " + std::to_string(id));
  if (info(*type).block_elements > 1 && !is_current(*type, file.file_type / kVersionFactor))
    throw Error(ErrorCode::kUnsupported,
                "ggml file: its quantized tensors have a layout from before version 2; quantize "
                "the model again with a current whisper.cpp");
  return *type;
}

WeightFile::Tensor read_tensor(GgmlReader& reader, const GgmlFile& file) {
  const std::int32_t rank = reader.number("a tensor's number of dimensions", 1, kMaxGgmlRank);
  const std::int32_t n_name = reader.number("the length of a tensor's name", 1, kMaxNameBytes);
  const std::int32_t type = reader.number("a tensor's type");
  WeightFile::Tensor tensor;
  std::int64_t n = 1;
  for (std::int32_t i = 0; i < rank; ++i) {  // The innermost first.
    const std::int32_t size = reader.number("a tensor's size", 1, 1 << 30);
    tensor.shape.insert(tensor.shape.begin(), size);
    if (__builtin_mul_overflow(n, std::int64_t{size}, &n) || n > std::int64_t{1} << 48)
      refuse_ggml("a tensor has a shape that no memory has");
  }
  tensor.name = reader.bytes(n_name, "a tensor's name");
  const std::string what = "tensor '" + tensor.name.substr(0, 120) + "'";
  tensor.dtype = type_of(type, file, what);
  if (tensor.shape.back() % info(tensor.dtype).block_elements != 0)
    refuse_ggml(what + " has rows that are not whole blocks of its type");
  tensor.bytes =
      reader.skip(to_size(n / tensor.shape.back()) * row_bytes(tensor.dtype, tensor.shape.back()), what);
  return tensor;
}

}  // namespace

GgmlFile read_ggml(const base::MappedFile& mapped) {
  GgmlReader reader(mapped);
  if (static_cast<std::uint32_t>(reader.number("its magic")) != kGgmlMagic)
    refuse_ggml("it has another magic");
  constexpr std::int32_t kMost = 1 << 24;
  GgmlFile file;
  const std::pair<const char*, std::int32_t*> sizes[] = {{"n_vocab", &file.n_vocab},
                                                         {"n_audio_ctx", &file.n_audio_ctx},
                                                         {"n_audio_state", &file.n_audio_state},
                                                         {"n_audio_head", &file.n_audio_head},
                                                         {"n_audio_layer", &file.n_audio_layer},
                                                         {"n_text_ctx", &file.n_text_ctx},
                                                         {"n_text_state", &file.n_text_state},
                                                         {"n_text_head", &file.n_text_head},
                                                         {"n_text_layer", &file.n_text_layer},
                                                         {"n_mels", &file.n_mels}};
  for (const auto& [name, size] : sizes) *size = reader.number(name, 1, kMost);
  file.file_type = reader.number("the type of the file", 0, kMost);
  const std::int64_t n_mels = reader.number("the number of mel filters", 1, kMaxMels);
  const std::int64_t n_bins = reader.number("the number of frequencies", 1, kMaxBins);
  reader.skip(to_size(n_mels * n_bins) * sizeof(float),
              "the list of mel filters");  // They follow from their number.
  const std::int32_t n_tokens = reader.number("the number of tokens", 1, kMaxTokens);
  for (std::int32_t i = 0; i < n_tokens; ++i)
    file.tokens.push_back(reader.bytes(reader.number("the length of a token", 0, kMaxTokenBytes), "a token"));
  while (reader.left() > 0) {
    if (file.tensors.size() == kMaxTensors) refuse_ggml("it has too many tensors");
    file.tensors.push_back(read_tensor(reader, file));
  }
  return file;
}

}  // namespace weft
