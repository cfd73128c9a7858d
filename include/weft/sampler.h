#pragma once
// Samples the next token from logits. A Sampler is a chain of steps (penalties, top-k, temperature, ...) in a
// configurable order; at its end it draws a token.
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
std::string_view to_string(SamplerStep step);
[[deprecated("use to_string")]] inline std::string_view name(SamplerStep step) { return to_string(step); }
/// Parses "top_k;top_p;temperature" into steps. Separators are ; , and space. Names are llama.cpp's:
/// penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature. Throws Error kInvalidArgument
/// with the list of names.
std::vector<SamplerStep> parse_sampler_steps(std::string_view text);
/// Parses "kpt" into steps. Letters are llama.cpp's: e (penalties), d (dry), s (top_n_sigma), k (top_k), y
/// (typ_p), p (top_p), m (min_p), x (xtc), t (temperature). Throws Error kInvalidArgument with the list of
/// letters.
std::vector<SamplerStep> parse_sampler_letters(std::string_view letters);

/// Parameters with llama.cpp's meanings and defaults. A step whose parameter is "off" does nothing.
struct SamplerParams {
  std::uint64_t seed = kRandomSeed;
  /// <= 0: greedy. Bias, penalties and DRY still apply; steps that drop candidates do not.
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
  /// 0: off. 1 or 2: Mirostat replaces the steps that drop candidates. Its state is updated by accept().
  int mirostat = 0;
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  int penalty_last_n = 64;  ///< The last tokens that penalties count. 0: off, -1: all.
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dry_multiplier = 0.0f;  ///< 0: off.
  float dry_base = 1.75f;       ///< At least 1.
  int dry_allowed_length = 2;
  int dry_penalty_last_n = -1;
  /// DRY's sequence breakers: strings that end a repetition. They match within tokens and across them; at
  /// most kMaxBreakerBytes in all. Empty: none. nullopt: newline, colon, quotation mark and asterisk if the
  /// sampler has a tokenizer, otherwise none.
  std::optional<std::vector<std::string>> dry_breakers = std::nullopt;
  /// Added to the logits of tokens; minus infinity bans a token. At most n_vocab entries, which must not ban
  /// all tokens.
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

/// Each sequence needs its own sampler. One thread at a time uses it. The first call of sample() allocates
/// memory, as does the first with all logits; later calls allocate none. A moved-from sampler throws Error
/// kInvalidArgument.
class Sampler {
 public:
  /// The tokenizer must outlive the sampler. Throws Error kInvalidArgument for values out of range (NaN,
  /// top_p > 1, ids outside the vocabulary) or above a limit.
  Sampler(const SamplerParams& params, const Tokenizer& tokenizer);
  /// A sampler without a tokenizer cannot match DRY's breakers: throws as above, and if DRY is on and
  /// dry_breakers has strings.
  Sampler(const SamplerParams& params, int n_vocab);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  /// Draws the next token, but does not accept it. `logits` has n_vocab values; NaN counts as minus infinity.
  /// If all of them are minus infinity, any token may be drawn. Throws Error kInvalidArgument if only the
  /// bias makes all of them minus infinity.
  Token sample(std::span<const float> logits);
  /// How many best tokens (Context::best) suffice for the same draw as from all logits. 1 if greedy, k if
  /// top-k is the first step. 0: all logits are needed, because of a bias, penalties, or steps before top-k.
  int n_best() const;
  /// Draws the next token from at least n_best() best tokens, best first. The token, the candidates and the
  /// random numbers used are the same as with all logits. Throws Error kInvalidArgument if n_best() is 0.
  Token sample(std::span<const Best> best);

  // With a mask of allowed tokens: token i has bit i % 32 of allowed[i / 32]. Further bits are ignored.
  // Before all steps, tokens whose bit is 0 get a logit of minus infinity; they are never drawn.

  /// Throws Error kInvalidArgument if all allowed tokens have a logit of minus infinity.
  Token sample(std::span<const float> logits, std::span<const std::uint32_t> allowed);
  /// If at least n_best() of the best tokens are allowed, draws as from all logits. Otherwise returns nullopt
  /// and changes nothing: all logits are needed.
  std::optional<Token> sample(std::span<const Best> best, std::span<const std::uint32_t> allowed);

  /// Records a token that was appended to the sequence, drawn or of the prompt, for penalties, DRY and
  /// Mirostat.
  void accept(Token id);
  /// Removes the last `n` accepted tokens from the history of penalties and DRY; at most kMaxRetracted.
  /// Random numbers and Mirostat's state stay as they are. Takes time linear in the history.
  void retract(int n);
  static constexpr int kMaxRetracted = 512;
  /// Forgets all accepted tokens and restarts the random numbers from the seed.
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
