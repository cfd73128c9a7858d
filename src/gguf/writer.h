#pragma once
// Writing GGUF files, version 3. Writer writes every key and tensor that File reads, and vice versa. Only the
// alignment is stricter: set_alignment() raises one that File reads.
//
//   gguf::Writer writer;
//   writer.set("general.architecture", "llama");
//   writer.set("llama.block_count", std::uint32_t{30});
//   writer.add_tensor("token_embd.weight", DType::kF16, {49152, 576}, bytes);
//   writer.write_file("model.gguf");
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"
#include "weft/dtype.h"
#include "weft/gguf.h"

namespace weft::gguf {

/// The type that a number of C++ has in metadata.
template <typename T>
concept Number =
    std::same_as<T, std::uint8_t> || std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::uint32_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, std::int64_t> || std::same_as<T, float> ||
    std::same_as<T, double>;

/// Collects metadata and tensors, then writes them, in the order in which they were added. Throws Error
/// kInvalidArgument for what File would refuse. Used by one thread at a time.
class Writer {
 public:
  /// Sets a key; one that is there keeps its place. The type of a number is exactly the type of the argument.
  /// "general.alignment" (std::uint32_t, a power of two from 8 to 65536) sets the alignment of tensors, which
  /// is 32 otherwise.
  void set(std::string_view key, Value value);
  template <Number T>
  void set(std::string_view key, T value);
  void set(std::string_view key, std::same_as<bool> auto value) { set_bool(key, value); }
  void set(std::string_view key, std::string_view text);
  void set(std::string_view key, const char* text) { set(key, std::string_view(text)); }
  void set(std::string_view key, const std::string& text) { set(key, std::string_view(text)); }

  /// Sets the alignment that a file was read with. One below 8 becomes 8.
  void set_alignment(std::int64_t read);

  template <Number T>
  void set_array(std::string_view key, std::span<const T> numbers);
  template <Number T>
  void set_array(std::string_view key, const std::vector<T>& numbers) {
    set_array(key, std::span<const T>(numbers));
  }
  void set_array(std::string_view key, const std::vector<bool>& values);
  void set_array(std::string_view key, std::vector<std::string> strings);

  /// Adds a tensor; shape is outermost first. `data` has the bytes of all rows and must stay until it is
  /// written.
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                  std::span<const std::byte> data);
  /// The same with bytes that are made when they are needed: `fill` gets all of the tensor's bytes, zeroed.
  using Fill = std::function<void(std::span<std::byte> out)>;
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Fill fill);

  /// The file as File would read it, without the tensors' data.
  File planned() const;
  std::vector<std::byte> to_bytes() const;
  /// Writes the file atomically: the previous file stays at `path` until all data is on the disk. Throws
  /// Error kIo. Holds one tensor in memory at a time.
  void write_file(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    TensorInfo info;
    std::size_t bytes;
    Fill fill;  // Used if info.data is empty.
  };
  using Sink = std::function<void(std::span<const std::byte>)>;

  void set_bool(std::string_view key, bool value);
  Tensor& append(std::string_view name, DType dtype, std::vector<std::int64_t> shape);
  std::uint64_t alignment() const;
  std::vector<std::byte> header() const;
  void write(const Sink& sink) const;

  std::vector<File::Entry> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> key_positions_;  // In metadata_.
  std::set<std::string, std::less<>> tensor_names_;
};

}  // namespace weft::gguf

namespace weft {
/// gguf::Writer::planned of the writer that users have.
gguf::File gguf_plan(const GgufWriter& writer);
}  // namespace weft
