#include "convert/sentencepiece_model.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "base/foreign_file.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

[[noreturn]] void refuse_model(const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "the sentencepiece model " + reason);
}

/// A field of a message: a number, or bytes.
struct Field {
  std::uint64_t id = 0, number = 0;
  std::span<const std::byte> bytes;

  std::int64_t whole() const { return static_cast<std::int64_t>(number); }
  float real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(number)); }
};

class Message {
 public:
  explicit Message(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field{.id = key >> 3, .bytes = {}};
    constexpr std::uint64_t kVarint = 0, k64Bits = 1, kBytes = 2, k32Bits = 5;
    switch (key & 7) {
      case kVarint:
        field.number = varint();
        break;
      case k64Bits:
        field.number = fixed(sizeof(std::uint64_t));
        break;
      case kBytes:
        field.bytes = take(varint());
        break;
      case k32Bits:
        field.number = fixed(sizeof(std::uint32_t));
        break;
      default:
        refuse_model("is damaged, or not a sentencepiece model");
    }
    return field;
  }

 private:
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > rest_.size()) refuse_model("is truncated, or not a sentencepiece model");
    const auto part = rest_.first(to_size(n));
    rest_ = rest_.subspan(part.size());
    return part;
  }

  std::uint64_t fixed(std::size_t n) {
    std::uint64_t number = 0;
    std::memcpy(&number, take(n).data(), n);
    return number;
  }

  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint64_t>(take(1).front());
      number |= (byte & 127) << shift;
      if (byte < 128) return number;
    }
    refuse_model("has a number that is too long");
  }

  std::span<const std::byte> rest_;
};

void each_field(std::span<const std::byte> bytes, const std::function<void(const Field&)>& take) {
  Message message(bytes);
  while (const auto field = message.next()) take(*field);
}

SentencePieceModel::Piece read_piece(std::span<const std::byte> bytes) {
  constexpr std::int64_t kLastKind = 6;
  SentencePieceModel::Piece piece;
  each_field(bytes, [&](const Field& field) {
    if (field.id == 1)
      piece.text.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    if (field.id == 2) piece.score = field.real();
    if (field.id != 3) return;
    if (field.whole() < 1 || field.whole() > kLastKind) refuse_model("has a piece of an unknown type");
    piece.kind = static_cast<std::int32_t>(field.whole());
  });
  return piece;
}

}  // namespace

SentencePieceModel read_sentencepiece(std::span<const std::byte> bytes) {
  if (base::is_lfs_pointer(bytes)) refuse_model("is " + std::string(base::kLfsPointer));
  constexpr std::uint64_t kPieces = 1, kTrainer = 2, kNormaliser = 3;
  SentencePieceModel model;
  const auto trainer = [&](const Field& field) {
    constexpr std::uint64_t kKind = 3, kUnknownId = 40, kBos = 41, kEos = 42, kPadding = 43;
    constexpr std::int64_t kUnigram = 1, kPairs = 2;
    // Numbers below 0 are stored as 64 bits, or cut to 32.
    const std::int64_t id = static_cast<std::int32_t>(field.number);
    if (field.id == kKind && field.whole() != kUnigram && field.whole() != kPairs)
      throw Error(ErrorCode::kUnsupported,
                  "the sentencepiece model is of the type word or char; known are unigram and BPE");
    if (field.id == kKind) model.unigram = field.whole() == kUnigram;
    if (field.id == kUnknownId) model.unknown = id;
    if (field.id == kBos) model.bos = id;
    if (field.id == kEos) model.eos = id;
    if (field.id == kPadding) model.padding = id;
  };
  const auto normaliser = [&](const Field& field) {
    const auto* const map = reinterpret_cast<const std::uint8_t*>(field.bytes.data());
    if (field.id == 2) model.charsmap.assign(map, map + field.bytes.size());
    if (field.id == 3) model.adds_space = field.number != 0;
    if (field.id == 4) model.removes_extra_spaces = field.number != 0;
  };
  each_field(bytes, [&](const Field& field) {
    if (field.id == kPieces) model.pieces.push_back(read_piece(field.bytes));
    if (field.id == kTrainer) each_field(field.bytes, trainer);
    if (field.id == kNormaliser) each_field(field.bytes, normaliser);
  });
  if (model.pieces.empty()) refuse_model("has no pieces");
  return model;
}

}  // namespace weft::convert_impl
