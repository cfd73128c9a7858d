#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisper {

/// The variables of a model as CTranslate2 writes it (model.bin, version 6): by names as
/// "encoder/layer_0/ffn/linear_0/weight". An untrusted input: all of it is checked. Immutable.
class Ct2File {
 public:
  enum class Type : std::uint8_t { kF32, kI8, kI16, kI32, kF16, kBF16 };  ///< By their numbers in the file.

  struct Variable {
    std::string name;
    Type type = Type::kF32;
    std::vector<std::int64_t> shape;  ///< Outermost first; empty for a number.
    std::span<const std::byte> bytes;
  };

  /// Reads all of it. Throws weft::Error kNotFound, kIo, kInvalidFile, kUnsupported.
  explicit Ct2File(const std::filesystem::path& path);

  const std::string& spec() const { return spec_; }  ///< What kind of model it is: "WhisperSpec".
  bool has(std::string_view name) const { return variables_.contains(name); }
  /// Throws weft::Error kInvalidFile where there is none, as those below do.
  const Variable& variable(std::string_view name) const;
  /// Of a number.
  int number(std::string_view name) const;
  /// The elements of a variable of floats. Throws weft::Error kUnsupported for whole numbers.
  std::vector<float> floats(std::string_view name) const;

 private:
  std::string path_;
  std::vector<std::byte> bytes_;
  std::string spec_;
  std::map<std::string, Variable, std::less<>> variables_;
};

}  // namespace whisper
