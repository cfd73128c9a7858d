#include "ct2_file.h"

#include <weft/error.h>

#include <bit>
#include <cstring>

#include "bytes.h"

namespace whisper {
namespace {

constexpr std::uint32_t kVersion = 6;

std::size_t bytes_of(Ct2File::Type type) {
  switch (type) {
    case Ct2File::Type::kI8:
      return 1;
    case Ct2File::Type::kI16:
    case Ct2File::Type::kF16:
    case Ct2File::Type::kBF16:
      return 2;
    case Ct2File::Type::kI32:
    case Ct2File::Type::kF32:
      return 4;
  }
  return 0;
}

std::string read_string(ByteReader& reader) {
  const auto bytes = reader.take(reader.number<std::uint16_t>());
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

Ct2File::Variable read_variable(ByteReader& reader) {
  Ct2File::Variable variable;
  variable.name = read_string(reader);
  std::uint64_t elements = 1;
  const int rank = reader.number<std::uint8_t>();
  for (int i = 0; i < rank; ++i) {
    const auto size = reader.number<std::uint32_t>();
    variable.shape.push_back(size);
    if (__builtin_mul_overflow(elements, size, &elements)) reader.fail(variable.name + " has no such size");
  }
  const auto type = reader.number<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(Ct2File::Type::kBF16))
    reader.fail(variable.name + " has a type that is not known (" + std::to_string(type) + ")");
  variable.type = static_cast<Ct2File::Type>(type);
  const auto n_bytes = reader.number<std::uint32_t>();
  if (elements > n_bytes || elements * bytes_of(variable.type) != n_bytes)
    reader.fail(variable.name + " has " + std::to_string(n_bytes) + " bytes, which its shape contradicts");
  variable.bytes = reader.take(n_bytes);
  return variable;
}

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

Ct2File::Ct2File(const std::filesystem::path& path) : path_(path.string()), bytes_(read_file(path)) {
  ByteReader reader(bytes_, path_);
  const auto version = reader.number<std::uint32_t>();
  if (version != kVersion)
    throw weft::Error(weft::ErrorCode::kUnsupported, path_ + ": is no model of CTranslate2's version " +
                                                         std::to_string(kVersion) + " but " +
                                                         std::to_string(version));
  spec_ = read_string(reader);
  reader.number<std::uint32_t>();  // The spec's revision.
  const auto n_variables = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < n_variables; ++i) {
    Variable variable = read_variable(reader);
    std::string name = variable.name;
    variables_.insert_or_assign(std::move(name), std::move(variable));
  }
  const auto n_aliases = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < n_aliases; ++i) {
    const std::string alias = read_string(reader), name = read_string(reader);
    variables_.insert_or_assign(alias, variable(name));
  }
}

const Ct2File::Variable& Ct2File::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end())
    throw weft::Error(weft::ErrorCode::kInvalidFile, path_ + ": has no variable " + std::string(name));
  return found->second;
}

int Ct2File::number(std::string_view name) const {
  const Variable& v = variable(name);
  if (v.bytes.size() == bytes_of(v.type)) {
    if (v.type == Type::kI8) return element<std::int8_t>(v.bytes, 0);
    if (v.type == Type::kI16) return element<std::int16_t>(v.bytes, 0);
    if (v.type == Type::kI32) return element<std::int32_t>(v.bytes, 0);
  }
  throw weft::Error(weft::ErrorCode::kInvalidFile, path_ + ": " + v.name + " is not a whole number");
}

std::vector<float> Ct2File::floats(std::string_view name) const {
  const Variable& v = variable(name);
  std::vector<float> result(v.bytes.size() / bytes_of(v.type));
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (v.type == Type::kF32) {
      result[i] = element<float>(v.bytes, i);
    } else if (v.type == Type::kF16) {
      result[i] = static_cast<float>(element<_Float16>(v.bytes, i));
    } else if (v.type == Type::kBF16) {
      result[i] = std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(v.bytes, i)} << 16);
    } else {
      throw weft::Error(
          weft::ErrorCode::kUnsupported,
          path_ + ": " + v.name + " is quantised; convert the model with --quantization float16");
    }
  }
  return result;
}

}  // namespace whisper
