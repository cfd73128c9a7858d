// The fingerprint of a model. Models with equal fingerprints can exchange K and V in saved states.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/model_impl.h"

namespace weft::engine {
namespace {

constexpr std::size_t kSamples = 8;
constexpr std::size_t kSampleBytes = 64;

void add_text(base::Hasher& hash, std::string_view text) {
  hash.add_value(text.size());
  hash.add(std::as_bytes(std::span(text)));
}

void add_value(base::Hasher& hash, const gguf::Value& value);

void add_elements(base::Hasher& hash, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) add_text(hash, text);
}
void add_elements(base::Hasher& hash, const std::vector<gguf::Value>& values) {
  for (const gguf::Value& value : values) add_value(hash, value);
}
template <typename T>
void add_elements(base::Hasher& hash, const gguf::Numbers<T>& numbers) {
  hash.add(numbers.bytes());
}

/// Integers have the same hash in any width.
void add_value(base::Hasher& hash, const gguf::Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) return add_text(hash, *text);
  if (const auto* array = std::get_if<gguf::Array>(&value.data)) {
    hash.add_value(static_cast<std::uint32_t>(array->element_type));
    hash.add_value(array->size());
    return std::visit([&](const auto& elements) { add_elements(hash, elements); }, array->elements);
  }
  if (const auto* number = std::get_if<double>(&value.data)) return hash.add_value(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return hash.add_value(*number);
  hash.add_value(std::get<std::uint64_t>(value.data));
}

/// The architecture's keys in any order: each may change the meaning of K and V.
void add_metadata(base::Hasher& hash, const gguf::File& file, const std::string& architecture) {
  std::vector<const gguf::File::Entry*> entries;
  for (const gguf::File::Entry& entry : file.metadata())
    if (entry.key.starts_with(architecture + ".")) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
  for (const gguf::File::Entry* entry : entries) {
    add_text(hash, entry->key);
    add_value(hash, entry->value);
  }
}

/// Samples from its first byte to its last; all of a small tensor.
void add_samples(base::Hasher& hash, const gguf::File& file, std::span<const std::byte> data) {
  std::array<std::byte, kSamples * kSampleBytes> buffer;
  const auto add = [&](std::span<const std::byte> part) {
    const std::span<std::byte> copy = std::span(buffer).first(part.size());
    file.read(part, copy);
    hash.add(copy);
  };
  if (data.size() <= buffer.size()) return add(data);
  for (std::size_t i = 0; i < kSamples; ++i)
    add(data.subspan((data.size() - kSampleBytes) / (kSamples - 1) * i, kSampleBytes));
}

}  // namespace

base::Hash128 model_fingerprint(const gguf::File& file, const model::ModelDescription& description) {
  const model::HParams& h = description.hparams;
  base::Hasher hash;
  add_text(hash, h.architecture);
  add_metadata(hash, file, h.architecture);
  if (const auto& control = description.additions.control; control != nullptr)
    for (int layer = 0; layer < h.n_layers; ++layer) {
      hash.add_value(control->behind(layer).size());
      hash.add(std::as_bytes(control->behind(layer)));
    }
  hash.add_value(file.tensors().size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    add_text(hash, tensor.name);
    hash.add_value(static_cast<std::uint32_t>(tensor.dtype));
    hash.add_value(tensor.shape.size());
    hash.add(std::as_bytes(std::span(tensor.shape)));
    add_samples(hash, file, tensor.data);
  }
  return hash.result();
}

}  // namespace weft::engine
