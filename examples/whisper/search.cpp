#include "search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace whisper {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kLatestStart = 1.0;  // Seconds.

float largest(std::span<const float> logits) {
  return logits.empty() ? kNever : *std::max_element(logits.begin(), logits.end());
}

/// The logarithm of the sum of e^x.
float log_sum(std::span<const float> logits) {
  const float most = largest(logits);
  if (most == kNever) return kNever;
  double sum = 0.0;
  for (const float x : logits)
    if (x != kNever) sum += static_cast<double>(std::exp(x - most));
  return most + static_cast<float>(std::log(sum));
}

/// Rules out tokens that may not follow the generated ones.
class Rules {
 public:
  explicit Rules(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void apply(std::span<const Token> generated, std::span<float> logits) const {
    const Vocabulary& v = vocabulary_;
    const auto forbid = [&](Token from, Token to) {
      std::fill(logits.begin() + from, logits.begin() + std::max(from, to), kNever);
    };
    for (const Token token : v.suppressed) forbid(token, token + 1);
    forbid(v.no_timestamps, v.no_timestamps + 1);
    if (generated.empty()) {
      for (const Token token : v.suppressed_at_start) forbid(token, token + 1);
      forbid(0, v.first_timestamp);
      const auto latest = static_cast<Token>(std::lround(kLatestStart / Vocabulary::kSecondsPerTimestamp));
      return forbid(std::min(v.first_timestamp + latest + 1, v.size()), v.size());
    }
    const bool after_timestamp = v.is_timestamp(generated.back());
    // The first one stands alone: it ends no piece.
    const bool after_pair = after_timestamp && (generated.size() < 2 || v.is_timestamp(generated.end()[-2]));
    if (after_pair) forbid(v.first_timestamp, v.size());
    if (after_timestamp && !after_pair) forbid(0, v.end);
    const auto last = std::find_if(generated.rbegin(), generated.rend(),
                                   [&](Token token) { return v.is_timestamp(token); });
    if (last != generated.rend()) forbid(v.first_timestamp, *last);
    // If all timestamps together are more probable than any word, it is time for one.
    const std::span<const float> all = logits;
    const auto first = static_cast<std::size_t>(v.first_timestamp);
    if (!after_pair && log_sum(all.subspan(first)) > largest(all.first(first))) forbid(0, v.first_timestamp);
  }

 private:
  const Vocabulary& vocabulary_;
};

/// A sequence with one more token.
struct Candidate {
  std::size_t sequence;  ///< Index in the beam.
  Token token;
  float log_prob;  ///< Of all its tokens.
};

bool better(const Candidate& a, const Candidate& b) { return a.log_prob > b.log_prob; }

/// Adds the n best continuations of a sequence to the candidates.
void add_best(std::span<const float> logits, std::size_t sequence, float log_prob, std::size_t n,
              std::vector<Candidate>& candidates) {
  const float sum = log_sum(logits);
  std::vector<Candidate> best;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float total = log_prob + (logits[i] - sum);
    if (!(total > (best.size() < n ? kNever : best.back().log_prob))) continue;
    const Candidate candidate = {sequence, static_cast<Token>(i), total};
    if (best.size() == n) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, better), candidate);
  }
  candidates.insert(candidates.end(), best.begin(), best.end());
}

}  // namespace

Found search(Decoder& decoder, const Vocabulary& vocabulary, const Tokens& prompt, int beam) {
  constexpr std::size_t kMaxGenerated = 224;
  const Rules rules(vocabulary);
  const auto n_beam = static_cast<std::size_t>(beam), n_vocab = static_cast<std::size_t>(vocabulary.size());
  std::vector<Tokens> sequences = {prompt};
  std::vector<float> log_probs = {0.0f};
  // Sequences that have ended. `rank`: the mean log-probability, where the end token adds no length.
  struct Ended {
    Tokens tokens;
    double log_prob;
    double rank;
  };
  std::vector<Ended> ended;
  std::vector<float> row(n_vocab);  // The logits of one sequence; ruled out tokens have kNever.
  const auto generated = [&](const Tokens& sequence) { return std::span(sequence).subspan(prompt.size()); };

  for (std::size_t step = 1; ended.size() < n_beam && !sequences.empty(); ++step) {
    const std::span<const float> logits = decoder.logits(sequences);
    std::vector<Candidate> candidates;
    for (std::size_t t = 0; t < sequences.size(); ++t) {
      std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(t * n_vocab), n_vocab, row.begin());
      rules.apply(generated(sequences[t]), row);
      // Twice the beam: half of them may end.
      add_best(row, t, log_probs[t], 2 * n_beam, candidates);
    }
    std::stable_sort(candidates.begin(), candidates.end(), better);
    candidates.resize(std::min(candidates.size(), 2 * n_beam));

    std::vector<Tokens> next;
    std::vector<float> next_log_probs;
    std::size_t place = 0;
    const bool last = step == kMaxGenerated;
    for (const Candidate& candidate : candidates) {
      const bool ends = candidate.token == vocabulary.end;
      const bool within = place++ < n_beam;
      Tokens sequence = sequences[candidate.sequence];
      if (!ends) sequence.push_back(candidate.token);
      if ((ends || last) && within) {
        const auto tokens = generated(sequence);
        const double n = static_cast<double>(std::max<std::size_t>(tokens.size(), 1));
        ended.push_back({{tokens.begin(), tokens.end()}, candidate.log_prob, candidate.log_prob / n});
      } else if (!ends && next.size() < n_beam) {
        next.push_back(std::move(sequence));
        next_log_probs.push_back(candidate.log_prob);
      }
    }
    sequences = last ? std::vector<Tokens>() : std::move(next);
    log_probs = std::move(next_log_probs);
  }
  if (ended.empty()) return {};
  const auto best = std::max_element(ended.begin(), ended.end(),
                                     [](const Ended& a, const Ended& b) { return a.rank < b.rank; });
  return {best->tokens, best->log_prob / static_cast<double>(best->tokens.size() + 1)};
}

std::vector<float> probabilities(std::span<const float> logits, std::span<const Token> tokens) {
  std::vector<float> chosen;
  for (const Token token : tokens) chosen.push_back(logits[static_cast<std::size_t>(token)]);
  const float sum = log_sum(chosen);
  for (float& x : chosen) x = std::exp(x - sum);
  return chosen;
}

float probability(std::span<const float> logits, Token token) {
  return std::exp(logits[static_cast<std::size_t>(token)] - log_sum(logits));
}

}  // namespace whisper
