#include "speech/decoding.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::speech {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kLatestStart = 1.0;  // Seconds: of the first timestamp.

float largest(std::span<const float> logits) {
  return logits.empty() ? kNever : *std::max_element(logits.begin(), logits.end());
}

/// The logarithm of the sum of e^x.
double log_sum(std::span<const float> logits) {
  const float most = largest(logits);
  if (most == kNever) return static_cast<double>(kNever);
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - static_cast<double>(most));
  return static_cast<double>(most) + std::log(sum);
}

Token draw(std::span<const float> logits, float temperature, std::mt19937_64& random) {
  if (temperature <= 0.0f)
    return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const double most = static_cast<double>(largest(logits)), scale = 1.0 / static_cast<double>(temperature);
  std::vector<double> weights;
  weights.reserve(logits.size());
  double sum = 0.0;
  for (const float x : logits) weights.push_back(sum += std::exp((static_cast<double>(x) - most) * scale));
  const double at = std::uniform_real_distribution<double>(0.0, sum)(random);
  const auto found = std::upper_bound(weights.begin(), weights.end(), at);
  return static_cast<Token>(std::min(found, weights.end() - 1) - weights.begin());
}

}  // namespace

void apply_rules(const Vocabulary& v, std::span<const Token> generated, std::span<float> logits) {
  const auto n = static_cast<Token>(logits.size());
  const auto forbid = [&](Token from, Token to) {
    to = std::min(to, n);
    if (from < to) std::fill(logits.begin() + from, logits.begin() + to, kNever);
  };
  for (const Token token : v.suppressed) forbid(token, token + 1);
  forbid(v.no_timestamps, v.no_timestamps + 1);
  if (generated.empty()) {
    for (const Token token : v.suppressed_at_start) forbid(token, token + 1);
    forbid(0, v.first_timestamp);
    return forbid(
        v.first_timestamp + static_cast<Token>(std::lround(kLatestStart / kSecondsPerTimestamp)) + 1, n);
  }
  const bool after_timestamp = v.is_timestamp(generated.back());
  // The first one stands alone: it ends no segment.
  const bool after_pair =
      after_timestamp && (generated.size() < 2 || v.is_timestamp(generated[generated.size() - 2]));
  if (after_pair) forbid(v.first_timestamp, n);
  if (after_timestamp && !after_pair) forbid(0, v.end);
  const auto last =
      std::find_if(generated.rbegin(), generated.rend(), [&](Token token) { return v.is_timestamp(token); });
  // Segments have a length: only the start of the next one may be the same time.
  if (last != generated.rend()) forbid(v.first_timestamp, after_timestamp && !after_pair ? *last : *last + 1);
  // A timestamp follows if all timestamps together are more probable than any other token.
  const std::span<const float> all = logits;
  const auto first = to_size(v.first_timestamp);
  if (log_sum(all.subspan(first)) > static_cast<double>(largest(all.first(first))))
    forbid(0, v.first_timestamp);
}

std::vector<float> probabilities(std::span<const float> logits, std::span<const Token> tokens) {
  std::vector<float> chosen;
  for (const Token token : tokens) chosen.push_back(logits[to_size(token)]);
  const double sum = log_sum(chosen);
  for (float& x : chosen) x = static_cast<float>(std::exp(static_cast<double>(x) - sum));
  return chosen;
}

double compression_ratio(const std::string& text) {
  if (text.empty()) return 0.0;
  uLongf size = compressBound(text.size());
  std::vector<Bytef> compressed(size);
  if (compress(compressed.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size()) != Z_OK ||
      size == 0)
    return 0.0;
  return static_cast<double>(text.size()) / static_cast<double>(size);
}

Decoded decode(Decoder& decoder, const Vocabulary& vocabulary, std::span<const Token> prompt, int start,
               const DecodeParams& params, std::mt19937_64& random) {
  Decoded decoded;
  decoded.temperature = params.temperature;
  std::vector<Token> sequence(prompt.begin(), prompt.end());
  std::vector<float> row;
  double log_prob = 0.0;
  while (true) {
    if (params.goes_on && !params.goes_on())
      throw Error(ErrorCode::kCancelled, "the transcription was cancelled");
    const bool first = decoded.tokens.empty();
    const Decoder::Logits logits = decoder.logits(sequence, first ? start : -1);
    if (!std::all_of(logits.last.begin(), logits.last.end(), [](float x) { return std::isfinite(x); }))
      throw Error(ErrorCode::kInvalidFile,
                  "the model computed values that are not numbers; its file may be damaged");
    if (first)
      decoded.no_speech =
          std::exp(static_cast<double>(logits.also[to_size(vocabulary.no_speech)]) - log_sum(logits.also));
    row.assign(logits.last.begin(), logits.last.end());
    apply_rules(vocabulary, decoded.tokens, row);
    const Token token = draw(row, params.temperature, random);
    const double log_prob_of_token = static_cast<double>(row[to_size(token)]) - log_sum(row);
    if (!std::isfinite(log_prob_of_token)) break;  // All tokens are ruled out.
    log_prob += log_prob_of_token;
    if (token == vocabulary.end) break;
    decoded.tokens.push_back(token);
    decoded.probabilities.push_back(static_cast<float>(std::exp(log_prob_of_token)));
    sequence.push_back(token);
    if (std::ssize(decoded.tokens) == params.max_tokens) break;
  }
  decoded.mean_log_prob = log_prob / static_cast<double>(decoded.tokens.size() + 1);
  decoded.compression_ratio = compression_ratio(vocabulary.text(decoded.tokens));
  return decoded;
}

}  // namespace weft::speech
