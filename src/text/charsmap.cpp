#include "text/charsmap.h"

#include <algorithm>

#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

constexpr std::size_t kMaxReplacement =
    256;  ///< Longer replacements match nothing. The longest of NFKC has 33 bytes.

constexpr std::size_t kMaxForm = 0xFFFF'FFFF;  ///< Positions are 32 bits wide.

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  return value;
}

std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10 & 0x1F'FFFF} << ((unit & 1u << 9) != 0 ? 8 : 0);
}

bool ends_text(std::uint32_t unit) { return (unit & 1u << 8) != 0; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string name = "the vocabulary is damaged: tokenizer.ggml.precompiled_charsmap ";
  if (bytes.size() < 4) throw Error(ErrorCode::kInvalidFile, name + "has less than 4 bytes");
  const std::size_t size = read_u32(bytes);
  bytes.remove_prefix(4);
  if (size % 4 != 0 || size > bytes.size())
    throw Error(ErrorCode::kInvalidFile, name + "begins with a trie of " + std::to_string(size) +
                                             " bytes, behind that are " + std::to_string(bytes.size()));
  trie_.reserve(size / 4);
  for (std::size_t i = 0; i < size; i += 4) trie_.push_back(read_u32(bytes.substr(i, 4)));
  replacements_ = bytes.substr(size);
  if (valid_prefix(replacements_) != replacements_.size())
    throw Error(ErrorCode::kInvalidFile, name + "has replacements that are not UTF-8");
  const std::size_t root = offset_of(unit(0));
  for (std::size_t b = 1; b < 256; ++b) begins_[b] = (unit(root ^ b) & (kValue | 0xFF)) == b;
}

bool Charsmap::replacement(std::size_t at, std::string_view& text) const {
  if (at >= replacements_.size()) return false;
  const std::string_view rest = std::string_view(replacements_).substr(at, kMaxReplacement + 1);
  const std::size_t end = rest.find('\0');
  const bool inside_character = !rest.empty() && (static_cast<unsigned char>(rest[0]) & 0xC0) == 0x80;
  if (end == std::string_view::npos || inside_character) return false;
  text = rest.substr(0, end);
  return true;
}

Charsmap::Step Charsmap::front(std::string_view text) const {
  Step best = {text.substr(0, char_size(text[0])), char_size(text[0])};
  if (!begins_[static_cast<unsigned char>(text[0])]) return best;
  std::size_t node = offset_of(unit(0));
  for (std::size_t i = 0; i < std::min(text.size(), kMaxSource); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    const std::uint32_t here = unit(node);
    if (byte == 0 || (here & (kValue | 0xFF)) != byte) break;
    node ^= offset_of(here);
    const bool whole_character =
        i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80;
    std::string_view found;
    if (ends_text(here) && whole_character && replacement(unit(node) & ~kValue, found)) best = {found, i + 1};
  }
  return best;
}

SentencePieceForm::SentencePieceForm(const Vocabulary& v)
    : charsmap_(v.normalizers ? std::string_view() : v.charsmap),
      add_space_prefix_(!v.normalizers && v.add_space_prefix.value_or(true)),
      remove_extra_spaces_(!v.normalizers && v.remove_extra_spaces.value_or(false)) {}

void SentencePieceForm::apply(std::string_view text, std::string& to) const {
  to.clear();
  const bool remove = remove_extra_spaces_;
  bool after_space = remove, prefix = add_space_prefix_;
  while (!text.empty()) {
    Charsmap::Step step = charsmap_.front(text);
    text.remove_prefix(step.size);
    while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
    if (step.text.empty()) continue;
    if (prefix) to += kSpaceMark;
    prefix = false;
    after_space = remove && step.text.ends_with(' ');
    for (const char c : step.text) c == ' ' ? to += kSpaceMark : to += c;
    if (to.size() > kMaxForm)
      throw Error(ErrorCode::kInvalidArgument, "the text is too long: normalised, it has more than 4 GiB");
  }
  while (remove && to.ends_with(kSpaceMark)) to.resize(to.size() - kSpaceMark.size());
}

}  // namespace weft::text
