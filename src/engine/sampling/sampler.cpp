#include "weft/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "base/to_size.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/history.h"
#include "engine/sampling/mirostat.h"
#include "engine/sampling/random.h"
#include "engine/sampling/steps.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using engine::Candidates;

// As llama.cpp's --samplers and --sampler-seq name them.
struct StepNames {
  SamplerStep step;
  std::string_view name;
  char letter;
};
constexpr std::array<StepNames, 9> kSteps = {{
    {SamplerStep::kPenalties, "penalties", 'e'},
    {SamplerStep::kDry, "dry", 'd'},
    {SamplerStep::kTopNSigma, "top_n_sigma", 's'},
    {SamplerStep::kTopK, "top_k", 'k'},
    {SamplerStep::kTypical, "typ_p", 'y'},
    {SamplerStep::kTopP, "top_p", 'p'},
    {SamplerStep::kMinP, "min_p", 'm'},
    {SamplerStep::kXtc, "xtc", 'x'},
    {SamplerStep::kTemperature, "temperature", 't'},
}};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "sampler: " + what);
}

[[noreturn]] void refuse_step(std::string_view given, std::string (*describe)(const StepNames&)) {
  std::string known;
  for (const StepNames& row : kSteps) known += (known.empty() ? " " : ", ") + describe(row);
  throw Error(ErrorCode::kInvalidArgument,
              "unknown sampler \"" + std::string(given) + "\"; known are" + known);
}

void check_range(const char* name, float value, float least, float most) {
  if (value >= least && value <= most) return;  // False for NaN.
  refuse(std::string(name) + " is " + std::to_string(value) + ", it must be from " + std::to_string(least) +
         " to " + std::to_string(most));
}

void check_least(const char* name, int value, int least) {
  if (value < least) {
    refuse(std::string(name) + " is " + std::to_string(value) + ", it must be at least " +
           std::to_string(least));
  }
}

constexpr std::size_t kMaxSteps = 64;

template <class CheckId>
void check_bias(std::span<const std::pair<Token, float>> biases, int n_vocab, CheckId check_id) {
  if (biases.size() > to_size(n_vocab))
    refuse("logit_bias has " + std::to_string(biases.size()) + " entries for a vocabulary of " +
           std::to_string(n_vocab) + "; give one a token");
  std::size_t n_banned = 0;
  for (const auto& [id, bias] : biases) {
    check_id("logit_bias", id);
    if (!(bias < std::numeric_limits<float>::infinity()))
      refuse("a logit bias must be a number or minus infinity");
    n_banned += bias == -std::numeric_limits<float>::infinity() ? 1 : 0;
  }
  if (n_banned < to_size(n_vocab)) return;
  std::vector<bool> banned(to_size(n_vocab));
  for (const auto& [id, bias] : biases) banned[to_size(id)] = true;
  if (std::ranges::find(banned, false) == banned.end())
    refuse("logit_bias bans all tokens; leave one to draw");
}

void check_breakers(std::span<const std::string> breakers) {
  std::size_t n_bytes = 0;
  for (const std::string& breaker : breakers) {
    if (breaker.empty()) refuse("a DRY breaker is empty; leave it out");
    n_bytes += breaker.size();
  }
  if (n_bytes > SamplerParams::kMaxBreakerBytes)
    refuse("the DRY breakers have " + std::to_string(n_bytes) + " bytes together, at most " +
           std::to_string(SamplerParams::kMaxBreakerBytes) + " are allowed; give fewer");
}

void check(const SamplerParams& params, int n_vocab) {
  constexpr float kLarge = 1e9f;
  if (n_vocab < 1) refuse("the vocabulary is empty");
  check_range("temperature", params.temperature, -kLarge, kLarge);
  check_range("dynamic_temperature_range", params.dynamic_temperature_range, 0.0f, kLarge);
  check_range("dynamic_temperature_exponent", params.dynamic_temperature_exponent, 0.0f, kLarge);
  check_range("top_p", params.top_p, 0.0f, 1.0f);
  check_range("min_p", params.min_p, 0.0f, 1.0f);
  check_range("typical_p", params.typical_p, 0.0f, 1.0f);
  check_range("top_n_sigma", params.top_n_sigma, -kLarge, kLarge);
  check_range("xtc_probability", params.xtc_probability, 0.0f, 1.0f);
  check_range("xtc_threshold", params.xtc_threshold, 0.0f, 1.0f);
  if (params.mirostat < 0 || params.mirostat > 2) refuse("mirostat must be 0, 1 or 2");
  check_range("mirostat_tau", params.mirostat_tau, 0.0f, kLarge);
  check_range("mirostat_eta", params.mirostat_eta, 0.0f, kLarge);
  check_least("penalty_last_n", params.penalty_last_n, -1);
  check_range("repetition_penalty", params.repetition_penalty, 1e-6f, kLarge);
  check_range("frequency_penalty", params.frequency_penalty, -kLarge, kLarge);
  check_range("presence_penalty", params.presence_penalty, -kLarge, kLarge);
  check_range("dry_multiplier", params.dry_multiplier, 0.0f, kLarge);
  check_range("dry_base", params.dry_base, 1.0f, kLarge);
  check_least("dry_allowed_length", params.dry_allowed_length, 0);
  check_least("dry_penalty_last_n", params.dry_penalty_last_n, -1);
  const auto check_id = [&](const char* name, Token id) {
    if (id >= 0 && id < n_vocab) return;
    refuse(std::string(name) + " names token " + std::to_string(id) + ", the vocabulary has " +
           std::to_string(n_vocab));
  };
  if (params.steps.size() > kMaxSteps)
    refuse("the chain has " + std::to_string(params.steps.size()) + " steps, at most " +
           std::to_string(kMaxSteps) + " are allowed");
  for (const SamplerStep step : params.steps)
    if (std::ranges::find(kSteps, step, &StepNames::step) == kSteps.end())
      refuse("unknown step " + std::to_string(static_cast<int>(step)) + "; see SamplerStep");
  if (params.dry_breakers) check_breakers(*params.dry_breakers);
  check_bias(params.logit_bias, n_vocab, check_id);
}

std::uint64_t random_seed() {
  std::random_device device;
  std::uint64_t seed = SamplerParams::kRandomSeed;
  while (seed == SamplerParams::kRandomSeed) {
    const std::uint64_t high = device();
    seed = high << 32 | device();
  }
  return seed;
}

}  // namespace

std::string_view to_string(SamplerStep step) {
  const auto* const found = std::ranges::find(kSteps, step, &StepNames::step);
  return found == kSteps.end() ? "unknown" : found->name;
}

std::vector<SamplerStep> parse_sampler_steps(std::string_view text) {
  constexpr std::string_view kSeparators = ";, ";
  std::vector<SamplerStep> steps;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return steps;
    text.remove_prefix(begin);
    std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    text.remove_prefix(word.size());
    if (word == "typical" || word == "typical_p") word = "typ_p";
    if (word == "temp") word = "temperature";
    const auto* const found = std::ranges::find(kSteps, word, &StepNames::name);
    if (found == kSteps.end()) refuse_step(word, [](const StepNames& row) { return std::string(row.name); });
    steps.push_back(found->step);
  }
}

std::vector<SamplerStep> parse_sampler_letters(std::string_view letters) {
  std::vector<SamplerStep> steps;
  for (const char letter : letters) {
    const auto* const found = std::ranges::find(kSteps, letter, &StepNames::letter);
    if (found == kSteps.end())
      refuse_step({&letter, 1}, [](const StepNames& row) {
        return std::string(1, row.letter) + " (" + std::string(row.name) + ")";
      });
    steps.push_back(found->step);
  }
  return steps;
}

struct Sampler::Impl {
  Impl(const SamplerParams& given, int size, const Tokenizer* tokenizer)
      : params(given),
        n_vocab(to_size(size)),
        seed(given.seed == SamplerParams::kRandomSeed ? random_seed() : given.seed),
        random(seed),
        candidates(n_vocab),
        history(params, n_vocab, tokenizer) {
    params.dry_breakers.reset();  // `history` has its own copy.
    if (params.mirostat != 0)
      mirostat.emplace(params.mirostat, params.mirostat_tau, params.mirostat_eta, n_vocab);
  }
  Impl(const Impl&) = delete;  // `history` refers to `params`.
  Impl& operator=(const Impl&) = delete;

  bool greedy() const { return params.temperature <= 0.0f; }
  bool acts(SamplerStep step) const;
  void run(SamplerStep step);
  int n_best() const;
  void check_logits(std::span<const float> logits) const;
  void check_mask(std::span<const std::uint32_t> allowed) const;
  std::size_t check_best(std::span<const Best> best) const;  ///< Returns how many of them are needed.
  Token draw();
  void apply_bias();
  Token pick_best();

  SamplerParams params;  // As given, without the breakers.
  const std::size_t n_vocab;
  const std::uint64_t seed;
  engine::Random random;
  Candidates candidates;
  engine::History history;
  std::optional<engine::Mirostat> mirostat;
  Token drawn = kNoToken;  // Not accepted yet.
};

/// Runs after the steps that ban tokens: a banned token is never drawn, so another one must be left.
void check_any_left(std::span<const float> logits, const char* what) {
  if (std::ranges::none_of(logits, [](float x) { return x > -std::numeric_limits<float>::infinity(); }))
    refuse(std::string("with ") + what + " no token is left to draw");
}

void Sampler::Impl::apply_bias() {
  if (params.logit_bias.empty()) return;
  const auto logits = candidates.editable_logits();
  for (const auto& [id, bias] : params.logit_bias) logits[to_size(id)] += bias;
  check_any_left(logits, "the bias");
}

// A step at its neutral value does nothing. Greedy sampling and mirostat cut in their own way.
bool Sampler::Impl::acts(SamplerStep step) const {
  const SamplerParams& p = params;
  const bool cuts = !greedy() && !mirostat;
  switch (step) {
    case SamplerStep::kPenalties:
      return history.penalises();
    case SamplerStep::kDry:
      return history.has_dry();
    case SamplerStep::kTopNSigma:
      return cuts && p.top_n_sigma > 0.0f;
    case SamplerStep::kTopK:
      return cuts && p.top_k > 0;
    case SamplerStep::kTypical:
      return cuts && p.typical_p < 1.0f;
    case SamplerStep::kTopP:
      return cuts && p.top_p < 1.0f;
    case SamplerStep::kMinP:
      return cuts && p.min_p > 0.0f;
    case SamplerStep::kXtc:
      // Above one half there is at most one top choice.
      return cuts && p.xtc_probability > 0.0f && p.xtc_threshold <= 0.5f;
    case SamplerStep::kTemperature:
      return !greedy() && (p.dynamic_temperature_range > 0.0f || p.temperature != 1.0f);
  }
  return false;
}

void Sampler::Impl::run(SamplerStep step) {
  const SamplerParams& p = params;
  if (!acts(step)) return;
  switch (step) {
    case SamplerStep::kPenalties:
      return history.apply_penalties(candidates);
    case SamplerStep::kDry:
      return history.apply_dry(candidates);
    case SamplerStep::kTopNSigma:
      return engine::cut_top_n_sigma(candidates, p.top_n_sigma);
    case SamplerStep::kTopK:
      return candidates.keep_top(to_size(p.top_k));
    case SamplerStep::kTypical:
      return engine::cut_typical(candidates, p.typical_p);
    case SamplerStep::kTopP:
      return engine::cut_top_p(candidates, p.top_p);
    case SamplerStep::kMinP:
      return engine::cut_min_p(candidates, p.min_p);
    case SamplerStep::kXtc:
      return engine::cut_xtc(candidates, p.xtc_probability, p.xtc_threshold, random);
    case SamplerStep::kTemperature:
      if (p.dynamic_temperature_range > 0.0f)
        return engine::apply_dynamic_temperature(candidates, p.temperature, p.dynamic_temperature_range,
                                                 p.dynamic_temperature_exponent);
      return engine::apply_temperature(candidates, p.temperature);
  }
}

// Among all logits, without making a list if there is none.
Token Sampler::Impl::pick_best() {
  if (candidates.is_list()) {  // The list that n_best() requests.
    const Candidate best = candidates.list().front();
    candidates.set_only({best.id, best.logit, 1.0f});
    return best.id;
  }
  const std::size_t best = engine::argmax(candidates.logits());
  const Token id = static_cast<Token>(best);
  candidates.set_only({id, engine::clean_logit(candidates.logits()[best]), 1.0f});
  return id;
}

Sampler::Sampler(const SamplerParams& params, const Tokenizer& tokenizer) {
  check(params, tokenizer.n_vocab());
  impl_ = std::make_unique<Impl>(params, tokenizer.n_vocab(), &tokenizer);
}
Sampler::Sampler(const SamplerParams& params, int n_vocab) {
  check(params, n_vocab);
  if (params.dry_multiplier > 0.0f && params.dry_breakers && !params.dry_breakers->empty())
    refuse("DRY breakers are strings, so the sampler needs the tokenizer");
  impl_ = std::make_unique<Impl>(params, n_vocab, nullptr);
}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

Sampler::Impl& Sampler::impl() const {
  if (!impl_) refuse("it was moved from");
  return *impl_;
}

void Sampler::Impl::check_logits(std::span<const float> logits) const {
  if (logits.size() != n_vocab)
    refuse("got " + std::to_string(logits.size()) + " logits for a vocabulary of " + std::to_string(n_vocab));
}

void Sampler::Impl::check_mask(std::span<const std::uint32_t> allowed) const {
  constexpr std::size_t kBitsOfWord = 32;
  const std::size_t n_words = (n_vocab + kBitsOfWord - 1) / kBitsOfWord;
  if (allowed.size() != n_words)
    refuse("the mask of allowed tokens has " + std::to_string(allowed.size()) + " words, a vocabulary of " +
           std::to_string(n_vocab) + " needs " + std::to_string(n_words));
}

Token Sampler::sample(std::span<const float> logits) {
  Impl& it = impl();
  it.check_logits(logits);
  it.candidates.start(logits);
  it.apply_bias();
  return it.draw();
}

Token Sampler::sample(std::span<const float> logits, std::span<const std::uint32_t> allowed) {
  Impl& it = impl();
  it.check_logits(logits);
  it.check_mask(allowed);
  it.candidates.start(logits, allowed);
  it.apply_bias();
  check_any_left(it.candidates.logits(), "the mask of allowed tokens");
  return it.draw();
}

Token Sampler::Impl::draw() {
  for (SamplerStep step : params.steps) run(step);
  if (greedy()) {
    drawn = pick_best();
  } else {
    const std::size_t place =
        mirostat ? mirostat->draw(candidates, random) : engine::draw(candidates, random);
    drawn = candidates.list()[place].id;
  }
  return drawn;
}

int Sampler::Impl::n_best() const {
  if (!params.logit_bias.empty()) return 0;
  if (mirostat && !greedy()) return 0;
  for (const SamplerStep step : params.steps) {
    if (!acts(step)) continue;
    // Only if fewer than all: the following steps expect all candidates in the order of ids.
    if (step == SamplerStep::kTopK && to_size(params.top_k) < n_vocab) return params.top_k;
    return 0;
  }
  return greedy() ? 1 : 0;
}

int Sampler::n_best() const { return impl().n_best(); }

std::size_t Sampler::Impl::check_best(std::span<const Best> best) const {
  const auto n = to_size(n_best());
  if (n == 0) refuse("it draws from all logits, the best tokens do not suffice");
  if (best.size() < n)
    refuse("got the best " + std::to_string(best.size()) + " tokens, needs " + std::to_string(n));
  for (const Best& one : best)
    if (one.id < 0 || to_size(one.id) >= n_vocab)
      refuse("token " + std::to_string(one.id) + " is not in the vocabulary of " + std::to_string(n_vocab));
  return n;
}

Token Sampler::sample(std::span<const Best> best) {
  Impl& it = impl();
  it.candidates.start(best.first(it.check_best(best)));
  return it.draw();
}

std::optional<Token> Sampler::sample(std::span<const Best> best, std::span<const std::uint32_t> allowed) {
  Impl& it = impl();
  const std::size_t n = it.check_best(best);
  it.check_mask(allowed);
  if (!it.candidates.start(best, n, allowed)) return std::nullopt;
  if (it.candidates.max_logit() == -std::numeric_limits<float>::infinity()) return std::nullopt;
  return it.draw();
}

void Sampler::accept(Token id) {
  Impl& it = impl();
  if (id < 0 || to_size(id) >= it.n_vocab) {
    refuse("token " + std::to_string(id) + " is not in the vocabulary of " + std::to_string(it.n_vocab));
  }
  if (it.mirostat && id == it.drawn && !it.greedy()) it.mirostat->accept();
  it.drawn = kNoToken;
  it.history.accept(id);
}

void Sampler::retract(int n) {
  if (n < 0 || n > kMaxRetracted)
    refuse("retract() takes 0 to " + std::to_string(kMaxRetracted) + " tokens, not " + std::to_string(n));
  impl().history.retract(to_size(n));
}

void Sampler::reset() {
  Impl& it = impl();
  it.random = engine::Random(it.seed);
  it.history.clear();
  if (it.mirostat) it.mirostat->reset();
  it.drawn = kNoToken;
}

std::uint64_t Sampler::seed() const { return impl().seed; }

std::span<const Candidate> Sampler::candidates() const {
  Impl& it = impl();
  if (!it.candidates.is_list()) return {};
  it.candidates.sort_first(it.n_vocab);
  return it.candidates.list();
}

}  // namespace weft
