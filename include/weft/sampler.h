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
/// "kpt" to steps, with llama.cpp's letters: e (penalties), d (dry), s (top_n_sigma), k (top_k), y (typ_p),
/// p (top_p), m (min_p), x (xtc), t (temperature). Throws Error kInvalidArgument and lists the letters.
std::vector<SamplerStep> parse_sampler_letters(std::string_view letters);

/// Defaults are llama.cpp's. A step at its neutral value does nothing.
struct SamplerParams {
  std::uint64_t seed = kRandomSeed;
  /// <= 0: greedy, with bias, penalties and DRY, but without the truncating steps.
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
  /// 0: off. 1 or 2: replaces all truncating steps. It learns from a drawn token when that token is accepted.
  int mirostat = 0;
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  int penalty_last_n = 64;  ///< 0: off, -1: all tokens.
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dry_multiplier = 0.0f;  ///< 0: off.
  float dry_base = 1.75f;       ///< At least 1.
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;
  /// Strings that end a repetition. They match inside a token and across tokens. At most kMaxBreakerBytes
  /// together. Empty: none. nullopt: newline, colon, quotation mark and asterisk if the sampler has a
  /// tokenizer, otherwise none.
  std::optional<std::vector<std::string>> dry_breakers = std::nullopt;
  /// Added to logits; minus infinity bans a token. At most n_vocab entries, and not all tokens banned.
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

/// One per sequence, used by one thread at a time. The first sample() allocates its memory, the first one
/// with all logits the memory for these; later calls allocate nothing. Before that it holds only its
/// parameters and, if they need them, the accepted tokens. A moved-from sampler throws Error
/// kInvalidArgument.
class Sampler {
 public:
  /// The tokenizer must outlive the sampler. Throws Error kInvalidArgument for senseless values (NaN, top_p >
  /// 1, ids outside the vocabulary) and values above a limit.
  Sampler(const SamplerParams& params, const Tokenizer& tokenizer);
  /// Without a tokenizer DRY cannot match strings. Throws as above, and where DRY is on and has breakers.
  Sampler(const SamplerParams& params, int n_vocab);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  /// Draws the next token, but does not accept it. `logits` has n_vocab values; NaN counts as minus infinity.
  /// Throws Error kInvalidArgument if the bias leaves only minus infinity. If all given logits are minus
  /// infinity, any token is drawn.
  Token sample(std::span<const float> logits);
  /// The number of best tokens that suffice to draw as from all logits. It is 1 where the best is picked, and
  /// k where top-k is the first step. It is 0 where all logits are needed (a bias, penalties, steps before
  /// top-k).
  int n_best() const;
  /// Draws the next token from at least n_best() best tokens, best first (Context::best). Token, candidates
  /// and random numbers are the same as from all logits. Throws Error kInvalidArgument where all logits are
  /// needed.
  Token sample(std::span<const Best> best);

  // With a constraint: n_vocab bits, bit i % 32 of word i / 32 for token i (further bits are ignored). Tokens
  // whose bit is 0 get minus infinity as logit before all steps, and are never drawn.

  /// Throws Error kInvalidArgument where all allowed tokens have logits of minus infinity.
  Token sample(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  /// Draws from the best tokens if n_best() of them are allowed, as from all logits. Returns nothing and
  /// changes nothing if fewer are allowed: then all logits are needed.
  std::optional<Token> sample(std::span<const Best> best, std::span<const std::uint32_t> allowed);

  /// Records a token that was appended to the sequence (drawn or of the prompt).
  void accept(Token id);
  /// Forgets all tokens and restarts the random numbers from the seed.
  void reset();

  std::uint64_t seed() const;  ///< The seed in use, also if a random one was requested.
  /// The tokens that the last sample() drew from, most probable first.
  std::span<const Candidate> candidates() const;

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
