#pragma once
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace whisper {

/// A whole file. Throws weft::Error kNotFound and kIo.
std::vector<std::byte> read_file(const std::filesystem::path& path);

/// Reads the bytes of an untrusted file one after another, little-endian as they are on disk.
class ByteReader {
 public:
  /// `name` is the file's, for errors.
  ByteReader(std::span<const std::byte> bytes, std::string name) : rest_(bytes), name_(std::move(name)) {}

  /// Throws weft::Error kInvalidFile where the file ends before.
  std::span<const std::byte> take(std::size_t n);
  template <typename T>
    requires std::is_arithmetic_v<T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::size_t size() const { return rest_.size(); }
  /// Throws weft::Error kInvalidFile: "NAME: REASON".
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  std::span<const std::byte> rest_;
  std::string name_;
};

}  // namespace whisper
