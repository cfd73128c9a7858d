#include "gguf/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/atomic_file.h"
#include "base/to_size.h"
#include "gguf/limits.h"
#include "gguf/reader.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, "writing a GGUF file: " + problem);
}

void check_name(std::string_view name, std::size_t max_bytes, const char* what) {
  if (name.empty() || name.size() > max_bytes)
    refuse(std::string(what) + " " + in_quotes(name) + " has " + std::to_string(name.size()) +
           " bytes, expected 1 to " + std::to_string(max_bytes));
  if (std::any_of(name.begin(), name.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    refuse(std::string(what) + " " + in_quotes(name) + " holds a control character");
}

template <typename T>
constexpr ValueType value_type() {
  if constexpr (std::same_as<T, std::uint8_t>) return ValueType::kU8;
  if constexpr (std::same_as<T, std::int8_t>) return ValueType::kI8;
  if constexpr (std::same_as<T, std::uint16_t>) return ValueType::kU16;
  if constexpr (std::same_as<T, std::int16_t>) return ValueType::kI16;
  if constexpr (std::same_as<T, std::uint32_t>) return ValueType::kU32;
  if constexpr (std::same_as<T, std::int32_t>) return ValueType::kI32;
  if constexpr (std::same_as<T, std::uint64_t>) return ValueType::kU64;
  if constexpr (std::same_as<T, std::int64_t>) return ValueType::kI64;
  if constexpr (std::same_as<T, float>) return ValueType::kF32;
  if constexpr (std::same_as<T, double>) return ValueType::kF64;
}

// The type that holds a number.
template <typename T>
using Held = std::conditional_t<std::is_floating_point_v<T>, double,
                                std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

// Built in place: GCC 12 takes a moved temporary for an uninitialised one under its sanitizers.
Value array_value(ValueType element_type, auto elements) {
  Value value{ValueType::kArray, {}};
  Array& array = value.data.emplace<Array>();
  array.element_type = element_type;
  array.elements = std::move(elements);
  return value;
}

class Bytes {
 public:
  template <typename T>
  void number(T value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(std::span<const std::byte> part) { bytes_.insert(bytes_.end(), part.begin(), part.end()); }
  void text(std::string_view text) {
    number(std::uint64_t{text.size()});
    append(std::as_bytes(std::span(text)));
  }
  void align(std::uint64_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

  // A value without its type. Throws where type and data do not belong together.
  void value(const Value& value, int depth) {
    switch (value.type) {
      case ValueType::kU8:
        return held<std::uint8_t>(value);
      case ValueType::kI8:
        return held<std::int8_t>(value);
      case ValueType::kU16:
        return held<std::uint16_t>(value);
      case ValueType::kI16:
        return held<std::int16_t>(value);
      case ValueType::kU32:
        return held<std::uint32_t>(value);
      case ValueType::kI32:
        return held<std::int32_t>(value);
      case ValueType::kU64:
        return held<std::uint64_t>(value);
      case ValueType::kI64:
        return held<std::int64_t>(value);
      case ValueType::kF32:
        return held<float>(value);
      case ValueType::kF64:
        return held<double>(value);
      case ValueType::kBool:
        return held<std::uint8_t>(value);
      case ValueType::kString:
        return text(get<std::string>(value.data));
      case ValueType::kArray:
        return array(get<Array>(value.data), depth + 1);
    }
  }

 private:
  template <typename T, typename Variant>
  static const T& get(const Variant& variant) {
    const T* held = std::get_if<T>(&variant);
    if (held == nullptr) refuse("a metadata value does not have the type that it names");
    return *held;
  }

  template <typename T>
  void held(const Value& value) {
    number(static_cast<T>(get<Held<T>>(value.data)));
  }

  void array(const Array& array, int depth) {
    if (depth > kMaxArrayDepth) refuse("arrays are nested deeper than " + std::to_string(kMaxArrayDepth));
    number(static_cast<std::uint32_t>(array.element_type));
    number(std::uint64_t{array.size()});
    switch (array.element_type) {
      case ValueType::kString:
        for (const std::string& element : get<std::vector<std::string>>(array.elements)) text(element);
        return;
      case ValueType::kArray:
        for (const Value& element : get<std::vector<Value>>(array.elements)) {
          if (element.type != ValueType::kArray) refuse("an array of arrays holds something else");
          value(element, depth);
        }
        return;
      case ValueType::kF32:
      case ValueType::kF64:
        return append(get<Numbers<double>>(array.elements).bytes());
      case ValueType::kI8:
      case ValueType::kI16:
      case ValueType::kI32:
      case ValueType::kI64:
        return append(get<Numbers<std::int64_t>>(array.elements).bytes());
      default:
        return append(get<Numbers<std::uint64_t>>(array.elements).bytes());
    }
  }

  std::vector<std::byte> bytes_;
};

}  // namespace

void Writer::set(std::string_view key, Value value) {
  check_name(key, kMaxKeyBytes, "metadata key");
  Bytes().value(value, 0);  // Refuses invalid values here, so that the caller gets the error.
  if (key == kAlignmentKey) {
    const auto* alignment = std::get_if<std::uint64_t>(&value.data);
    if (value.type != ValueType::kU32 || !std::has_single_bit(*alignment) || *alignment < kMinAlignment ||
        *alignment > kMaxAlignment)
      refuse(std::string(key) + " must be a std::uint32_t and a power of two from " +
             std::to_string(kMinAlignment) + " to " + std::to_string(kMaxAlignment));
  }
  const auto [position, is_new] = key_positions_.try_emplace(std::string(key), metadata_.size());
  if (is_new)
    metadata_.push_back({std::string(key), std::move(value)});
  else
    metadata_[position->second].value = std::move(value);
}

template <Number T>
void Writer::set(std::string_view key, T value) {
  set(key, Value{value_type<T>(), static_cast<Held<T>>(value)});
}

void Writer::set_alignment(std::int64_t read) {
  set(kAlignmentKey, static_cast<std::uint32_t>(std::max(read, static_cast<std::int64_t>(kMinAlignment))));
}

void Writer::set_bool(std::string_view key, bool value) {
  set(key, Value{ValueType::kBool, static_cast<std::uint64_t>(value)});
}

void Writer::set(std::string_view key, std::string_view text) {
  set(key, Value{ValueType::kString, std::string(text)});
}

template <Number T>
void Writer::set_array(std::string_view key, std::span<const T> numbers) {
  const auto bytes = std::as_bytes(numbers);
  Numbers<Held<T>> elements(value_type<T>(), {bytes.begin(), bytes.end()});
  set(key, array_value(value_type<T>(), std::move(elements)));
}

void Writer::set_array(std::string_view key, const std::vector<bool>& values) {
  std::vector<std::byte> bytes;
  for (const bool value : values) bytes.push_back(static_cast<std::byte>(value));
  Numbers<std::uint64_t> elements(ValueType::kBool, std::move(bytes));
  set(key, array_value(ValueType::kBool, std::move(elements)));
}

void Writer::set_array(std::string_view key, std::vector<std::string> strings) {
  set(key, array_value(ValueType::kString, std::move(strings)));
}

template void Writer::set(std::string_view, std::uint8_t);
template void Writer::set(std::string_view, std::int8_t);
template void Writer::set(std::string_view, std::uint16_t);
template void Writer::set(std::string_view, std::int16_t);
template void Writer::set(std::string_view, std::uint32_t);
template void Writer::set(std::string_view, std::int32_t);
template void Writer::set(std::string_view, std::uint64_t);
template void Writer::set(std::string_view, std::int64_t);
template void Writer::set(std::string_view, float);
template void Writer::set(std::string_view, double);
template void Writer::set_array(std::string_view, std::span<const std::uint8_t>);
template void Writer::set_array(std::string_view, std::span<const std::int8_t>);
template void Writer::set_array(std::string_view, std::span<const std::uint16_t>);
template void Writer::set_array(std::string_view, std::span<const std::int16_t>);
template void Writer::set_array(std::string_view, std::span<const std::uint32_t>);
template void Writer::set_array(std::string_view, std::span<const std::int32_t>);
template void Writer::set_array(std::string_view, std::span<const std::uint64_t>);
template void Writer::set_array(std::string_view, std::span<const std::int64_t>);
template void Writer::set_array(std::string_view, std::span<const float>);
template void Writer::set_array(std::string_view, std::span<const double>);

void Writer::add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                        std::span<const std::byte> data) {
  Tensor& tensor = append(name, dtype, std::move(shape));
  if (data.size() != tensor.bytes) {
    const std::size_t expected = tensor.bytes;
    tensor_names_.erase(tensor.info.name);
    tensors_.pop_back();
    refuse("tensor " + in_quotes(name) + " has " + std::to_string(data.size()) + " bytes, expected " +
           std::to_string(expected));
  }
  tensor.info.data = data;
}

void Writer::add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Fill fill) {
  if (!fill) refuse("tensor " + in_quotes(name) + " has no function that fills it");
  append(name, dtype, std::move(shape)).fill = std::move(fill);
}

Writer::Tensor& Writer::append(std::string_view name, DType dtype, std::vector<std::int64_t> shape) {
  check_name(name, kMaxTensorNameBytes, "tensor");
  if (tensor_names_.contains(name)) refuse("tensor " + in_quotes(name) + " exists already");
  if (shape.empty() || shape.size() > kMaxDims)
    refuse("tensor " + in_quotes(name) + " has " + std::to_string(shape.size()) +
           " dimensions, expected 1 to " + std::to_string(kMaxDims));
  if (const auto id = static_cast<std::uint32_t>(dtype); !dtype_from_id(id))
    refuse("tensor " + in_quotes(name) + " has type " + std::to_string(id) + ", which does not exist");
  const DTypeInfo& type = weft::info(dtype);
  // An element takes at most 8 bytes, so this keeps the number of bytes in range too.
  std::int64_t n_left = std::numeric_limits<std::int64_t>::max() / 8;
  for (const std::int64_t dim : shape) {
    if (dim < 1 || dim > n_left)
      refuse("tensor " + in_quotes(name) + " has a dimension of " + std::to_string(dim) + ", which is " +
             (dim < 1 ? "less than 1" : "too large"));
    n_left /= dim;
  }
  if (shape.back() % type.block_elements != 0)
    refuse("tensor " + in_quotes(name) + " has rows of " + std::to_string(shape.back()) +
           " elements, expected a multiple of " + std::to_string(type.block_elements) + " for type " +
           std::string(type.name));
  Tensor tensor;
  tensor.info = {std::string(name), dtype, std::move(shape), {}};
  tensor.bytes = to_size(tensor.info.n_elements() / type.block_elements) * to_size(type.block_bytes);
  tensor_names_.insert(tensor.info.name);
  return tensors_.emplace_back(std::move(tensor));
}

std::uint64_t Writer::alignment() const {
  for (const File::Entry& entry : metadata_)
    if (entry.key == kAlignmentKey) return std::get<std::uint64_t>(entry.value.data);
  return kDefaultAlignment;
}

std::vector<std::byte> Writer::header() const {
  Bytes out;
  out.number(kMagic);
  out.number(kVersion);
  out.number(std::uint64_t{tensors_.size()});
  out.number(std::uint64_t{metadata_.size()});
  for (const File::Entry& entry : metadata_) {
    out.text(entry.key);
    out.number(static_cast<std::uint32_t>(entry.value.type));
    out.value(entry.value, 0);
  }
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    out.text(tensor.info.name);
    out.number(static_cast<std::uint32_t>(tensor.info.shape.size()));
    for (std::size_t i = tensor.info.shape.size(); i-- > 0;)  // Innermost first.
      out.number(static_cast<std::uint64_t>(tensor.info.shape[i]));
    out.number(static_cast<std::uint32_t>(tensor.info.dtype));
    out.number(offset);
    offset += (tensor.bytes + alignment() - 1) / alignment() * alignment();
  }
  out.align(alignment());
  return out.take();
}

void Writer::write(const Sink& sink) const {
  sink(header());
  std::vector<std::byte> buffer;
  for (const Tensor& tensor : tensors_) {
    std::span<const std::byte> data = tensor.info.data;
    if (tensor.fill) {
      buffer.assign(tensor.bytes, std::byte{0});
      tensor.fill(buffer);
      data = buffer;
    }
    sink(data);
    sink(std::vector<std::byte>((alignment() - tensor.bytes % alignment()) % alignment()));
  }
}

File Writer::planned() const {
  std::vector<TensorInfo> tensors;
  for (const Tensor& tensor : tensors_)
    tensors.push_back({tensor.info.name, tensor.info.dtype, tensor.info.shape, {}});
  return File::planned(metadata_, std::move(tensors));
}

std::vector<std::byte> Writer::to_bytes() const {
  std::vector<std::byte> bytes;
  write([&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

void Writer::write_file(const std::filesystem::path& path) const {
  base::AtomicFile file(path);
  write([&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

}  // namespace weft::gguf
