#include "weft/prefix_state.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr std::array<char, 8> kMagic = {'w', 'e', 'f', 't', 't', 'e', 'x', 't'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t n_tokens;
  std::uint64_t state_bytes;
};

base::Hash128 checksum(std::span<const std::byte> bytes) {
  base::Hasher hash;
  hash.add(bytes);
  return hash.result();
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorCode::kInvalidFile, "the saved sequence is damaged: " + what + "; nothing was restored");
}

}  // namespace

std::vector<std::byte> write_prefix_state(std::span<const Token> tokens, std::span<const std::byte> state) {
  const Header header = {kMagic, kVersion, static_cast<std::uint32_t>(tokens.size()), state.size()};
  std::vector<std::byte> bytes(sizeof(Header) + tokens.size_bytes() + state.size() + sizeof(base::Hash128));
  std::size_t n = 0;
  const auto add = [&](const void* part, std::size_t size) {
    if (size > 0) std::memcpy(bytes.data() + n, part, size);
    n += size;
  };
  add(&header, sizeof(header));
  add(tokens.data(), tokens.size_bytes());
  add(state.data(), state.size());
  const base::Hash128 sum = checksum(std::span(bytes).first(n));
  add(&sum, sizeof(sum));
  return bytes;
}

PrefixState read_prefix_state(std::span<const std::byte> bytes) {
  constexpr std::size_t kFrame = sizeof(Header) + sizeof(base::Hash128);
  if (bytes.size() < kFrame) damaged("it has " + std::to_string(bytes.size()) + " bytes");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic)
    throw Error(ErrorCode::kInvalidFile, "these bytes are not a sequence that weft saved");
  if (header.version != kVersion)
    throw Error(ErrorCode::kUnsupported, "the saved sequence has version " + std::to_string(header.version) +
                                             ", this weft reads version " + std::to_string(kVersion));
  const std::size_t n_body = bytes.size() - kFrame;
  const std::size_t token_bytes = std::size_t{header.n_tokens} * sizeof(Token);
  if (token_bytes > n_body || header.state_bytes != n_body - token_bytes)
    damaged("its counts contradict its size");
  base::Hash128 sum;
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof(sum), sizeof(sum));
  if (!(sum == checksum(bytes.first(bytes.size() - sizeof(sum))))) damaged("its checksum is wrong");
  PrefixState result;
  result.tokens.resize(header.n_tokens);
  if (token_bytes > 0) std::memcpy(result.tokens.data(), bytes.data() + sizeof(Header), token_bytes);
  result.state = bytes.subspan(sizeof(Header) + token_bytes, n_body - token_bytes);
  return result;
}

}  // namespace weft
