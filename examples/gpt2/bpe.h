#pragma once
// GPT-2's tokens: pairs of bytes that are merged by rank, within words that a regular expression cuts
// (https://github.com/openai/gpt-2/blob/master/src/encoder.py).
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct pcre2_real_code_8;

namespace gpt2 {

using Token = std::int32_t;

class Bpe {
 public:
  /// Reads a tokenizer.json, whose tokens must be below n_vocab. Throws weft::Error that names the file.
  Bpe(const std::filesystem::path& file, int n_vocab);

  /// Control tokens in the input are not recognised. Throws weft::Error kInvalidArgument for invalid UTF-8.
  std::vector<Token> encode(std::string_view text) const;
  /// The bytes of tokens: pieces of characters at the ends are as they are.
  std::string decode(std::span<const Token> tokens) const;

 private:
  struct Merge {
    std::size_t rank = 0;
    Token token = 0;
  };
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  static std::uint64_t pair_of(Token a, Token b) {
    return std::uint64_t{static_cast<std::uint32_t>(a)} << 32 | static_cast<std::uint32_t>(b);
  }
  void append_word(std::string_view word, std::vector<Token>& tokens) const;

  std::vector<std::string> bytes_;  // By token.
  std::array<Token, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::unique_ptr<pcre2_real_code_8, FreeCode> words_;
};

}  // namespace gpt2
