#include "bench/bench_single.h"

#include <fmt/format.h>
#include <time.h>

#include <chrono>

#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr SeqId kText = 0;
constexpr SeqId kKept = 1;
constexpr std::size_t kRandomTokens = 4096;
// Prose instead of random tokens, since the screening of candidate rows and the routing to experts depend on
// the tokens.
constexpr std::string_view kWritten =
    "The ferry left the harbour a little after six, when the fog had begun to lift and the first lights "
    "went on in the houses along the shore. Anna stood at the rail with her brother and counted the boats "
    "that were still at anchor. There were eleven of them, most with their sails down, and one that had "
    "been painted bright green since the summer. Her brother wanted to know how deep the water was here, "
    "and whether anybody had ever measured it. She told him what their grandfather used to say: that you "
    "can measure anything if you have enough rope, a stone and some patience. He thought about this for a "
    "while. Then he asked how much rope the captain had, and how one could tell that the stone had reached "
    "the ground. In the afternoon it rained. They sat below with tea and bread, played cards, and wrote a "
    "long letter to their mother, who would read it on Sunday, when the mail came to the island.";

}  // namespace

double cpu_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

std::string SingleTest::name() const {
  std::string name = n_prompt > 0 ? fmt::format("pp{}", n_prompt) : "";
  if (n_generate > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", n_generate);
  if (depth > 0) name += fmt::format(" @ d{}", depth);
  return name;
}

SingleBench::SingleBench(Context& context, const InterruptGuard& interrupt)
    : context_(context), interrupt_(interrupt) {
  // The same ones each time.
  std::mt19937 random(1);
  const int n_vocab = context.model().info().n_vocab;
  prompt_.resize(kRandomTokens);
  for (Token& token : prompt_) token = static_cast<Token>(random() % static_cast<unsigned>(n_vocab));
  written_ = context.model().tokenizer().encode(kWritten);
  if (written_.empty()) written_ = prompt_;
}

void SingleBench::decode() {
  const DecodeStatus status = context_.decode(batch_);
  if (status == DecodeStatus::kCancelled || interrupt_.requested())
    throw Error(ErrorCode::kCancelled, "interrupted");
  if (status != DecodeStatus::kOk)
    throw Error(ErrorCode::kOutOfMemory, "the cache is full; raise --ctx-size");
}

/// Copies the kept sequence to kText. First makes the kept sequence `depth` tokens long, if it is not.
void SingleBench::start_at(int depth) {
  context_.cache().remove(kText);
  if (depth_ != depth) {
    context_.cache().clear();
    batch_.clear();
    for (int i = 0; i < depth; ++i) batch_.add(token(prompt_, i), kKept);
    depth_ = depth;
    if (depth > 0) decode();
  }
  if (depth > 0 && !context_.cache().copy(kKept, kText))
    throw Error(ErrorCode::kOutOfMemory, "the cache is full; raise --ctx-size");
}

SingleBench::Times SingleBench::round(const SingleTest& test, const std::function<void()>& on_step) {
  const double cpu_start = cpu_milliseconds();
  const auto start = std::chrono::steady_clock::now();
  if (test.n_prompt > 0) {
    batch_.clear();
    for (int i = 0; i < test.n_prompt; ++i)
      batch_.add(token(prompt_, i), kText, {.logits = i + 1 == test.n_prompt});
    decode();
    on_step();
  }
  for (int i = 0; i < test.n_generate; ++i) {
    batch_.clear();
    // As generation does that picks the best.
    batch_.add(token(written_, i), kText, {.logits = true, .n_best = std::min(context_.params().n_best, 1)});
    decode();
    on_step();
  }
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  return {elapsed.count(), cpu_milliseconds() - cpu_start};
}

SingleResult SingleBench::measure(const SingleTest& test, int n_repetitions,
                                  const std::function<void()>& on_round) {
  SingleResult result{.test = test};
  start_at(test.depth);
  {
    WorkCounter counter(context_);
    round(test, [&] { result.least.add(counter.take()); });
  }
  on_round();
  for (int i = 0; i < n_repetitions; ++i) {
    start_at(test.depth);
    const Times times = round(test, [] {});
    result.ms.values.push_back(times.ms);
    result.cpu_ms.values.push_back(times.cpu_ms);
    on_round();
  }
  return result;
}

Profile SingleBench::profile(const SingleTest& test, std::size_t max_spans) {
  start_at(test.depth);
  Profile profile;
  profile.max_spans = max_spans;
  context_.set_profile(&profile);
  round(test, [] {});
  context_.set_profile(nullptr);
  return profile;
}

Json to_json(const SingleResult& r, const MachineLimits& limits) {
  const auto per_second = [&](double ms) { return 1e3 * r.test.n_tokens() / ms; };
  Samples speed;
  for (const double ms : r.ms.values) speed.values.push_back(per_second(ms));
  const double roofline_ms = 1e3 * r.least.seconds(limits);
  const bool counted = roofline_ms > 0.0;  // Not every device reports it.
  return {{"test", r.test.name()},
          {"n_prompt", r.test.n_prompt},
          {"n_generate", r.test.n_generate},
          {"n_depth", r.test.depth},
          {"tokens_per_second", speed.mean()},
          {"deviation", speed.deviation()},
          {"min_ms", r.ms.min()},
          {"min_cpu_ms", r.cpu_ms.min()},
          {"roofline_tokens_per_second", counted ? Json(per_second(roofline_ms)) : Json(nullptr)},
          {"roofline_fraction", counted ? Json(speed.mean() / per_second(roofline_ms)) : Json(nullptr)},
          {"bound", r.least.bound(limits)},
          {"ms", r.ms.values},
          {"cpu_ms", r.cpu_ms.values}};
}

std::vector<Column> single_columns() {
  return {text_column("test", "test"), spread_column("tokens/s", "tokens_per_second", "deviation"),
          percent_column("of roofline", "roofline_fraction"), text_column("bound by", "bound")};
}

}  // namespace weft::cli
