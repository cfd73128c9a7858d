#include "gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "gguf/limits.h"
#include "gguf/reader.h"
#include "gguf/split.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

template <typename Stored>
Stored load(const std::byte* at) {
  Stored value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// The positions of `names` in their order. Throws where two are equal.
std::vector<std::uint32_t> index_by_name(const std::vector<std::string_view>& names, const char* what,
                                         const std::string& source) {
  std::vector<std::uint32_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b]; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (names[order[i]] == names[order[i - 1]])
      throw Error(ErrorCode::kInvalidFile, (source.empty() ? "" : source + ": ") + what + " " +
                                               in_quotes(names[order[i]]) + " is there twice");
  return order;
}

// The element with that name in `elements`, whose positions `order` has by name; or null.
template <typename T>
const T* find_by_name(const std::vector<T>& elements, std::string T::* name,
                      const std::vector<std::uint32_t>& order, std::string_view wanted) {
  const auto at =
      std::lower_bound(order.begin(), order.end(), wanted,
                       [&](std::uint32_t i, std::string_view w) { return elements[i].*name < w; });
  return at != order.end() && elements[*at].*name == wanted ? &elements[*at] : nullptr;
}

std::optional<std::int64_t> to_int(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

template <typename T>
Numbers<T>::Numbers(ValueType type, std::vector<std::byte> bytes) : type_(type), bytes_(std::move(bytes)) {
  WEFT_CHECK(type != ValueType::kString && type != ValueType::kArray &&
             bytes_.size() % least_bytes(type) == 0);
}

template <typename T>
std::size_t Numbers<T>::size() const {
  return bytes_.size() / least_bytes(type_);
}

template <typename T>
T Numbers<T>::operator[](std::size_t i) const {
  const std::byte* at = bytes_.data() + i * least_bytes(type_);
  switch (type_) {
    case ValueType::kU8:
    case ValueType::kBool:
      return static_cast<T>(load<std::uint8_t>(at));
    case ValueType::kI8:
      return static_cast<T>(load<std::int8_t>(at));
    case ValueType::kU16:
      return static_cast<T>(load<std::uint16_t>(at));
    case ValueType::kI16:
      return static_cast<T>(load<std::int16_t>(at));
    case ValueType::kU32:
      return static_cast<T>(load<std::uint32_t>(at));
    case ValueType::kI32:
      return static_cast<T>(load<std::int32_t>(at));
    case ValueType::kU64:
      return static_cast<T>(load<std::uint64_t>(at));
    case ValueType::kI64:
      return static_cast<T>(load<std::int64_t>(at));
    case ValueType::kF32:
      return static_cast<T>(load<float>(at));
    case ValueType::kF64:
      return static_cast<T>(load<double>(at));
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return T{};
}

template class Numbers<std::uint64_t>;
template class Numbers<std::int64_t>;
template class Numbers<double>;

std::size_t Array::size() const {
  return std::visit([](const auto& of_type) { return of_type.size(); }, elements);
}

std::int64_t TensorInfo::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

struct File::Impl {
  std::string source;  // For messages.
  std::vector<std::shared_ptr<const base::MappedFile>> files;
  std::size_t file_bytes = 0;
  int n_parts = 1;
  std::uint32_t version = 0;
  std::vector<Entry> metadata;
  std::vector<std::uint32_t> key_order;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> tensor_order;

  void index() {
    std::vector<std::string_view> names;
    for (const Entry& entry : metadata) names.push_back(entry.key);
    key_order = index_by_name(names, "metadata key", source);
    names.clear();
    for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
    tensor_order = index_by_name(names, "tensor", source);
  }

  [[noreturn]] void wrong_type(std::string_view key, const Value& value, const char* expected) const {
    std::string found(name(value.type));
    if (const auto* array = std::get_if<Array>(&value.data))
      found += " of " + std::string(name(array->element_type));
    refuse(key, "it is of type " + found + ", expected " + expected);
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& problem) const {
    throw Error(ErrorCode::kInvalidFile,
                (source.empty() ? "" : source + ": ") + "metadata key " + in_quotes(key) + ": " + problem);
  }
};

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::~File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;

File File::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->source = path.string();
  SplitSet set = open_split_set(path);
  for (base::MappedFile& file : set.files)
    impl->files.push_back(std::make_shared<const base::MappedFile>(std::move(file)));
  impl->n_parts = static_cast<int>(set.parts.size());
  for (const auto& file : impl->files) impl->file_bytes += file->bytes().size();
  impl->version = set.parts.front().version;
  impl->metadata = std::move(set.parts.front().metadata);
  for (Part& part : set.parts)
    impl->tensors.insert(impl->tensors.end(), std::make_move_iterator(part.tensors.begin()),
                         std::make_move_iterator(part.tensors.end()));
  impl->index();
  return File(std::move(impl));
}

File File::parse(std::span<const std::byte> bytes) {
  auto impl = std::make_unique<Impl>();
  Part part = read_part(bytes);
  impl->file_bytes = bytes.size();
  impl->version = part.version;
  impl->metadata = std::move(part.metadata);
  impl->tensors = std::move(part.tensors);
  impl->index();
  File file(std::move(impl));
  const std::int64_t n_parts = file.get_int(kSplitCountKey).value_or(1);
  if (n_parts > 1)
    file.impl_->refuse(kSplitCountKey, "this is one of " + std::to_string(n_parts) +
                                           " parts; open the set by the path of a part");
  return file;
}

std::span<const File::Entry> File::metadata() const { return impl_->metadata; }

const Value* File::find(std::string_view key) const {
  const Entry* entry = find_by_name(impl_->metadata, &Entry::key, impl_->key_order, key);
  return entry != nullptr ? &entry->value : nullptr;
}

std::optional<std::int64_t> File::get_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&value->data)) return *number;
  const auto* number = std::get_if<std::uint64_t>(&value->data);
  if (number == nullptr || value->type == ValueType::kBool) impl_->wrong_type(key, *value, "an integer");
  const auto result = to_int(*number);
  if (!result) impl_->refuse(key, "found " + std::to_string(*number) + ", expected less than 2^63");
  return result;
}

std::optional<double> File::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->data)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value->data)) return static_cast<double>(*number);
  const auto* number = std::get_if<std::uint64_t>(&value->data);
  if (number == nullptr || value->type == ValueType::kBool) impl_->wrong_type(key, *value, "a number");
  return static_cast<double>(*number);
}

std::optional<bool> File::get_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kBool) impl_->wrong_type(key, *value, "bool");
  return std::get<std::uint64_t>(value->data) != 0;
}

std::optional<std::string_view> File::get_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->data);
  if (text == nullptr) impl_->wrong_type(key, *value, "string");
  return *text;
}

const std::vector<std::string>* File::get_strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<Array>(&value->data);
  const auto* strings = array != nullptr ? std::get_if<std::vector<std::string>>(&array->elements) : nullptr;
  if (strings == nullptr) impl_->wrong_type(key, *value, "array of strings");
  return strings;
}

std::optional<std::vector<std::int64_t>> File::get_ints(std::string_view key) const {
  constexpr const char* kExpected = "array of integers";
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr || array->element_type == ValueType::kBool) impl_->wrong_type(key, *value, kExpected);
  std::vector<std::int64_t> result(array->size());
  if (const auto* numbers = std::get_if<Numbers<std::int64_t>>(&array->elements)) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = (*numbers)[i];
    return result;
  }
  const auto* numbers = std::get_if<Numbers<std::uint64_t>>(&array->elements);
  if (numbers == nullptr) impl_->wrong_type(key, *value, kExpected);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto number = to_int((*numbers)[i]);
    if (!number) impl_->refuse(key, "element " + std::to_string(i) + " is not less than 2^63");
    result[i] = *number;
  }
  return result;
}

std::optional<std::vector<double>> File::get_floats(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr || array->element_type == ValueType::kBool ||
      array->element_type == ValueType::kString || array->element_type == ValueType::kArray)
    impl_->wrong_type(key, *value, "array of numbers");
  std::vector<double> result(array->size());
  const auto copy = [&](const auto& elements) {
    if constexpr (requires { static_cast<double>(elements[0]); })
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(elements[i]);
  };
  std::visit(copy, array->elements);
  return result;
}

std::optional<std::vector<bool>> File::get_bools(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = std::get_if<Array>(&value->data);
  if (array == nullptr || array->element_type != ValueType::kBool)
    impl_->wrong_type(key, *value, "array of bool");
  const auto& numbers = std::get<Numbers<std::uint64_t>>(array->elements);
  std::vector<bool> result(numbers.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = numbers[i] != 0;
  return result;
}

std::span<const TensorInfo> File::tensors() const { return impl_->tensors; }

const TensorInfo* File::find_tensor(std::string_view name) const {
  return find_by_name(impl_->tensors, &TensorInfo::name, impl_->tensor_order, name);
}

std::uint32_t File::version() const { return impl_->version; }
std::size_t File::file_bytes() const { return impl_->file_bytes; }
int File::n_parts() const { return impl_->n_parts; }

void File::check_unchanged() const {
  for (const auto& file : impl_->files) file->check_unchanged();
}

base::Hash128 File::identity() const {
  base::Hasher hasher;
  for (const auto& file : impl_->files) {
    const base::Hash128 identity = file->file().identity();
    if (identity == base::Hash128()) return {};
    hasher.add_value(identity.low);
    hasher.add_value(identity.high);
  }
  return impl_->files.empty() ? base::Hash128() : hasher.result();
}

void File::read(std::span<const std::byte> part, std::span<std::byte> to) const {
  if (const auto file = file_of(part)) return file->read(part, to);
  std::copy(part.begin(), part.end(), to.begin());
}

std::shared_ptr<const base::MappedFile> File::file_of(std::span<const std::byte> part) const {
  for (const auto& file : impl_->files)
    if (file->holds(part)) return file;
  return nullptr;
}

}  // namespace weft::gguf
