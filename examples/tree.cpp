// A tree of continuations: from the prompt on, every sequence is continued with its two most probable tokens.
// All sequences of a depth are one step, and share the cells of their common prefix. Then one step computes
// the whole tree again, as a draft with many branches is verified. It computes each token once, for all
// sequences that contain it.
//
//   tree -m MODEL [PROMPT]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "weft/context.h"
#include "weft/error.h"

namespace {

constexpr int kDepth = 4;
constexpr weft::SeqId kLeaves = 1 << kDepth;

struct Node {
  weft::Token token;
  int parent;                          // -1: the prompt.
  double logprob;                      // Of the sequence up to this node.
  weft::SeqId seq;                     // The sequence that computes it first.
  std::vector<weft::SeqId> seqs = {};  // All sequences that contain it.
};

/// The two most probable tokens, with the logarithms of their probabilities.
std::vector<std::pair<weft::Token, double>> best_two(std::span<const float> logits) {
  double sum = 0.0;
  const float top = *std::max_element(logits.begin(), logits.end());
  for (const float x : logits) sum += std::exp(x - top);
  std::vector<weft::Token> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<weft::Token>(i);
  const auto at = [&](weft::Token id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(ids.begin(), ids.begin() + 2, ids.end(), [&](auto a, auto b) { return at(a) > at(b); });
  return {{ids[0], at(ids[0]) - top - std::log(sum)}, {ids[1], at(ids[1]) - top - std::log(sum)}};
}

/// The sequences of this example fit into the cache, so a full cache is an error.
void compute(weft::Context& context, const weft::Batch& batch) {
  if (context.decode(batch) != weft::DecodeStatus::kOk)
    throw weft::Error(weft::ErrorCode::kInvalidArgument, "the cache is full");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: tree -m MODEL [PROMPT]\n");
    return 2;
  }
  const auto model = weft::Model::load(argv[2]);
  const auto prompt = model->tokenizer().encode(argc > 3 ? argv[3] : "The weather today is");
  weft::Context context(model, {.n_ctx = 1024, .n_sequences = kLeaves});
  weft::Batch batch;
  batch.add(prompt, 0);
  compute(context, batch);

  // Depth by depth: the first child continues its parent's sequence, the second a copy (no bytes move).
  std::vector<Node> nodes;
  std::vector<int> leaves = {-1};
  std::vector<int> items = {batch.size() - 1};
  weft::SeqId n_sequences = 1;
  for (int depth = 0; depth < kDepth; ++depth) {
    std::vector<int> children;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const int parent = leaves[i];
      const weft::SeqId own = parent < 0 ? 0 : nodes[static_cast<std::size_t>(parent)].seq;
      const double logprob = parent < 0 ? 0.0 : nodes[static_cast<std::size_t>(parent)].logprob;
      for (const auto& [token, extra] : best_two(context.logits(items[i]))) {
        const weft::SeqId seq = children.size() % 2 == 0 ? own : n_sequences++;
        if (seq != own && !context.cache().copy(own, seq)) return 1;
        children.push_back(static_cast<int>(nodes.size()));
        nodes.push_back({token, parent, logprob + extra, seq});
      }
    }
    batch.clear();
    items.clear();
    for (const int child : children) {
      items.push_back(batch.size());
      batch.add(nodes[static_cast<std::size_t>(child)].token, nodes[static_cast<std::size_t>(child)].seq,
                {.logits = true});
    }
    compute(context, batch);
    leaves = children;
  }
  std::vector<std::vector<float>> grown;
  for (const int item : items) grown.emplace_back(context.logits(item).begin(), context.logits(item).end());
  const int cells = context.cache().cells_used();

  // The whole tree at once: a leaf is a sequence, and each token belongs to all leaves below it.
  for (const int leaf : leaves)
    for (int n = leaf; n >= 0; n = nodes[static_cast<std::size_t>(n)].parent)
      nodes[static_cast<std::size_t>(n)].seqs.push_back(nodes[static_cast<std::size_t>(leaf)].seq);
  const auto end = static_cast<weft::Pos>(prompt.size());
  for (weft::SeqId seq = 0; seq < n_sequences; ++seq) context.cache().remove(seq, end);
  const auto steps = context.plan_stats().steps;
  batch.clear();
  for (const Node& node : nodes) batch.add(node.token, node.seqs, {.logits = true});
  compute(context, batch);
  bool same = true;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto row = context.logits(leaves[i]);
    same = same && std::equal(row.begin(), row.end(), grown[i].begin());
  }

  std::sort(leaves.begin(), leaves.end(), [&](int a, int b) {
    return nodes[static_cast<std::size_t>(a)].logprob > nodes[static_cast<std::size_t>(b)].logprob;
  });
  for (const int leaf : leaves) {
    std::vector<weft::Token> tokens;
    for (int n = leaf; n >= 0; n = nodes[static_cast<std::size_t>(n)].parent)
      tokens.insert(tokens.begin(), nodes[static_cast<std::size_t>(n)].token);
    std::printf("%5.1f %%  ...%s\n", 100.0 * std::exp(nodes[static_cast<std::size_t>(leaf)].logprob),
                model->tokenizer().decode(tokens).c_str());
  }
  std::printf("\n%d sequences of %d tokens, %d cells; all %d tokens of the tree in %d step%s: %s\n",
              n_sequences, static_cast<int>(prompt.size()) + kDepth, cells, static_cast<int>(nodes.size()),
              static_cast<int>(context.plan_stats().steps - steps),
              context.plan_stats().steps - steps == 1 ? "" : "s", same ? "equal logits" : "DIFFERENT LOGITS");
  return same ? 0 : 1;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "tree: %s\n", error.what());
  return 1;
}
