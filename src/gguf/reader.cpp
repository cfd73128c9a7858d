#include "gguf/reader.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/foreign_file.h"
#include "base/notes.h"
#include "base/to_size.h"
#include "gguf/limits.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are taken from files as they are");

// Bytes of a file that are read at once: most headers are a few reads.
constexpr std::size_t kWindowBytes = std::size_t{1} << 18;

// A walk through bytes that never leaves them. Errors name the source and the item that was being read.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Cursor(const base::MappedFile& file, std::string_view source)
      : bytes_(file.bytes()), file_(&file), source_(source) {}

  std::span<const std::byte> bytes() const { return bytes_; }  // Not to be read.

  std::size_t at() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }

  // What errors name from now on: `kind` ("tensor") with its name or, before that is known, its number. The
  // strings must stay.
  void subject(const char* kind, std::uint64_t number) {
    kind_ = kind;
    number_ = number;
    name_ = {};
  }
  void subject_name(std::string_view name) { name_ = name; }

  [[noreturn]] void fail(const std::string& problem, ErrorCode code = ErrorCode::kInvalidFile) const {
    const std::string source(source_);
    throw Error(code, (source.empty() ? "" : source + ": ") + about_subject() + problem);
  }

  // Notes an oddity and how it is read.
  void note(const std::string& what) { base::add_note(notes_, about_subject() + what); }
  std::vector<std::string> take_notes() { return std::move(notes_); }

  // Valid until the next call.
  std::span<const std::byte> take(std::uint64_t n, const char* what) {
    if (n > remaining())
      fail(std::string("the file ends within ") + what + ": " + base::counted(n, "byte") +
           " expected at byte " + std::to_string(at_) + ", " + std::to_string(remaining()) +
           " left (is the download complete?)");
    const auto part = bytes_.subspan(at_, to_size(n));
    if (file_ != nullptr && at_ + part.size() > window_at_ + window_.size()) {
      window_.resize(std::max(part.size(), std::min(kWindowBytes, remaining())));
      file_->read(bytes_.subspan(at_, window_.size()), window_);
      window_at_ = at_;
    }
    const std::size_t begin = std::exchange(at_, at_ + part.size());
    return file_ == nullptr ? part : std::span(window_).subspan(begin - window_at_, part.size());
  }

  template <typename T>
  T read(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string read_string(const char* what) {
    const auto length = read<std::uint64_t>(what);
    const auto text = take(length, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // A key or a tensor's name.
  std::string read_name(std::size_t max_bytes) {
    const auto length = read<std::uint64_t>("its name's length");
    if (length == 0 || length > max_bytes)
      fail("the name has " + std::to_string(length) + " bytes, expected 1 to " + std::to_string(max_bytes));
    const auto bytes = take(length, "its name");
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const char c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        fail("the name " + in_quotes(text) + " holds a control character");
    return text;
  }

 private:
  std::string about_subject() const {
    if (kind_ == nullptr) return {};
    return kind_ + (" " + (name_.empty() ? std::to_string(number_) : in_quotes(name_))) + ": ";
  }

  std::span<const std::byte> bytes_;
  std::vector<std::string> notes_;
  const base::MappedFile* file_ = nullptr;  // The file of the bytes, which are then read from it.
  std::vector<std::byte> window_;           // The bytes read last ...
  std::size_t window_at_ = 0;               // ... and their offset.
  std::size_t at_ = 0;
  std::string_view source_;
  const char* kind_ = nullptr;
  std::uint64_t number_ = 0;
  std::string_view name_;
};

struct ValueTypeRow {
  std::string_view name;
  std::uint8_t bytes;  // In a file; of strings and arrays the least.
};
constexpr ValueTypeRow kValueTypes[] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},    {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 8}, {"array", 12}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

ValueType read_value_type(Cursor& cursor, const char* what) {
  const auto id = cursor.read<std::uint32_t>(what);
  if (id >= std::size(kValueTypes))
    cursor.fail(std::string(what) + " is " + std::to_string(id) + ", expected 0 to " +
                std::to_string(std::size(kValueTypes) - 1));
  return static_cast<ValueType>(id);
}

// All that is not 0 becomes 1, which is how a bool is written.
void mend_bools(std::span<std::byte> bytes, Cursor& cursor) {
  const auto is_odd = [](std::byte b) { return b > std::byte{1}; };
  const auto odd = std::find_if(bytes.begin(), bytes.end(), is_odd);
  if (odd == bytes.end()) return;
  cursor.note("found the bool " + std::to_string(std::to_integer<int>(*odd)) +
              ", expected 0 or 1; it is true");
  std::replace_if(bytes.begin(), bytes.end(), is_odd, std::byte{1});
}

class MetadataReader {
 public:
  explicit MetadataReader(Cursor& cursor) : cursor_(cursor) {}

  Value read(ValueType type, int depth) {
    switch (type) {
      case ValueType::kU8:
        return {type, number<std::uint8_t, std::uint64_t>()};
      case ValueType::kU16:
        return {type, number<std::uint16_t, std::uint64_t>()};
      case ValueType::kU32:
        return {type, number<std::uint32_t, std::uint64_t>()};
      case ValueType::kU64:
        return {type, number<std::uint64_t, std::uint64_t>()};
      case ValueType::kI8:
        return {type, number<std::int8_t, std::int64_t>()};
      case ValueType::kI16:
        return {type, number<std::int16_t, std::int64_t>()};
      case ValueType::kI32:
        return {type, number<std::int32_t, std::int64_t>()};
      case ValueType::kI64:
        return {type, number<std::int64_t, std::int64_t>()};
      case ValueType::kF32:
        return {type, number<float, double>()};
      case ValueType::kF64:
        return {type, number<double, double>()};
      case ValueType::kBool: {
        auto value = cursor_.read<std::byte>("its value");
        mend_bools({&value, 1}, cursor_);
        return {type, std::to_integer<std::uint64_t>(value)};
      }
      case ValueType::kString:
        return {type, cursor_.read_string("its string")};
      case ValueType::kArray:
        break;
    }
    return {type, read_array(depth + 1)};
  }

 private:
  template <typename Stored, typename T>
  T number() {
    return static_cast<T>(cursor_.read<Stored>("its value"));
  }

  Array read_array(int depth) {
    if (depth > kMaxArrayDepth)
      cursor_.fail("arrays are nested deeper than " + std::to_string(kMaxArrayDepth) + " levels");
    Array array;
    array.element_type = read_value_type(cursor_, "the array's element type");
    const auto count = cursor_.read<std::uint64_t>("the array's length");
    if (count > cursor_.remaining() / least_bytes(array.element_type))
      cursor_.fail("an array of " + std::to_string(count) + " elements (" +
                   std::string(to_string(array.element_type)) + ") does not fit into the " +
                   std::to_string(cursor_.remaining()) + " bytes that are left");
    const auto n = to_size(count);
    switch (array.element_type) {
      case ValueType::kString: {
        std::vector<std::string> strings;
        strings.reserve(n);
        for (std::size_t i = 0; i < n; ++i) strings.push_back(cursor_.read_string("the array's strings"));
        array.elements = std::move(strings);
        break;
      }
      case ValueType::kArray: {
        n_nested_ += n;
        if (n_nested_ > kMaxNestedArrays)
          cursor_.fail("more than " + std::to_string(kMaxNestedArrays) + " nested arrays");
        std::vector<Value> values;
        values.reserve(n);
        for (std::size_t i = 0; i < n; ++i) values.push_back(read(ValueType::kArray, depth));
        array.elements = std::move(values);
        break;
      }
      case ValueType::kF32:
      case ValueType::kF64:
        array.elements = read_numbers<double>(array.element_type, n);
        break;
      case ValueType::kI8:
      case ValueType::kI16:
      case ValueType::kI32:
      case ValueType::kI64:
        array.elements = read_numbers<std::int64_t>(array.element_type, n);
        break;
      case ValueType::kBool:
      case ValueType::kU8:
      case ValueType::kU16:
      case ValueType::kU32:
      case ValueType::kU64:
        array.elements = read_numbers<std::uint64_t>(array.element_type, n);
        break;
    }
    return array;
  }

  template <typename T>
  Numbers<T> read_numbers(ValueType type, std::size_t n) {
    const auto bytes = cursor_.take(n * least_bytes(type), "the array");
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (type == ValueType::kBool) mend_bools(copy, cursor_);
    return {type, std::move(copy)};
  }

  Cursor& cursor_;
  std::size_t n_nested_ = 0;
};

// Ids of types that GGUF files may have and weft has no row for.
std::string_view other_type(std::uint32_t id) {
  switch (id) {
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    default:
      return {};
  }
}

// A tensor as its file describes it, before its data are looked at.
struct Described {
  TensorInfo info;
  std::uint64_t offset = 0;  // From the start of the data.
  std::size_t bytes = 0;
};

void read_shape(Cursor& cursor, TensorInfo& tensor) {
  const auto n_dims = cursor.read<std::uint32_t>("its number of dimensions");
  if (n_dims > kMaxDims)
    cursor.fail("it has " + std::to_string(n_dims) + " dimensions, expected 1 to " +
                std::to_string(kMaxDims));
  if (n_dims == 0) tensor.shape = {1};  // A number.
  if (n_dims == 0) return;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t n_elements = 1;  // A dimension of 0 counts as 1: no order of multiplying may overflow.
  tensor.shape.resize(n_dims);
  // Files have the innermost dimension first.
  for (std::size_t i = n_dims; i-- > 0;) {
    const auto dim = cursor.read<std::uint64_t>("its dimensions");
    if (dim > kMax / n_elements) cursor.fail("its dimensions are too large, more than 2^63 elements");
    n_elements *= std::max<std::uint64_t>(dim, 1);
    tensor.shape[i] = static_cast<std::int64_t>(dim);
  }
}

DType read_dtype(Cursor& cursor) {
  const auto id = cursor.read<std::uint32_t>("its type");
  if (const auto type = dtype_from_id(id)) return *type;
  const std::string_view other = other_type(id);
  if (other.empty()) cursor.fail("unknown type " + std::to_string(id));
  cursor.fail("weft cannot read type " + std::string(other) + " (" + std::to_string(id) +
                  "); take the model in another quantisation, such as Q4_K_M or Q8_0",
              ErrorCode::kUnsupported);
}

Described read_tensor(Cursor& cursor, std::uint64_t alignment, std::size_t file_bytes) {
  Described tensor;
  tensor.info.name = cursor.read_name(kMaxTensorNameBytes);
  cursor.subject_name(tensor.info.name);
  read_shape(cursor, tensor.info);
  tensor.info.dtype = read_dtype(cursor);
  tensor.offset = cursor.read<std::uint64_t>("its offset");

  const DTypeInfo& type = info(tensor.info.dtype);
  const std::int64_t row = tensor.info.shape.back();
  if (row % type.block_elements != 0)
    cursor.fail("rows of " + std::to_string(row) + " elements, expected a multiple of " +
                std::to_string(type.block_elements) + " for type " + std::string(type.name));
  const auto n_blocks = static_cast<std::uint64_t>(tensor.info.n_elements() / type.block_elements);
  const auto block_bytes = static_cast<std::uint64_t>(type.block_bytes);
  if (n_blocks > file_bytes / block_bytes)
    cursor.fail("its " + std::to_string(tensor.info.n_elements()) + " elements of type " +
                std::string(type.name) + " need more bytes than the whole file has, " +
                std::to_string(file_bytes) + " (is the download complete?)");
  tensor.bytes = to_size(n_blocks * block_bytes);
  if (tensor.offset % alignment != 0)
    cursor.fail("its offset " + std::to_string(tensor.offset) + " is not a multiple of the alignment, " +
                std::to_string(alignment));
  cursor.subject_name({});  // The name is about to move.
  return tensor;
}

std::uint64_t alignment_of(const std::vector<File::Entry>& metadata, Cursor& cursor) {
  for (const File::Entry& entry : metadata) {
    if (entry.key != kAlignmentKey) continue;
    cursor.subject("metadata key", 0);
    cursor.subject_name(entry.key);
    const std::optional<std::int64_t> found = to_int(entry.value);
    if (!found)
      cursor.fail("it is of type " + std::string(to_string(entry.value.type)) +
                  ", expected an integer less than 2^63");
    const auto alignment = static_cast<std::uint64_t>(std::max<std::int64_t>(*found, 0));
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
      cursor.fail("found " + std::to_string(*found) + ", expected a power of two of at most " +
                  std::to_string(kMaxAlignment));
    return alignment;
  }
  return kDefaultAlignment;
}

struct Header {
  std::uint32_t version;
  std::uint64_t n_tensors;
  std::uint64_t n_keys;
};

[[noreturn]] void refuse_foreign(std::uint32_t magic, Cursor& cursor) {
  std::vector<std::byte> begin(sizeof(magic));
  std::memcpy(begin.data(), &magic, sizeof(magic));
  const auto rest = cursor.take(std::min(cursor.remaining(), base::kSniffedBytes), "its beginning");
  begin.insert(begin.end(), rest.begin(), rest.end());
  const std::string known = base::foreign_file_text(begin);
  cursor.fail("not a GGUF file: it " + (known.empty() ? "does not begin with \"GGUF\"" : "is " + known));
}

Header read_header(Cursor& cursor) {
  if (cursor.remaining() < kHeaderBytes)
    cursor.fail("not a GGUF file: it has " + base::counted(cursor.remaining(), "byte") +
                ", but a header has " + std::to_string(kHeaderBytes));
  Header header{};
  const auto magic = cursor.read<std::uint32_t>("the magic number");
  if (magic != kMagic) refuse_foreign(magic, cursor);
  header.version = cursor.read<std::uint32_t>("the version");
  if (header.version != 0 && (header.version & 0xffff) == 0)
    cursor.fail("a big-endian GGUF file, expected little-endian; convert it with gguf_convert_endian.py");
  if (header.version < 2 || header.version > kVersion)
    cursor.fail("GGUF version " + std::to_string(header.version) +
                ", expected 2 or 3; convert the model anew");
  header.n_tensors = cursor.read<std::uint64_t>("the number of tensors");
  header.n_keys = cursor.read<std::uint64_t>("the number of metadata keys");

  // The least that a key takes: a name of one byte and a value of one. A tensor: a name, one dimension.
  constexpr std::uint64_t kKeyBytes = 8 + 1 + 4 + 1;
  constexpr std::uint64_t kTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
  if (header.n_keys > std::min<std::uint64_t>(kMaxKeys, cursor.remaining() / kKeyBytes))
    cursor.fail("the header says " + std::to_string(header.n_keys) + " metadata keys, which " +
                std::to_string(cursor.remaining()) + " bytes cannot hold, or weft does not support");
  const std::uint64_t left = cursor.remaining() - header.n_keys * kKeyBytes;
  if (header.n_tensors > std::min<std::uint64_t>(kMaxTensors, left / kTensorBytes))
    cursor.fail("the header says " + std::to_string(header.n_tensors) + " tensors, which " +
                std::to_string(left) + " bytes cannot hold, or weft does not support");
  return header;
}

// Gives each tensor its bytes, after checking that they are in the file and belong to no other tensor.
std::vector<TensorInfo> locate(std::vector<Described> described, std::span<const std::byte> bytes,
                               std::uint64_t alignment, Cursor& cursor) {
  const std::uint64_t end_of_header = cursor.at();
  const std::uint64_t data_begin = (end_of_header + alignment - 1) / alignment * alignment;
  const std::uint64_t data_bytes = data_begin < bytes.size() ? bytes.size() - data_begin : 0;

  std::vector<std::uint32_t> order(described.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Described& tensor = described[i];
    cursor.subject("tensor", i);
    cursor.subject_name(tensor.info.name);
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset)
      cursor.fail("its data, " + std::to_string(tensor.bytes) + " bytes at offset " +
                  std::to_string(tensor.offset) + ", end beyond the file's " + std::to_string(data_bytes) +
                  " bytes of data (is the download complete?)");
    described[i].info.data = bytes.subspan(to_size(data_begin + tensor.offset), tensor.bytes);
    order[i] = static_cast<std::uint32_t>(i);
  }

  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return described[a].offset < described[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Described& before = described[order[i - 1]];
    const Described& tensor = described[order[i]];
    if (tensor.offset - before.offset >= before.bytes) continue;
    cursor.subject_name(tensor.info.name);
    cursor.fail("its data overlap those of tensor " + in_quotes(before.info.name));
  }

  std::vector<TensorInfo> tensors;
  tensors.reserve(described.size());
  for (Described& tensor : described) tensors.push_back(std::move(tensor.info));
  return tensors;
}

}  // namespace

std::size_t least_bytes(ValueType type) { return kValueTypes[static_cast<std::size_t>(type)].bytes; }

std::string_view to_string(ValueType type) { return kValueTypes[static_cast<std::size_t>(type)].name; }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxShown = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      result += c;
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    result += escaped;
  }
  return result + (text.size() > kMaxShown ? "...\"" : "\"");
}

namespace {

Part read_part(Cursor& cursor) {
  const Header header = read_header(cursor);
  Part part;
  part.version = header.version;

  MetadataReader metadata(cursor);
  part.metadata.reserve(to_size(header.n_keys));
  for (std::uint64_t i = 0; i < header.n_keys; ++i) {
    cursor.subject("metadata key", i);
    File::Entry& entry = part.metadata.emplace_back();
    entry.key = cursor.read_name(kMaxKeyBytes);
    cursor.subject_name(entry.key);
    const ValueType type = read_value_type(cursor, "its type");
    entry.value = metadata.read(type, 0);
  }
  const std::uint64_t alignment = alignment_of(part.metadata, cursor);

  std::vector<Described> described;
  described.reserve(to_size(header.n_tensors));
  for (std::uint64_t i = 0; i < header.n_tensors; ++i) {
    cursor.subject("tensor", i);
    described.push_back(read_tensor(cursor, alignment, cursor.bytes().size()));
    if (described.back().info.n_elements() > 0) continue;
    cursor.subject_name(described.back().info.name);
    cursor.note("it has no elements and is ignored");
    described.pop_back();
  }
  part.tensors = locate(std::move(described), cursor.bytes(), alignment, cursor);
  part.notes = cursor.take_notes();
  return part;
}

}  // namespace

Part read_part(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  return read_part(cursor);
}

Part read_part(const base::MappedFile& file, std::string_view source) {
  Cursor cursor(file, source);
  return read_part(cursor);
}

}  // namespace weft::gguf
