// Reads any bytes as a GGUF file. Either they are refused, or all contents are accessible and survive writing
// and reading.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace {

using namespace weft;

void require(bool condition) {
  if (!condition) std::abort();
}

// Calls f. It may throw that a value has another type, and nothing else.
template <typename F>
void ask(F f) {
  try {
    f();
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidFile);
  }
}

void touch_metadata(const gguf::File& file) {
  for (const gguf::File::Entry& entry : file.metadata()) {
    require(file.find(entry.key) == &entry.value);
    ask([&] { file.get_int(entry.key); });
    ask([&] { file.get_float(entry.key); });
    ask([&] { file.get_bool(entry.key); });
    ask([&] { file.get_string(entry.key); });
    ask([&] { file.get_strings(entry.key); });
    ask([&] { file.get_ints(entry.key); });
    ask([&] { file.get_floats(entry.key); });
    ask([&] { file.get_bools(entry.key); });
  }
}

void touch_tensors(const gguf::File& file, std::span<const std::byte> bytes) {
  std::vector<float> row;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    const auto n = static_cast<std::size_t>(tensor.shape.back());
    const std::size_t stride = row_bytes(tensor.dtype, tensor.shape.back());
    require(tensor.data.size() == stride * (static_cast<std::size_t>(tensor.n_elements()) / n));
    require(tensor.data.data() >= bytes.data() &&
            tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
    row.resize(n);
    for (std::size_t at = 0; at < tensor.data.size(); at += stride)
      unpack_row(tensor.dtype, tensor.data.data() + at, row);
    std::vector<std::byte> packed(stride);
    pack_row(tensor.dtype, row, packed.data());
    std::vector<std::byte> copy(tensor.data.size());
    file.read(tensor.data, copy);
    require(std::equal(copy.begin(), copy.end(), tensor.data.begin()));
  }
}

void write_again(const gguf::File& file) {
  gguf::Writer writer;
  for (const gguf::File::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  for (const gguf::TensorInfo& tensor : file.tensors())
    writer.add_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.data);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File again = gguf::File::parse(bytes);
  require(again.metadata().size() == file.metadata().size() &&
          again.tensors().size() == file.tensors().size());
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const auto& a = file.tensors()[i];
    const auto& b = again.tensors()[i];
    require(a.name == b.name && a.shape == b.shape && a.dtype == b.dtype);
    require(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const gguf::File file = gguf::File::parse(bytes);
    touch_metadata(file);
    touch_tensors(file, bytes);
    write_again(file);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidFile || error.code() == ErrorCode::kUnsupported);
  }
  return 0;
}
