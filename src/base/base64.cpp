#include "base/base64.h"

#include <cstdint>

namespace weft::base {
namespace {

std::optional<unsigned> digit(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<unsigned>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0' + 52);
  if (c == '+' || c == '-') return 62u;
  if (c == '/' || c == '_') return 63u;
  return std::nullopt;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (j < n ? static_cast<std::uint32_t>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += j <= n ? kLetters[group >> (18 - 6 * j) & 63U] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  unsigned bits = 0, n_bits = 0;
  for (const char c : text) {
    const std::optional<unsigned> value = digit(c);
    if (!value) return std::nullopt;
    bits = (bits << 6 | *value) & 0xffffffu;
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> n_bits & 0xffu));
  }
  return bytes;
}

}  // namespace weft::base
