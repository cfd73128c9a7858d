#include "engine/batching/drafts.h"

#include <algorithm>
#include <exception>

#include "base/to_size.h"

namespace weft::engine {
namespace {

/// The share of step time for trying drafts that are not expected to pay ...
constexpr double kShareToTry = 0.01;
/// ... and the most that can be saved up, in steps.
constexpr double kMostToTry = 4.0;
/// Tokens of a draft while the cost of steps is not known: enough to learn the drafter's own cost.
constexpr int kOnFaith = 2;
/// A drafter is disabled after this many failures in a row.
constexpr int kMaxFailures = 4;
/// Forced tokens that a step checks for one stream.
constexpr int kMaxForced = 32;

bool may_draft(const Stream& stream) {
  return stream.params().speculate && stream.n_pending() == 1 && !stream.is_pooled() &&
         !stream.schedule.rests() && !stream.cached.lacks_source();
}

}  // namespace

std::unique_ptr<Drafter> make_drafter(const BatcherParams& params, const Context& context) {
  if (!context.cache().cuts_back()) return nullptr;
  if (params.speculation == Speculation::kNgram) return make_ngram_drafter();
  if (params.speculation == Speculation::kModel)
    return make_model_drafter(*params.draft, context.model(), context.params().n_sequences);
  return nullptr;
}

std::optional<int> Drafts::n_states(const Context& context, const BatcherParams& params) {
  std::optional<int> n;
  const auto add = [&](const Context& one) {
    if (one.model().info().recurrent)
      n = std::min(n.value_or(one.params().state_rewind), one.params().state_rewind);
  };
  add(context);
  if (params.speculation == Speculation::kModel && params.draft != nullptr) add(*params.draft);
  return n;
}

int Drafts::most_ahead(const Stream& stream) const {
  int n = stream.request().max_text - static_cast<int>(stream.text().size());
  const int n_predict = stream.params().n_predict;
  if (n_predict >= 0) n = std::min(n, n_predict - stream.stats.n_generated - 1);
  // The state before the stream's last token is kept, too.
  return n_states_ ? std::min(n, *n_states_ / std::max(n_decoding_, 1) - 1) : n;
}

void Drafts::add_step(double ms) { ms_to_try_ = std::min(ms_to_try_ + kShareToTry * ms, kMostToTry * ms); }

/// Whether to try a draft of one token that is not expected to pay, to learn whether it would by now.
bool Drafts::tries(Stream& stream, const DraftTree& draft, const StepCost& cost) {
  if (!stream.draft.wants_probe()) return false;
  const double ms = cost.ms_per_row() + drafter_->ms_to_begin(stream.cached.seq(), stream.text());
  if (ms > ms_to_try_) return false;
  ms_to_try_ -= ms;
  trials_.push_back({&draft, ms});
  return true;
}

int Drafts::write(std::span<const StreamPtr> streams, const StepCost& cost, bool allowed, int n_to_read) {
  n_decoding_ = static_cast<int>(std::ranges::count_if(
      streams, [](const auto& stream) { return goes_on(stream) && !stream->is_prefilling(); }));
  for (const auto& stream : streams) {
    stream->draft.clear();
    if (allowed && may_draft(*stream)) force(*stream, cost);
  }
  if (drafter_ == nullptr || !allowed || n_failures_ >= kMaxFailures) return 0;
  const int n_read = ask_drafter(streams, cost, n_to_read);
  for (const Tail& tail : tails_) tail.stream->draft.tree().graft(tail.draft);
  for (const auto& stream : streams) prune(*stream);
  for (const Trial& trial : trials_)
    if (trial.draft->empty()) ms_to_try_ += trial.ms;  // The drafter had no guess.
  return n_read;
}

void Drafts::force(Stream& stream, const StepCost& cost) {
  if (!can_go_back_ || stream.constraint() == nullptr) return;
  const int n_max = std::min(kMaxForced, most_ahead(stream));
  if (n_max <= 0) return;
  forced_.clear();
  try {
    stream.constraint()->forced(stream.held(), forced_);
  } catch (...) {
    return;
  }
  // The first forced token is always tried, so that its acceptance is measured again.
  const double right = stream.draft.forced_right();
  const double least = params_.adapt_drafts ? std::min(least_chance(cost, 0.0), right) : 0.0;
  DraftTree& draft = stream.draft.tree();
  draft.begin({.right = right, .least = least, .n_max = n_max});
  int node = DraftTree::kRoot;
  for (const Token token : forced_) {
    if (token < 0 || token >= n_vocab_ || stream.ends_with(token)) break;  // An end needs no row.
    node = draft.grow(node, token);
    if (node == DraftTree::kNone) break;
  }
  stream.draft.set_forced();
}

int Drafts::ask_drafter(std::span<const StreamPtr> streams, const StepCost& cost, int n_to_read) {
  jobs_.clear();
  trials_.clear();
  tails_.clear();
  tails_.reserve(streams.size());
  // Branches are sequences; the free sequences are divided evenly.
  const int n_spare = cache_.n_spare(static_cast<int>(streams.size()));
  const auto n_jobs = static_cast<int>(
      std::count_if(streams.begin(), streams.end(), [](const auto& stream) { return may_draft(*stream); }));
  const double least = params_.adapt_drafts ? least_chance(cost, drafter_->ms_per_token(n_jobs)) : 0.0;
  for (const auto& stream : streams) {
    if (!may_draft(*stream)) continue;
    DraftTree* draft = &stream->draft.tree();
    std::span<const Token> text = stream->text();
    const DraftOdds first = drafter_->first_odds();
    stream->draft.expect(first.right, first.other);
    DraftOdds& odds = stream->draft.odds();
    odds.least = least;
    if (stream->draft.n_forced() > 0) {
      const std::span<const DraftTree::Node> forced = draft->nodes();
      odds.least = least / forced.back().chance;
      Tail& tail = tails_.emplace_back(Tail{stream.get(), stream->text(), {}});
      for (const DraftTree::Node& node : forced) tail.text.push_back(node.token);
      draft = &tail.draft;
      text = tail.text;
    }
    // Of a tree each branch would keep its own states.
    odds.n_leaves = recurrent_ ? 1 : std::min(1 + n_spare, params_.n_draft_branches);
    odds.n_max = std::min(params_.n_draft, most_ahead(*stream) - stream->draft.n_forced());
    if (params_.adapt_drafts && !cost.known()) odds.n_max = std::min(odds.n_max, kOnFaith);
    if (odds.right < odds.least && tries(*stream, *draft, cost)) {
      odds.n_max = std::min(odds.n_max, 1);
      odds.least = 0.0;
    }
    draft->begin(odds);
    if (odds.n_max > 0 && draft->grows(DraftTree::kRoot))
      jobs_.push_back({stream->cached.seq(), text, draft});
  }
  int n_read = 0;
  try {
    if (!jobs_.empty()) n_read = drafter_->draft(jobs_, n_to_read);
    n_failures_ = 0;
  } catch (const std::exception&) {  // Drafts are optional: the step continues without them.
    ++n_failures_;
    drafter_->reset();
    for (const DraftJob& job : jobs_) job.draft->clear();
  }
  return n_read;
}

/// Drops guesses that the stream's constraint forbids or that follow an end token, with all nodes below them.
void Drafts::prune(Stream& stream) {
  DraftTree& draft = stream.draft.tree();
  const int n_forced = stream.draft.n_forced();
  if (draft.size() == n_forced) return;
  try {
    draft.keep_if([&](std::span<const Token> path, Token token) {
      if (std::ssize(path) < n_forced) return true;
      if (!path.empty() && stream.ends_with(path.back())) return false;
      if (stream.constraint() == nullptr) return true;
      const std::span<const Token> held = stream.held();
      std::vector<Token> before(held.begin(), held.end());
      before.insert(before.end(), path.begin(), path.end());
      return stream.constraint()->allows(before, token);
    });
  } catch (...) {  // Only guesses failed. If the constraint is broken, drawing real tokens reports it.
    draft.cut(n_forced);
  }
}

void Drafts::add(Batch& batch, Stream& stream, const ItemOptions& options) const {
  const DraftTree& draft = stream.draft.tree();
  const std::vector<SeqId>& branches = stream.draft.branches();
  const std::vector<int> leaves = draft.leaves();
  cache_.branch(stream, static_cast<int>(leaves.size()));
  batch.add(stream.text().back(), branches, options);
  std::vector<SeqId> seqs;
  for (int node = 0; node < draft.size(); ++node) {
    seqs.clear();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (draft.leads_to(node, leaves[i])) seqs.push_back(branches[i]);
    batch.add(draft.nodes()[to_size(node)].token, seqs, options);
  }
}

void Drafts::fold(Stream& stream, int node) const {
  const DraftTree& draft = stream.draft.tree();
  const std::vector<int> leaves = draft.leaves();
  std::size_t right = 0;
  while (right < leaves.size() && !draft.leads_to(node, leaves[right])) ++right;
  cache_.keep_branch(stream, right < leaves.size() ? right : 0);
}

}  // namespace weft::engine
