#pragma once
// Choosing the next token from logits. A Sampler is a chain of steps whose order can be set; the last one
// draws.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

enum class SamplerStep : std::uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypical,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
};
std::string_view name(SamplerStep step);
/// "top_k;top_p;temperature" to steps (separators ; , or space), with llama.cpp's names: penalties, dry,
/// top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature. Throws Error kInvalidArgument and lists the
/// names.
std::vector<SamplerStep> parse_sampler_steps(std::string_view text);

/// Defaults are those that users of llama.cpp know. A step at its neutral value does nothing.
struct SamplerParams {
  std::uint64_t seed = kRandomSeed;
  /// <= 0: greedy: bias, penalties and DRY count, the steps that cut do not.
  float temperature = 0.8f;
  float dynamic_temperature_range = 0.0f;
  float dynamic_temperature_exponent = 1.0f;
  int top_k = 40;                ///< <= 0: all.
  float top_p = 0.95f;           ///< 1: off.
  float min_p = 0.05f;           ///< 0: off.
  float typical_p = 1.0f;        ///< 1: off.
  float top_n_sigma = -1.0f;     ///< <= 0: off.
  float xtc_probability = 0.0f;  ///< 0: off.
  float xtc_threshold = 0.1f;
  /// 0 off, 1 or 2: replaces all steps that cut. Learns from a token drawn when that token is accepted.
  int mirostat = 0;
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  int penalty_last_n = 64;  ///< 0: off, -1: the whole text.
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dry_multiplier = 0.0f;  ///< 0: off.
  float dry_base = 1.75f;       ///< At least 1.
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;
  /// Strings that end a repetition. They match inside a token and across tokens. At most kMaxBreakerBytes
  /// together. Empty: none. nullopt: newline, colon, quotation mark and asterisk if the sampler has a
  /// tokenizer, else none.
  std::optional<std::vector<std::string>> dry_breakers = std::nullopt;
  /// Added to logits; minus infinity bans a token. At most as many as there are tokens, and not all banned.
  std::vector<std::pair<Token, float>> logit_bias = {};
  std::vector<SamplerStep> steps = {
      SamplerStep::kPenalties, SamplerStep::kDry,     SamplerStep::kTopNSigma,
      SamplerStep::kTopK,      SamplerStep::kTypical, SamplerStep::kTopP,
      SamplerStep::kMinP,      SamplerStep::kXtc,     SamplerStep::kTemperature};

  static constexpr std::uint64_t kRandomSeed = ~std::uint64_t{0};
  static constexpr std::size_t kMaxBreakerBytes = std::size_t{1} << 14;
};

class Tokenizer;

struct Candidate {
  Token id = kNoToken;
  float logit = 0.0f;
  float probability = 0.0f;
};

/// One per stream of text, used by one thread at a time. It takes its memory with the first sample(), what it
/// needs for all logits with the first that has all; later calls allocate nothing. Before, it weighs as much
/// as its parameters and the text that it was told, where that counts. One that was moved from throws Error
/// kInvalidArgument.
class Sampler {
 public:
  /// The tokenizer must outlive the sampler. Throws Error kInvalidArgument for
  /// values that make no sense (NaN, top_p > 1, ids outside the vocabulary) or exceed a limit above.
  Sampler(const SamplerParams& params, const Tokenizer& tokenizer);
  /// Without a tokenizer DRY cannot match strings. Throws as above, and where DRY is on and has breakers.
  Sampler(const SamplerParams& params, int n_vocab);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  /// Draws the next token. `logits` has n_vocab values; NaN counts as minus infinity. Does not accept it.
  /// Error kInvalidArgument where the bias leaves nothing but minus infinity; logits that are nothing else by
  /// themselves give any token.
  Token sample(std::span<const float> logits);
  /// How many of the best tokens suffice to draw as from all logits: 1 where the best is picked as it is, k
  /// where all begins with the k best; 0: all logits are needed (a bias, penalties, steps before the k best).
  int n_best() const;
  /// Draws the next token from at least n_best() of the best, best first (Context::best): the token,
  /// candidates and random numbers are those of sample() with all logits. Error kInvalidArgument where those
  /// are needed.
  Token sample(std::span<const Best> best);

  // Constrained: a bit for each token, bit i % 32 of word i / 32, n_vocab of them (bits behind are ignored).
  // Tokens whose bit is 0 have minus infinity for a logit before anything else, and are never drawn.

  /// Error kInvalidArgument where no token is left whose logit is more than that.
  Token sample(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  /// Draws from the best where n_best() of them are allowed: as from all logits. Nothing where fewer are:
  /// then all logits are needed, and nothing has changed.
  std::optional<Token> sample(std::span<const Best> best, std::span<const std::uint32_t> allowed);

  /// Tells the sampler what was appended to the text (drawn or from the prompt).
  void accept(Token id);
  /// Forgets the text, and starts the random numbers anew from the seed.
  void reset();

  std::uint64_t seed() const;  ///< The one in use, also where a random one was asked for.
  /// What was left to draw from in the last sample(), most probable first.
  std::span<const Candidate> candidates() const;

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
