#include "quality/logit_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr char kMagic[] = "_logits_";
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kHeaderBytes = kMagicBytes + 3 * sizeof(std::int32_t);
constexpr std::size_t kWordsBefore = 4;  // Two floats.
// Tokens less probable than the best by e^16 are stored as if by e^16.
constexpr float kRange = 16.0f;
constexpr float kTopCode = 65535.0f;

std::size_t words_of(std::int32_t n_vocab) { return kWordsBefore + (to_size(n_vocab) + 1) / 2 * 2; }

}  // namespace

double divergence(std::span<const float> log_probabilities, std::span<const float> logits,
                  double log_sum_exp) {
  const float floor = *std::min_element(log_probabilities.begin(), log_probabilities.end());
  const bool cut = floor <= -kRange;
  double sum = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (cut && log_probabilities[i] <= floor) continue;
    const double known = log_probabilities[i];
    sum += std::exp(known) * (known - (static_cast<double>(logits[i]) - log_sum_exp));
  }
  return sum;
}

LogitFileWriter::LogitFileWriter(const std::filesystem::path& path, const LogitFileHeader& header,
                                 std::span<const Token> tokens)
    : file_(path), row_(words_of(header.n_vocab)) {
  file_.write(std::as_bytes(std::span(kMagic, kMagicBytes)));
  file_.write(std::as_bytes(std::span(&header.n_ctx, 1)));
  file_.write(std::as_bytes(std::span(&header.n_vocab, 1)));
  file_.write(std::as_bytes(std::span(&header.n_chunks, 1)));
  file_.write(std::as_bytes(tokens));
}

void LogitFileWriter::add(std::span<const float> logits) {
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); }))
    throw Error(ErrorCode::kInvalidArgument, "a row of logits holds NaN: the model's weights are damaged");
  const float greatest = *std::max_element(logits.begin(), logits.end());
  const float least = std::max(*std::min_element(logits.begin(), logits.end()), greatest - kRange);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - greatest));
  const float scale = (greatest - least) / kTopCode;
  const float floats[] = {scale, least - greatest - static_cast<float>(std::log(sum))};
  std::memcpy(row_.data(), floats, sizeof floats);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float code = scale > 0.0f ? std::nearbyint((logits[i] - least) / scale) : 0.0f;
    row_[kWordsBefore + i] = static_cast<std::uint16_t>(std::clamp(code, 0.0f, kTopCode));
  }
  file_.write(std::as_bytes(std::span(row_)));
}

void LogitFileWriter::finish() { file_.commit(); }

LogitFileReader::LogitFileReader(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary) {
  if (!file_) throw Error(ErrorCode::kNotFound, path.string() + ": cannot be read");
  char magic[kMagicBytes];
  read(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0)
    throw Error(ErrorCode::kInvalidFile,
                path.string() + ": not a file of logits; --save-all-logits writes one");
  read(&header_.n_ctx, sizeof header_.n_ctx);
  read(&header_.n_vocab, sizeof header_.n_vocab);
  read(&header_.n_chunks, sizeof header_.n_chunks);
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  // Products of these three stay within 64 bits.
  constexpr std::int32_t kMostTokens = 1 << 24, kMostChunks = 1 << 20;
  const bool possible = header_.n_ctx >= 4 && header_.n_ctx <= kMaxChunk && header_.n_vocab >= 1 &&
                        header_.n_vocab <= kMostTokens && header_.n_chunks >= 1 &&
                        header_.n_chunks <= kMostChunks;
  const auto n_chunks = static_cast<std::uintmax_t>(header_.n_chunks);
  const std::uintmax_t of_chunk = header_.n_ctx * sizeof(Token) + (header_.n_ctx - 1 - header_.n_ctx / 2) *
                                                                      words_of(header_.n_vocab) *
                                                                      sizeof row_[0];
  if (ignored || !possible || bytes < kHeaderBytes + n_chunks * of_chunk)
    throw Error(ErrorCode::kInvalidFile, path.string() + ": invalid sizes, or a truncated file");
  tokens_.resize(std::size_t{header_.n_ctx} * to_size(header_.n_chunks));
  read(tokens_.data(), tokens_.size() * sizeof(Token));
  for (const Token token : tokens_)
    if (token < 0 || token >= header_.n_vocab)
      throw Error(ErrorCode::kInvalidFile, fmt::format("{}: the token {} is outside its vocabulary of {}",
                                                       path.string(), token, header_.n_vocab));
  row_.resize(words_of(header_.n_vocab));
}

void LogitFileReader::read(void* bytes, std::size_t n) {
  if (!file_.read(static_cast<char*>(bytes), static_cast<std::streamsize>(n)))
    throw Error(ErrorCode::kInvalidFile, path_.string() + ": ends early");
}

void LogitFileReader::next(std::span<float> log_probabilities) {
  read(row_.data(), row_.size() * sizeof row_[0]);
  float floats[2];
  std::memcpy(floats, row_.data(), sizeof floats);
  if (!std::isfinite(floats[0]) || !std::isfinite(floats[1]))
    throw Error(ErrorCode::kInvalidFile, path_.string() + ": a row has no finite scale");
  for (std::size_t i = 0; i < log_probabilities.size(); ++i)
    log_probabilities[i] = floats[1] + floats[0] * static_cast<float>(row_[kWordsBefore + i]);
}

}  // namespace weft::cli
