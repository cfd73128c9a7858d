// The public API of GGUF files.
#include <optional>
#include <type_traits>

#include "gguf/gguf.h"
#include "gguf/limits.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "weft/error.h"
#include "weft/gguf.h"

namespace weft {
namespace {

template <typename To, typename From>
std::vector<To> numbers_of(const gguf::Numbers<From>& numbers) {
  std::vector<To> result(numbers.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<To>(numbers[i]);
  return result;
}

/// Null for arrays of arrays.
std::optional<GgufValue> value_of(const gguf::Value& value) {
  const auto* const array = std::get_if<gguf::Array>(&value.data);
  const auto number = [&]<typename To, typename From>(To, From) -> GgufValue {
    if (array == nullptr) return static_cast<To>(std::get<From>(value.data));
    return numbers_of<To>(std::get<gguf::Numbers<From>>(array->elements));
  };
  using Unsigned = std::uint64_t;
  using Signed = std::int64_t;
  switch (array == nullptr ? value.type : array->element_type) {
    case gguf::ValueType::kU8:
      return number(std::uint8_t{}, Unsigned{});
    case gguf::ValueType::kI8:
      return number(std::int8_t{}, Signed{});
    case gguf::ValueType::kU16:
      return number(std::uint16_t{}, Unsigned{});
    case gguf::ValueType::kI16:
      return number(std::int16_t{}, Signed{});
    case gguf::ValueType::kU32:
      return number(std::uint32_t{}, Unsigned{});
    case gguf::ValueType::kI32:
      return number(std::int32_t{}, Signed{});
    case gguf::ValueType::kU64:
      return number(std::uint64_t{}, Unsigned{});
    case gguf::ValueType::kI64:
      return number(std::int64_t{}, Signed{});
    case gguf::ValueType::kF32:
      return number(float{}, double{});
    case gguf::ValueType::kF64:
      return number(double{}, double{});
    case gguf::ValueType::kBool:
      return number(bool{}, Unsigned{});
    case gguf::ValueType::kString:
      if (array == nullptr) return std::get<std::string>(value.data);
      return std::get<std::vector<std::string>>(array->elements);
    case gguf::ValueType::kArray:
      break;
  }
  return std::nullopt;
}

/// New files have names that all readers take.
void check_new_name(std::string_view name) {
  if (name.size() > gguf::kMaxNewNameBytes)
    throw Error(ErrorCode::kInvalidArgument, "writing a GGUF file: tensor " + gguf::in_quotes(name) +
                                                 " has " + std::to_string(name.size()) +
                                                 " bytes, expected 1 to " +
                                                 std::to_string(gguf::kMaxNewNameBytes));
}

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

}  // namespace

std::vector<std::pair<std::string, GgufValue>> read_gguf_metadata(const std::filesystem::path& path) {
  const gguf::File file = gguf::File::open(path);
  std::vector<std::pair<std::string, GgufValue>> result;
  for (const gguf::File::Entry& entry : file.metadata())
    if (auto value = value_of(entry.value)) result.emplace_back(entry.key, *std::move(value));
  return result;
}

struct GgufWriter::Impl {
  gguf::Writer writer;
};

GgufWriter::GgufWriter() : impl_(std::make_unique<Impl>()) {}
GgufWriter::~GgufWriter() = default;
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;

void GgufWriter::set(std::string_view key, const GgufValue& value) {
  std::visit(
      [&]<typename T>(const T& own) {
        if constexpr (kIsVector<T>) {
          impl_->writer.set_array(key, own);
        } else {
          impl_->writer.set(key, own);
        }
      },
      value);
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                            std::span<const std::byte> bytes) {
  check_new_name(name);
  impl_->writer.add_tensor(name, dtype, std::move(shape), bytes);
}
void GgufWriter::add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Fill fill) {
  check_new_name(name);
  impl_->writer.add_tensor(name, dtype, std::move(shape), std::move(fill));
}

gguf::File gguf_plan(const GgufWriter& writer) { return writer.impl_->writer.planned(); }

void GgufWriter::write(const std::filesystem::path& path) const { impl_->writer.write_file(path); }

}  // namespace weft
