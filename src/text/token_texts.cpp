#include "text/token_texts.h"

#include <bit>
#include <cstring>

#include "weft/error.h"

namespace weft::text {
namespace {

constexpr std::size_t kMaxProbes = 512;
constexpr int kMaxSeeds = 16;

std::uint64_t mixed(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  return x ^ x >> 32;
}

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t h = seed ^ text.size() * 0xD6E8FEB86659FD93u;
  const char* p = text.data();
  std::size_t left = text.size();
  std::uint64_t word;
  for (; left > 8; left -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    h = mixed(h ^ word);
  }
  word = 0;
  for (std::size_t i = 0; i < left; ++i)
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(p[i])) << 8 * i;
  return mixed(mixed(h ^ word));
}

}  // namespace

void TokenTexts::add(std::string_view text) {
  bytes_ += text;
  begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  if (text.size() > longest_) longest_ = text.size();
}

TokenIndex::TokenIndex(const TokenTexts& texts, const std::vector<Token>& ids) : texts_(&texts) {
  slots_.resize(std::bit_ceil(2 * ids.size() + 2));
  for (int i = 0; i < kMaxSeeds; ++i) {
    seed_ = mixed(static_cast<std::uint64_t>(i) + 1);
    if (build(ids)) return;
  }
  throw Error(ErrorCode::kInvalidFile,
              "the vocabulary is damaged: tokenizer.ggml.tokens was made to cause hash collisions");
}

bool TokenIndex::build(const std::vector<Token>& ids) {
  slots_.assign(slots_.size(), Slot{});
  duplicate_ = kNoToken;
  n_duplicates_ = 0;
  const std::size_t mask = slots_.size() - 1;
  for (const Token id : ids) {
    const std::uint64_t h = hash((*texts_)[id], seed_);
    const auto tag = static_cast<std::uint32_t>(h >> 32);
    std::size_t at = h & mask, probes = 0;
    for (; slots_[at].id != kNoToken; at = (at + 1) & mask) {
      if (slots_[at].tag == tag && (*texts_)[slots_[at].id] == (*texts_)[id]) break;
      if (++probes > kMaxProbes) return false;
    }
    if (slots_[at].id == kNoToken) {
      slots_[at] = {tag, id};
    } else if (++n_duplicates_ == 1) {
      duplicate_ = id;
    }
  }
  return true;
}

Token TokenIndex::find(std::string_view text) const {
  const std::uint64_t h = hash(text, seed_);
  const auto tag = static_cast<std::uint32_t>(h >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = h & mask; slots_[at].id != kNoToken; at = (at + 1) & mask)
    if (slots_[at].tag == tag && (*texts_)[slots_[at].id] == text) return slots_[at].id;
  return kNoToken;
}

}  // namespace weft::text
