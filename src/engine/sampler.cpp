#include "weft/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "engine/sampler_history.h"
#include "engine/sampler_random.h"
#include "engine/sampler_steps.h"
#include "weft/error.h"

namespace weft {
namespace {

using engine::Candidates;

constexpr std::array<std::pair<SamplerStep, std::string_view>, 9> kStepNames = {{
    {SamplerStep::kPenalties, "penalties"},
    {SamplerStep::kDry, "dry"},
    {SamplerStep::kTopNSigma, "top_n_sigma"},
    {SamplerStep::kTopK, "top_k"},
    {SamplerStep::kTypical, "typ_p"},
    {SamplerStep::kTopP, "top_p"},
    {SamplerStep::kMinP, "min_p"},
    {SamplerStep::kXtc, "xtc"},
    {SamplerStep::kTemperature, "temperature"},
}};

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); }

void require(float value, float min, float max, const char* what) {
  if (!(value >= min && value <= max))
    refuse(std::string(what) + " is " + std::to_string(value) + ", expected " + std::to_string(min) + " to " +
           std::to_string(max));
}

void check(const SamplerParams& p, int n_vocab) {
  if (n_vocab < 1) refuse("a sampler needs a vocabulary");
  require(p.temperature, -1e6f, 1e6f, "temperature");
  require(p.dynamic_temperature_range, 0.0f, 1e6f, "the range of the dynamic temperature");
  require(p.dynamic_temperature_exponent, 0.0f, 1e3f, "the exponent of the dynamic temperature");
  require(p.top_p, 0.0f, 1.0f, "top_p");
  require(p.min_p, 0.0f, 1.0f, "min_p");
  require(p.typical_p, 0.0f, 1.0f, "typical_p");
  require(p.top_n_sigma, -1e6f, 1e6f, "top_n_sigma");
  require(p.xtc_probability, 0.0f, 1.0f, "xtc_probability");
  require(p.xtc_threshold, 0.0f, 1.0f, "xtc_threshold");
  if (p.mirostat < 0 || p.mirostat > 2) refuse("mirostat is 0, 1 or 2");
  require(p.mirostat_tau, 0.0f, 1e6f, "mirostat_tau");
  require(p.mirostat_eta, 0.0f, 1e6f, "mirostat_eta");
  require(p.repetition_penalty, 1e-3f, 1e6f, "the repetition penalty");
  require(p.frequency_penalty, -1e6f, 1e6f, "the frequency penalty");
  require(p.presence_penalty, -1e6f, 1e6f, "the presence penalty");
  require(p.dry_multiplier, 0.0f, 1e6f, "dry_multiplier");
  require(p.dry_base, 0.0f, 1e6f, "dry_base");
  if (p.dry_allowed_length < 1) refuse("dry_allowed_length must be at least 1");
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= n_vocab) refuse("logit bias for token " + std::to_string(id) + ", which is not in the vocabulary");
    if (std::isnan(bias)) refuse("logit bias for token " + std::to_string(id) + " is not a number");
  }
}

std::uint64_t seed_of(const SamplerParams& params) {
  if (params.seed != SamplerParams::kRandomSeed) return params.seed;
  std::random_device device;
  const std::uint64_t high = device();
  return (high << 32 | device()) & ~(std::uint64_t{1} << 63);
}

}  // namespace

std::string_view name(SamplerStep step) {
  for (const auto& [s, text] : kStepNames)
    if (s == step) return text;
  return "";
}

std::vector<SamplerStep> parse_sampler_steps(std::string_view text) {
  std::vector<SamplerStep> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(";, "), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const auto* row = std::find_if(kStepNames.begin(), kStepNames.end(), [&](const auto& r) {
      return r.second == word || (word == "typical" && r.first == SamplerStep::kTypical) ||
             (word == "temp" && r.first == SamplerStep::kTemperature);
    });
    if (row == kStepNames.end()) {
      std::string known;
      for (const auto& r : kStepNames) known += (known.empty() ? "" : ", ") + std::string(r.second);
      refuse("no sampler step is called \"" + std::string(word) + "\"; there are " + known);
    }
    steps.push_back(row->first);
  }
  return steps;
}

struct Sampler::Impl {
  Impl(const SamplerParams& p, int n)
      : params((check(p, n), p)),
        n_vocab(static_cast<std::size_t>(n)),
        seed(seed_of(p)),
        random(seed),
        history(p, n),
        mu(2.0f * p.mirostat_tau) {}

  bool has(SamplerStep step) const {
    return std::find(params.steps.begin(), params.steps.end(), step) != params.steps.end();
  }

  /// Whether the most probable token is the answer, without a look at the text.
  bool is_plain_greedy() const {
    const bool penalties = params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
                           params.presence_penalty != 0.0f;
    return params.temperature <= 0.0f && params.dynamic_temperature_range == 0.0f && params.logit_bias.empty() &&
           !(penalties && has(SamplerStep::kPenalties)) && !(params.dry_multiplier != 0.0f && has(SamplerStep::kDry)) &&
           params.xtc_probability == 0.0f;
  }

  Token greedy(std::span<const float> source) {
    std::size_t best = 0;
    float largest = -INFINITY;
    for (std::size_t i = 0; i < n_vocab; ++i) {
      if (source[i] > largest) {
        largest = source[i];
        best = i;
      }
    }
    candidates.list.assign(1, {static_cast<Token>(best), largest, 1.0f});
    candidates.sorted = true;
    return static_cast<Token>(best);
  }

  /// The k largest logits in one pass: a heap with the least of them on top.
  void select(int k) {
    auto& heap = candidates.list;
    const auto before = [](const Candidate& a, const Candidate& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    };
    heap.clear();
    const auto size = static_cast<std::size_t>(k);
    for (std::size_t i = 0; i < n_vocab; ++i) {
      if (heap.size() == size && !(logits[i] > heap.front().logit)) continue;
      const Candidate candidate{static_cast<Token>(i), logits[i], 0.0f};
      if (heap.size() == size) {
        std::pop_heap(heap.begin(), heap.end(), before);
        heap.back() = candidate;
      } else {
        heap.push_back(candidate);
      }
      std::push_heap(heap.begin(), heap.end(), before);
    }
    candidates.sorted = false;
    candidates.sort();
  }

  void take_all() {
    candidates.list.resize(n_vocab);
    for (std::size_t i = 0; i < n_vocab; ++i) candidates.list[i] = {static_cast<Token>(i), logits[i], 0.0f};
    candidates.sorted = false;
  }

  /// The chain up to the draw. Steps that look at the text change single logits; the first one that narrows down
  /// decides whether all tokens need to become candidates.
  void narrow(std::span<const float> source) {
    logits.resize(n_vocab);
    for (std::size_t i = 0; i < n_vocab; ++i) logits[i] = std::isnan(source[i]) ? -INFINITY : source[i];
    for (const auto& [id, bias] : params.logit_bias) logits[static_cast<std::size_t>(id)] += bias;
    // A bias of minus infinity on an infinite logit.
    for (const auto& [id, bias] : params.logit_bias)
      if (std::isnan(logits[static_cast<std::size_t>(id)])) logits[static_cast<std::size_t>(id)] = -INFINITY;

    candidates.list.clear();
    for (const SamplerStep step : params.steps) {
      const bool made = !candidates.list.empty();
      if (step == SamplerStep::kPenalties || step == SamplerStep::kDry) {
        if (made) write_back();
        if (step == SamplerStep::kPenalties) history.penalise(params, logits);
        else history.dry(params, logits);
        if (made) read_again();
        continue;
      }
      if (params.mirostat != 0 && step != SamplerStep::kTemperature) continue;
      if (step == SamplerStep::kTopK) {
        if (params.top_k <= 0 || static_cast<std::size_t>(params.top_k) >= n_vocab) continue;
        if (!made) select(params.top_k);
        else engine::top_k(candidates, params.top_k);
        continue;
      }
      if (!made) {
        if (is_neutral(step)) continue;
        take_all();
      }
      apply(step);
    }
    if (candidates.list.empty()) take_all();
  }

  bool is_neutral(SamplerStep step) const {
    switch (step) {
      case SamplerStep::kTopNSigma: return params.top_n_sigma <= 0.0f;
      case SamplerStep::kTypical: return params.typical_p >= 1.0f;
      case SamplerStep::kTopP: return params.top_p >= 1.0f;
      case SamplerStep::kMinP: return params.min_p <= 0.0f;
      case SamplerStep::kXtc: return params.xtc_probability <= 0.0f;
      default: return false;
    }
  }

  void apply(SamplerStep step) {
    switch (step) {
      case SamplerStep::kTopNSigma: engine::top_n_sigma(candidates, params.top_n_sigma); break;
      case SamplerStep::kTypical: engine::typical(candidates, params.typical_p); break;
      case SamplerStep::kTopP: engine::top_p(candidates, params.top_p); break;
      case SamplerStep::kMinP: engine::min_p(candidates, params.min_p); break;
      case SamplerStep::kXtc:
        if (!is_neutral(step)) engine::xtc(candidates, params.xtc_probability, params.xtc_threshold, random.uniform());
        break;
      case SamplerStep::kTemperature:
        engine::dynamic_temperature(candidates, params.temperature, params.dynamic_temperature_range,
                                    params.dynamic_temperature_exponent);
        break;
      default: break;
    }
  }

  // A step on the text that comes after others: the candidates' logits go through the table of all.
  void write_back() {
    for (const Candidate& c : candidates.list) logits[static_cast<std::size_t>(c.id)] = c.logit;
  }
  void read_again() {
    for (Candidate& c : candidates.list) c.logit = logits[static_cast<std::size_t>(c.id)];
    candidates.sorted = false;
  }

  const Candidate& draw() {
    candidates.softmax();
    const double u = random.uniform();
    double sum = 0.0;
    for (const Candidate& c : candidates.list) {
      sum += c.probability;
      if (u < sum) return c;
    }
    return candidates.list.front();  // Rounding left a gap at the end.
  }

  /// Mirostat (arXiv 2007.14966): version 1 fits Zipf's exponent to the top and cuts by the k that gives the target
  /// surprise, version 2 cuts by the surprise itself; both steer mu by what the drawn token's surprise was.
  const Candidate& mirostat() {
    candidates.softmax();
    auto& list = candidates.list;
    if (params.mirostat == 1) {
      constexpr std::size_t kFitted = 100;
      double sum_tb = 0.0, sum_tt = 0.0;
      for (std::size_t i = 0; i + 1 < std::min(kFitted, list.size()); ++i) {
        if (list[i + 1].probability <= 0.0f) break;
        const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        const double b = std::log(static_cast<double>(list[i].probability) / list[i + 1].probability);
        sum_tb += t * b;
        sum_tt += t * t;
      }
      const double s = sum_tt > 0.0 ? sum_tb / sum_tt : 1.0;
      const double epsilon = s - 1.0;
      const double k = std::pow(epsilon * std::pow(2.0, mu) / (1.0 - std::pow(static_cast<double>(n_vocab), -epsilon)), 1.0 / s);
      candidates.keep_first(std::isfinite(k) ? static_cast<std::size_t>(std::clamp(k, 1.0, 1e9)) : list.size());
    } else {
      std::size_t n = 0;
      while (n < list.size() && -std::log2(list[n].probability) <= mu) ++n;
      candidates.keep_first(n);
    }
    const Candidate& drawn = draw();
    const float surprise = -std::log2(std::max(drawn.probability, 1e-30f));
    mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
    return drawn;
  }

  const SamplerParams params;
  const std::size_t n_vocab;
  const std::uint64_t seed;
  engine::Random random;
  engine::History history;
  float mu;  // Mirostat's state.
  std::vector<float> logits;
  Candidates candidates;
};

Sampler::Sampler(const SamplerParams& params, int n_vocab) : impl_(std::make_unique<Impl>(params, n_vocab)) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

Token Sampler::sample(std::span<const float> logits) {
  if (logits.size() != impl_->n_vocab)
    refuse("the sampler was made for " + std::to_string(impl_->n_vocab) + " logits, got " + std::to_string(logits.size()));
  if (impl_->is_plain_greedy()) return impl_->greedy(logits);
  impl_->narrow(logits);
  return impl_->params.mirostat != 0 && impl_->params.temperature > 0.0f ? impl_->mirostat().id : impl_->draw().id;
}

void Sampler::accept(Token id) {
  if (id < 0 || static_cast<std::size_t>(id) >= impl_->n_vocab) refuse("token " + std::to_string(id) + " is not in the vocabulary");
  impl_->history.accept(id);
}

void Sampler::reset() {
  impl_->random = engine::Random(impl_->seed);
  impl_->history.clear();
  impl_->mu = 2.0f * impl_->params.mirostat_tau;
}

std::uint64_t Sampler::seed() const { return impl_->seed; }
std::span<const Candidate> Sampler::candidates() const { return impl_->candidates.list; }

}  // namespace weft
