#include "logit_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr char kMagic[] = "_logits_";
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kWordsBefore = 4;  // Two floats.
// What is less probable than the best by e^16 counts as if it were that.
constexpr float kRange = 16.0f;
constexpr float kTopCode = 65535.0f;

std::size_t words_of(int n_vocab) { return kWordsBefore + static_cast<std::size_t>(n_vocab + 1) / 2 * 2; }

}  // namespace

LogitFileWriter::LogitFileWriter(const std::filesystem::path& path, const LogitFileHeader& header,
                                 std::span<const Token> tokens)
    : path_(path), file_(path, std::ios::binary), row_(words_of(header.n_vocab)) {
  write(kMagic, kMagicBytes);
  write(&header.n_ctx, sizeof header.n_ctx);
  write(&header.n_vocab, sizeof header.n_vocab);
  write(&header.n_chunks, sizeof header.n_chunks);
  write(tokens.data(), tokens.size_bytes());
}

void LogitFileWriter::write(const void* bytes, std::size_t n) {
  file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(n));
  if (!file_) throw Error(ErrorCode::kIo, path_.string() + ": cannot be written");
}

void LogitFileWriter::add(std::span<const float> logits) {
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
  write(row_.data(), row_.size() * sizeof row_[0]);
}

void LogitFileWriter::finish() {
  file_.flush();
  write("", 0);
}

LogitFileReader::LogitFileReader(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary) {
  if (!file_) throw Error(ErrorCode::kNotFound, path.string() + ": cannot be read");
  char magic[kMagicBytes];
  read(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0)
    throw Error(ErrorCode::kInvalidFile,
                path.string() + ": is no file of logits; --save-all-logits writes one");
  read(&header_.n_ctx, sizeof header_.n_ctx);
  read(&header_.n_vocab, sizeof header_.n_vocab);
  read(&header_.n_chunks, sizeof header_.n_chunks);
  const auto bytes = std::filesystem::file_size(path);
  // A row is half of a chunk's tokens at most, so the file bounds what is reserved.
  if (header_.n_ctx < 4 || header_.n_vocab < 1 || header_.n_chunks < 1 || header_.n_ctx > bytes ||
      static_cast<std::uint64_t>(header_.n_chunks) > bytes / sizeof(Token) / header_.n_ctx ||
      static_cast<std::uint64_t>(header_.n_vocab) > bytes)
    throw Error(ErrorCode::kInvalidFile, path.string() + ": its sizes are not those of such a file");
  tokens_.resize(std::size_t{header_.n_ctx} * static_cast<std::size_t>(header_.n_chunks));
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
