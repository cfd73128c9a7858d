#include "engine/batching/drafts.h"

#include <algorithm>
#include <exception>

namespace weft::engine {
namespace {

/// Of the time of steps that may go on drafts which are not expected to pay ...
constexpr double kShareToTry = 0.01;
/// ... and how much of it can be saved up, in steps.
constexpr double kMostToTry = 4.0;
/// Tokens of a draft while it is not known what steps cost: enough to learn what a drafter's own cost.
constexpr int kOnFaith = 2;
/// A drafter that failed so many times one after another is not asked any more.
constexpr int kMaxFailures = 4;

}  // namespace

std::unique_ptr<Drafter> make_drafter(const BatcherParams& params, const Context& context) {
  if (!context.cuts_back()) return nullptr;
  if (params.speculation == Speculation::kNgram) return make_ngram_drafter();
  if (params.speculation == Speculation::kModel)
    return make_model_drafter(*params.draft, context.model(), context.params().n_sequences);
  return nullptr;
}

void Drafts::add_step(double ms) { ms_to_try_ = std::min(ms_to_try_ + kShareToTry * ms, kMostToTry * ms); }

/// Whether a draft that is not expected to pay is tried, for one token, to see whether it would by now.
bool Drafts::tries(Stream& stream, const StepCost& cost) {
  if (stream.n_until_probe-- > 0) return false;
  const double ms = cost.ms_per_row() + drafter_->ms_to_begin(stream.seq, stream.text);
  if (ms > ms_to_try_) return false;
  ms_to_try_ -= ms;
  trials_.push_back({&stream.draft, ms});
  return true;
}

int Drafts::write(std::span<const StreamPtr> streams, const StepCost& cost, bool allowed, int n_to_read) {
  if (drafter_ == nullptr) return 0;
  jobs_.clear();
  trials_.clear();
  // Branches are sequences: the free ones are shared out evenly.
  const int n_spare = cache_.n_spare(static_cast<int>(streams.size()));
  const auto may_draft = [&](const auto& stream) {
    return allowed && n_failures_ < kMaxFailures && stream->params().speculate && stream->n_pending() == 1 &&
           goes_on(stream);
  };
  const auto n_jobs = static_cast<int>(std::count_if(streams.begin(), streams.end(), may_draft));
  const double least = params_.adapt_drafts ? least_chance(cost, drafter_->ms_per_token(n_jobs)) : 0.0;
  for (const auto& stream : streams) {
    stream->draft.clear();
    if (!may_draft(stream)) continue;
    DraftOdds& odds = stream->odds;
    odds.n_leaves = std::min(1 + n_spare, params_.n_draft_branches);
    odds.least = least;
    // Not past the end of what the stream may write.
    odds.n_max =
        std::min(params_.n_draft, stream->request().max_text - static_cast<int>(stream->text.size()));
    if (stream->params().n_predict >= 0)
      odds.n_max = std::min(odds.n_max, stream->params().n_predict - stream->stats.n_generated - 1);
    if (params_.adapt_drafts && !cost.known()) odds.n_max = std::min(odds.n_max, kOnFaith);
    if (odds.right < odds.least && tries(*stream, cost)) {
      odds.n_max = std::min(odds.n_max, 1);
      odds.least = 0.0;
    }
    stream->draft.begin(odds);
    if (odds.n_max > 0 && stream->draft.grows(DraftTree::kRoot))
      jobs_.push_back({stream->seq, stream->text, &stream->draft});
  }
  int n_read = 0;
  try {
    if (!jobs_.empty()) n_read = drafter_->draft(jobs_, n_to_read);
    n_failures_ = 0;
  } catch (const std::exception&) {  // It is a help only: the step does without.
    ++n_failures_;
    drafter_->reset();
    for (const DraftJob& job : jobs_) job.draft->clear();
  }
  for (const auto& stream : streams) prune(*stream);
  for (const Trial& trial : trials_)
    if (trial.draft->empty()) ms_to_try_ += trial.ms;  // There was nothing to try.
  return n_read;
}

/// Guesses that the stream's constraint forbids go, with all that stands behind them, and those behind an
/// end.
void Drafts::prune(Stream& stream) {
  if (stream.draft.empty()) return;
  try {
    stream.draft.keep_if([&](std::span<const Token> path, Token token) {
      if (!path.empty() && stream.ends_with(path.back())) return false;
      return stream.constraint() == nullptr || stream.constraint()->allows(path, token);
    });
  } catch (...) {  // Of guesses: the text itself shows whether there is something wrong.
    stream.draft.clear();
  }
}

void Drafts::add(Batch& batch, Stream& stream) const {
  const std::vector<int> leaves = stream.draft.leaves();
  cache_.branch(stream, static_cast<int>(leaves.size()));
  batch.add(stream.text.back(), stream.branches, true);
  std::vector<SeqId> seqs;
  for (int node = 0; node < stream.draft.size(); ++node) {
    seqs.clear();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (stream.draft.leads_to(node, leaves[i])) seqs.push_back(stream.branches[i]);
    batch.add(stream.draft.nodes()[static_cast<std::size_t>(node)].token, seqs, true);
  }
}

void Drafts::learn(Stream& stream, int node, int right) {
  const DraftTree& draft = stream.draft;
  const int n_guesses = draft.n_children(node);
  if (n_guesses == 0) return;
  constexpr double kRate = 0.12;
  constexpr int kProbeEvery = 24;
  // Each guess was a trial, up to the one that was right.
  const int rank =
      right == DraftTree::kNone ? n_guesses : draft.nodes()[static_cast<std::size_t>(right)].rank;
  stream.odds.right += kRate * ((rank == 0 ? 1.0 : 0.0) - stream.odds.right);
  for (int i = 1; i <= std::min(rank, n_guesses - 1); ++i)
    stream.odds.other += kRate * ((i == rank ? 1.0 : 0.0) - stream.odds.other);
  stream.n_until_probe = kProbeEvery;
}

void Drafts::fold(Stream& stream, int node) const {
  const std::vector<int> leaves = stream.draft.leaves();
  std::size_t right = 0;
  while (right < leaves.size() && !stream.draft.leads_to(node, leaves[right])) ++right;
  cache_.keep_branch(stream, right < leaves.size() ? right : 0);
}

}  // namespace weft::engine
