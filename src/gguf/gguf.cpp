#include "gguf/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/notes.h"
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

// The positions of `names` in their order; equal ones in the order in which they stand.
std::vector<std::uint32_t> index_by_name(const std::vector<std::string_view>& names) {
  std::vector<std::uint32_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int difference = names[a].compare(names[b]);
    return difference != 0 ? difference < 0 : a < b;
  });
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

// A number of a file as an integer, where it is one that fits.
std::optional<std::int64_t> to_int(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(value);
}
std::optional<std::int64_t> to_int(std::int64_t value) { return value; }
std::optional<std::int64_t> to_int(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53.
  if (!(value >= -kExact && value <= kExact) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

/// The bool that a string spells: true or false, also as Python writes them.
std::optional<bool> to_bool(std::string_view text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  return std::nullopt;
}

std::string text_of(double value) { return std::to_string(value); }
template <typename Integer>
std::string text_of(Integer value) {
  return std::to_string(value);
}

template <typename T>
constexpr bool is_number = std::is_arithmetic_v<T>;

}  // namespace

std::optional<std::int64_t> to_int(const Value& value) {
  return std::visit(
      [](const auto& data) -> std::optional<std::int64_t> {
        if constexpr (is_number<std::decay_t<decltype(data)>>) return to_int(data);
        return std::nullopt;
      },
      value.data);
}

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
  std::vector<std::string> notes;

  void index() {
    std::vector<std::string_view> names;
    for (const Entry& entry : metadata) names.push_back(entry.key);
    key_order = index_by_name(names);
    if (drop_repeated_keys()) return index();
    note_spelled_bools();
    names.clear();
    for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
    tensor_order = index_by_name(names);
    for (std::size_t i = 1; i < tensor_order.size(); ++i)
      if (names[tensor_order[i]] == names[tensor_order[i - 1]])
        throw Error(ErrorCode::kInvalidFile, (source.empty() ? "" : source + ": ") + "tensor " +
                                                 in_quotes(names[tensor_order[i]]) + " occurs twice");
  }

  // Keeps the first of several entries with the same key. Returns whether there were any.
  bool drop_repeated_keys() {
    std::vector<bool> repeated(metadata.size());
    bool any = false;
    for (std::size_t i = 1; i < key_order.size(); ++i) {
      const std::string& key = metadata[key_order[i]].key;
      if (key != metadata[key_order[i - 1]].key) continue;
      repeated[key_order[i]] = any = true;
      base::add_note(notes, "metadata key " + in_quotes(key) + " occurs more than once; the first is used");
    }
    std::size_t i = 0;
    if (any) std::erase_if(metadata, [&](const Entry&) -> bool { return repeated[i++]; });
    return any;
  }

  // Labels (general.*) are strings in their own right.
  void note_spelled_bools() {
    for (const Entry& entry : metadata) {
      const auto* const text = std::get_if<std::string>(&entry.value.data);
      if (text != nullptr && to_bool(*text) && !entry.key.starts_with("general."))
        base::add_note(notes, "metadata key " + in_quotes(entry.key) + " is the string " + in_quotes(*text) +
                                  "; where a bool is expected, weft reads it as one");
    }
  }

  [[noreturn]] void wrong_type(std::string_view key, const Value& value, const char* expected) const {
    std::string found(to_string(value.type));
    if (const auto* array = std::get_if<Array>(&value.data))
      found += " of " + std::string(to_string(array->element_type));
    refuse(key, "it is of type " + found + ", expected " + expected);
  }

  // The numbers of an array, each as `convert` has it.
  template <typename T, typename Convert>
  std::optional<std::vector<T>> numbers(const Value* value, std::string_view key, const char* expected,
                                        Convert convert) const {
    if (value == nullptr) return std::nullopt;
    const auto* array = std::get_if<Array>(&value->data);
    if (array == nullptr) wrong_type(key, *value, expected);
    return std::visit(
        [&](const auto& elements) {
          std::vector<T> result;
          if constexpr (is_number<std::decay_t<decltype(elements[0])>>) {
            result.reserve(elements.size());
            for (std::size_t i = 0; i < elements.size(); ++i) result.push_back(convert(elements[i], i));
          } else {
            wrong_type(key, *value, expected);
          }
          return result;
        },
        array->elements);
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
  for (Part& part : set.parts) {
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(impl->tensors));
    std::move(part.notes.begin(), part.notes.end(), std::back_inserter(impl->notes));
  }
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
  impl->notes = std::move(part.notes);
  impl->index();
  File file(std::move(impl));
  const std::int64_t n_parts = file.get_int(kSplitCountKey).value_or(1);
  if (n_parts > 1)
    file.impl_->refuse(kSplitCountKey, "this is one of " + std::to_string(n_parts) +
                                           " parts; open the set by the path of a part");
  return file;
}

File File::planned(std::vector<Entry> metadata, std::vector<TensorInfo> tensors) {
  auto impl = std::make_unique<Impl>();
  impl->version = kVersion;
  impl->metadata = std::move(metadata);
  impl->tensors = std::move(tensors);
  impl->index();
  return File(std::move(impl));
}

std::span<const File::Entry> File::metadata() const { return impl_->metadata; }

const Value* File::find(std::string_view key) const {
  const Entry* entry = find_by_name(impl_->metadata, &Entry::key, impl_->key_order, key);
  return entry != nullptr ? &entry->value : nullptr;
}

std::optional<std::int64_t> File::get_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto result = to_int(*value)) return result;
  std::visit(
      [&](const auto& number) {
        if constexpr (is_number<std::decay_t<decltype(number)>>)
          impl_->refuse(key, "found " + text_of(number) + ", expected an integer less than 2^63");
      },
      value->data);
  impl_->wrong_type(key, *value, "an integer");
}

std::optional<double> File::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return std::visit(
      [&](const auto& number) -> double {
        if constexpr (is_number<std::decay_t<decltype(number)>>) return static_cast<double>(number);
        impl_->wrong_type(key, *value, "a number");
      },
      value->data);
}

std::optional<bool> File::get_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  return std::visit(
      [&](const auto& number) -> bool {
        if constexpr (is_number<std::decay_t<decltype(number)>>) {
          if (number == 0 || number == 1) return number == 1;
          impl_->refuse(key, "found " + text_of(number) + ", expected true or false");
        } else if constexpr (std::is_same_v<std::decay_t<decltype(number)>, std::string>) {
          if (const std::optional<bool> spelled = to_bool(number)) return *spelled;
        }
        impl_->wrong_type(key, *value, "bool");
      },
      value->data);
}

std::optional<std::string_view> File::get_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->data);
  if (text == nullptr) impl_->wrong_type(key, *value, "string");
  return *text;
}

std::string_view File::get_label(std::string_view key) const {
  const Value* value = find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->data);
  return text == nullptr ? std::string_view() : *text;
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
  return impl_->numbers<std::int64_t>(find(key), key, "array of integers", [&](auto number, std::size_t i) {
    const auto result = to_int(number);
    if (!result)
      impl_->refuse(key, "element " + std::to_string(i) + " is " + text_of(number) +
                             ", expected an integer less than 2^63");
    return *result;
  });
}

std::optional<std::vector<double>> File::get_floats(std::string_view key) const {
  return impl_->numbers<double>(find(key), key, "array of numbers",
                                [](auto number, std::size_t) { return static_cast<double>(number); });
}

std::optional<std::vector<bool>> File::get_bools(std::string_view key) const {
  return impl_->numbers<bool>(find(key), key, "array of bool", [&](auto number, std::size_t i) {
    if (number != 0 && number != 1)
      impl_->refuse(key,
                    "element " + std::to_string(i) + " is " + text_of(number) + ", expected true or false");
    return number == 1;
  });
}

std::span<const std::string> File::notes() const { return impl_->notes; }

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
