#pragma once
// Files of reference logits: tokens, and a model's log-probabilities for each next token.
// --kl-divergence-base compares another model, or a quantization of the same one, with them. The format is
// llama.cpp's, little-endian:
//
//   "_logits_"  u32 tokens of a chunk  i32 vocabulary  i32 chunks  i32 each token
//   for each chunk, for each token of its second half but the last:
//     f32 scale  f32 least  u16 each log-probability as least + scale * code  (and two bytes where they are
//     odd)
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "base/atomic_file.h"
#include "weft/types.h"

namespace weft::cli {

struct LogitFileHeader {
  std::uint32_t n_ctx = 0;
  std::int32_t n_vocab = 0;
  std::int32_t n_chunks = 0;
};

/// The Kullback-Leibler divergence of a model's logits, with their log-sum-exp, from a row of such a file.
/// Tokens at the row's floor are left out. Their probabilities are unknown, and a large vocabulary would add
/// up to a wrong mass.
double divergence(std::span<const float> log_probabilities, std::span<const float> logits,
                  double log_sum_exp);

/// Maximum tokens of a chunk.
inline constexpr int kMaxChunk = 1 << 20;

class LogitFileWriter {
 public:
  /// Throws Error kIo, as all functions here do. The file appears whole with finish(), or not at all.
  LogitFileWriter(const std::filesystem::path& path, const LogitFileHeader& header,
                  std::span<const Token> tokens);
  /// The next row's logits. Throws Error kInvalidArgument if one is not a finite number.
  void add(std::span<const float> logits);
  void finish();

 private:
  base::AtomicFile file_;
  std::vector<std::uint16_t> row_;
};

class LogitFileReader {
 public:
  /// Throws Error kNotFound, and kInvalidFile for an invalid or truncated file.
  explicit LogitFileReader(const std::filesystem::path& path);
  const LogitFileHeader& header() const { return header_; }
  std::span<const Token> tokens() const { return tokens_; }
  /// The next row's log-probabilities.
  void next(std::span<float> log_probabilities);

 private:
  void read(void* bytes, std::size_t n);

  std::filesystem::path path_;
  std::ifstream file_;
  LogitFileHeader header_;
  std::vector<Token> tokens_;
  std::vector<std::uint16_t> row_;
};

}  // namespace weft::cli
