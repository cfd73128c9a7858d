#include "engine/batching/speculation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/sampling/best.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

constexpr double kCostDecay = 0.97;

class NgramDrafter final : public Drafter {
 public:
  int draft(std::span<const DraftJob> jobs, int) override {
    for (const DraftJob& job : jobs) look_up(job);
    return 0;
  }
  // Many completions do not repeat themselves. There a few wrong guesses end the drafts.
  DraftOdds first_odds() const override { return {.right = 0.4, .other = 0.2}; }

 private:
  static constexpr int kLongest = 4;
  static constexpr int kShortest = 2;
  static constexpr int kMostPlaces = 8;
  /// The search covers this many of the last tokens, so its cost is bounded.
  static constexpr std::ptrdiff_t kReach = 8192;

  /// Finds earlier occurrences of the last tokens, the most recent first. Guesses the tokens that followed
  /// there. Only occurrences with the longest match are used.
  void look_up(const DraftJob& job) {
    for (auto& places : places_) places.clear();
    const std::span<const Token> text = job.text;
    const std::ptrdiff_t size = std::ssize(text), first = std::max<std::ptrdiff_t>(size - kReach, 0);
    const auto at = [&](std::ptrdiff_t i) { return text[to_size(i)]; };
    for (std::ptrdiff_t end = size - 1; end >= first + kShortest; --end) {
      std::size_t n = 0;  // Tokens before `end` that equal the last tokens.
      while (n < kLongest && end - static_cast<std::ptrdiff_t>(n) > first &&
             at(end - 1 - static_cast<std::ptrdiff_t>(n)) == at(size - 1 - static_cast<std::ptrdiff_t>(n)))
        ++n;
      if (n < kShortest) continue;
      if (places_[n].size() < kMostPlaces) places_[n].push_back(end);
      if (places_[kLongest].size() == kMostPlaces) break;
    }
    std::size_t most = kLongest;
    while (most >= kShortest && places_[most].empty()) --most;
    if (most < kShortest) return;
    for (const std::ptrdiff_t place : places_[most]) {
      int node = DraftTree::kRoot;
      for (std::ptrdiff_t next = place; next < size && node != DraftTree::kNone; ++next)
        node = job.draft->grow(node, at(next));
      if (!job.draft->grows(DraftTree::kRoot)) return;
    }
  }

  std::array<std::vector<std::ptrdiff_t>, kLongest + 1> places_;  // By the length of the match.
};

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(Context& context, int n_vocab) : context_(context), n_vocab_(n_vocab) {
    context_.cache().clear();
  }

  int draft(std::span<const DraftJob> jobs, int n_to_read) override {
    const int n_read = read(jobs, n_to_read);
    const bool finds_best = context_.params().n_best >= kBestTwo;
    const ItemOptions options = {.logits = true, .n_best = finds_best ? kBestTwo : 0};
    while (true) {
      batch_.clear();
      std::erase_if(tips_, [](const Tip& tip) {
        return tip.node == DraftTree::kNone || !tip.job->draft->grows(tip.node);
      });
      if (tips_.empty()) return n_read;
      for (Tip& tip : tips_) {
        const DraftJob& job = *tip.job;
        if (tip.node == DraftTree::kRoot) {
          batch_.add(job.text.subspan(to_size(context_.cache().next_pos(job.seq))), job.seq, options);
        } else {
          batch_.add(job.draft->nodes()[to_size(tip.node)].token, job.seq, options);
        }
        tip.item = batch_.size() - 1;
      }
      if (!decode(jobs)) continue;
      for (Tip& tip : tips_) {
        const auto [best, second] = best_two(tip.item);
        const int parent = tip.node;
        // Without a token that the model knows, the draft ends here.
        tip.node = best.id < n_vocab_ ? tip.job->draft->grow(parent, best.id) : DraftTree::kNone;
        if (second.id < n_vocab_) tip.job->draft->grow(parent, second.id);
      }
    }
  }

  void reset() override { context_.cache().clear(); }
  // If the sequence cannot be cut there, it is computed again from its start.
  void cut(SeqId seq, int n) override {
    context_.cache().remove(seq, context_.cache().can_cut(seq, n) ? n : 0);
  }
  void copy(SeqId from, SeqId to, int n) override {
    if (context_.cache().can_cut(from, n))
      (void)context_.cache().copy(from, to, 0, n);  // Missing tokens are computed later.
  }
  double ms_per_token(int n_jobs) const override {
    return cost_.ms_per_row() + cost_.ms_per_step() / std::max(n_jobs, 1);
  }
  double ms_to_begin(SeqId seq, std::span<const Token> text) const override {
    const auto n_missing = std::ssize(text) - context_.cache().next_pos(seq);
    return cost_.ms_per_step() +
           cost_.ms_per_row() * static_cast<double>(std::max<std::ptrdiff_t>(n_missing, 1));
  }

 private:
  /// The node where a draft grows next.
  struct Tip {
    const DraftJob* job;
    int node;
    int item;  // Of the batch.
  };

  /// A sequence that lacks at most this many tokens is drafted for in the same step. It covers the tokens
  /// that one step adds, with drafts.
  static constexpr int kCaughtUp = 64;

  /// Sequences that lack more tokens are computed further, up to `n_to_read` tokens. The others get a tip.
  int read(std::span<const DraftJob> jobs, int n_to_read) {
    tips_.clear();
    behind_.clear();
    for (const DraftJob& job : jobs) {
      if (!fits(job)) {
        context_.cache().remove(job.seq);  // Another sequence may need its cells.
        continue;
      }
      // The last token is always computed for its logits; so are all tokens that the model generated itself.
      cut(job.seq, static_cast<int>(job.text.size()) - 1);
      if (n_missing(job) <= kCaughtUp) {
        tips_.push_back({&job, DraftTree::kRoot, -1});
      } else {
        behind_.push_back(&job);
      }
    }
    if (behind_.empty()) return 0;
    std::sort(behind_.begin(), behind_.end(),
              [&](const DraftJob* a, const DraftJob* b) { return n_missing(*a) < n_missing(*b); });
    batch_.clear();
    for (const DraftJob* job : behind_) {
      const int n = std::min(n_missing(*job) - 1, n_to_read);
      if (n <= 0) continue;
      n_to_read -= n;
      batch_.add(job->text.subspan(to_size(context_.cache().next_pos(job->seq)), to_size(n)), job->seq,
                 {.logits = false});
    }
    return batch_.size() > 0 && decode(jobs) ? batch_.size() : 0;
  }

  /// Whether the draft model can compute the sequence and a draft. Its context may be smaller, and its
  /// vocabulary may lack the padding of the model's.
  bool fits(const DraftJob& job) const {
    const std::ptrdiff_t room =
        std::min<std::ptrdiff_t>(context_.cache().cells_total(), context_.cache().max_positions());
    if (std::ssize(job.text) + job.draft->n_max() > room) return false;
    const auto known = std::min(job.text.size(), to_size(context_.cache().next_pos(job.seq)));
    return std::ranges::all_of(job.text.subspan(known),
                               [&](Token id) { return id < context_.model().info().n_vocab; });
  }

  int n_missing(const DraftJob& job) const {
    return static_cast<int>(job.text.size()) - context_.cache().next_pos(job.seq);
  }

  /// Decodes the batch. False if there was no room: then sequences without a job were evicted, or the longest
  /// draft was dropped.
  bool decode(std::span<const DraftJob> jobs) {
    const auto start = std::chrono::steady_clock::now();
    const DecodeStatus status = context_.decode(batch_);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (status == DecodeStatus::kOk) {
      cost_.add(batch_.size(), ms.count(), static_cast<double>(tips_.size()));
      return true;
    }
    if (status == DecodeStatus::kCacheFull && evict(jobs)) return false;
    // Nothing is left to evict: the longest sequence gives up its draft.
    const auto largest = std::max_element(tips_.begin(), tips_.end(), [&](const Tip& a, const Tip& b) {
      return context_.cache().next_pos(a.job->seq) < context_.cache().next_pos(b.job->seq);
    });
    if (largest == tips_.end()) return false;
    context_.cache().remove(largest->job->seq);
    largest->job->draft->clear();
    tips_.erase(largest);
    return false;
  }

  /// Evicts the sequences without a job. False if there is none.
  bool evict(std::span<const DraftJob> jobs) {
    const int n_before = context_.cache().cells_used();
    for (SeqId seq = 0; seq < context_.params().n_sequences; ++seq)
      if (std::none_of(jobs.begin(), jobs.end(), [&](const DraftJob& job) { return job.seq == seq; }))
        context_.cache().remove(seq);
    return context_.cache().cells_used() < n_before;
  }

  static constexpr int kBestTwo = 2;
  using BestTwo = std::array<Best, kBestTwo>;

  BestTwo best_two(int item) const {
    BestTwo two;
    if (batch_[item].options.n_best > 0) {
      std::ranges::copy(context_.best(item), two.begin());
    } else {
      find_best(context_.logits(item), two);
    }
    return two;
  }

  Context& context_;
  const int n_vocab_;  // Tokens that both models have.
  Batch batch_;
  std::vector<Tip> tips_;
  std::vector<const DraftJob*> behind_;
  StepCost cost_;
};

}  // namespace

void StepCost::add(double rows, double ms, double tokens) {
  for (double* sum : {&weight_, &rows_, &ms_, &tokens_, &rows_squared_, &rows_ms_}) *sum *= kCostDecay;
  weight_ += 1.0;
  rows_ += rows;
  ms_ += ms;
  tokens_ += tokens;
  rows_squared_ += rows * rows;
  rows_ms_ += rows * ms;
}

double StepCost::ms_per_row() const {
  if (!known()) return 0.0;
  const double mean_rows = rows_ / weight_, mean_ms = ms_ / weight_;
  const double variance = rows_squared_ / weight_ - mean_rows * mean_rows;
  // Steps of equal sizes do not show the cost of a row. This guess serves until drafts of several lengths
  // were measured.
  constexpr double kGuess = 0.15;
  if (variance < 0.05) return kGuess * mean_ms / std::max(mean_rows, 1.0);
  const double slope = (rows_ms_ / weight_ - mean_rows * mean_ms) / variance;
  return std::clamp(slope, 0.01 * mean_ms / mean_rows, mean_ms / mean_rows);
}

double StepCost::ms_per_step() const {
  return known() ? std::max(0.0, (ms_ - ms_per_row() * rows_) / weight_) : 0.0;
}

double least_chance(const StepCost& cost, double draft_ms_per_token) {
  return cost.tokens_per_ms() * (cost.ms_per_row() + draft_ms_per_token);
}

std::unique_ptr<Drafter> make_ngram_drafter() { return std::make_unique<NgramDrafter>(); }

std::unique_ptr<Drafter> make_model_drafter(Context& draft, const Model& model, int n_sequences) {
  const auto refuse = [](const std::string& reason) { throw Error(ErrorCode::kInvalidArgument, reason); };
  if (draft.params().n_sequences < n_sequences)
    refuse("the draft model's context has " + base::counted(draft.params().n_sequences, "sequence") +
           ", the model's context has " + std::to_string(n_sequences) + "; give both the same number");
  if (!draft.cache().cuts_back())
    refuse(
        "the draft model has recurrent layers and its context keeps no states to go back to; set "
        "ContextParams::state_rewind");
  const Tokenizer& own = draft.model().tokenizer();
  const Tokenizer& theirs = model.tokenizer();
  // Families pad their vocabularies to different sizes, which differ by up to this many tokens.
  constexpr int kMostPadding = 256;
  const int n_vocab = std::min(own.n_vocab(), theirs.n_vocab());
  if (std::max(own.n_vocab(), theirs.n_vocab()) - n_vocab > kMostPadding)
    refuse("the draft model's vocabulary has " + std::to_string(own.n_vocab()) + " tokens, the model's has " +
           std::to_string(theirs.n_vocab()) + "; use a draft model of the same family");
  for (Token id = 0; id < n_vocab; ++id)
    if (own.text(id) != theirs.text(id))
      refuse("token " + std::to_string(id) +
             " is a different one in the draft model's vocabulary; use a draft model of the same family");
  return std::make_unique<ModelDrafter>(draft, n_vocab);
}

}  // namespace weft::engine
