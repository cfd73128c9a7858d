#include "engine/batching/prefix_index.h"

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"

namespace weft::engine {

struct PrefixIndex::Node {
  const TextOrigin* origin = nullptr;  // For roots only.
  std::vector<Token> run;
  Node* parent = nullptr;
  std::map<Token, std::unique_ptr<Node>> children;  // By the first token of their runs.
  std::vector<SeqId> ends;                          // Holders that end with this run.
  int n_holders = 0;                                // Holders here and below.
};

namespace {

std::size_t common_length(std::span<const Token> a, std::span<const Token> b) {
  const std::size_t n = std::min(a.size(), b.size());
  return to_size(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                 a.begin());
}

}  // namespace

PrefixIndex::PrefixIndex(int n_holders) : ends_(to_size(n_holders), nullptr), sizes_(to_size(n_holders), 0) {}
PrefixIndex::~PrefixIndex() = default;

const PrefixIndex::Node* PrefixIndex::root_of(const TextOrigin& origin) const {
  const auto found = roots_.find(origin);
  return found != roots_.end() ? found->second.get() : nullptr;
}

void PrefixIndex::split(Node& node, std::size_t n) {
  auto tail = std::make_unique<Node>();
  tail->run.assign(node.run.begin() + static_cast<std::ptrdiff_t>(n), node.run.end());
  tail->parent = &node;
  tail->children = std::exchange(node.children, {});
  tail->ends = std::exchange(node.ends, {});
  tail->n_holders = node.n_holders;
  for (auto& [token, child] : tail->children) child->parent = tail.get();
  for (const SeqId holder : tail->ends) ends_[to_size(holder)] = tail.get();
  node.run.resize(n);
  const Token first = tail->run.front();
  node.children.emplace(first, std::move(tail));
  ++n_nodes_;
}

void PrefixIndex::join(Node& node) {
  if (node.parent == nullptr || !node.ends.empty() || node.children.size() != 1) return;
  try {
    node.run.reserve(node.run.size() + node.children.begin()->second->run.size());
  } catch (const std::bad_alloc&) {
    return;  // Two nodes are as correct as one.
  }
  const std::unique_ptr<Node> child = std::move(node.children.begin()->second);
  node.run.insert(node.run.end(), child->run.begin(), child->run.end());
  node.children = std::move(child->children);
  node.ends = std::move(child->ends);
  for (auto& [token, grandchild] : node.children) grandchild->parent = &node;
  for (const SeqId holder : node.ends) ends_[to_size(holder)] = &node;
  --n_nodes_;
}

void PrefixIndex::append(SeqId holder, std::span<const Token> tokens, const TextOrigin& origin) {
  if (tokens.empty() && origin.source.empty()) return;
  const auto h = to_size(holder);
  Node* at = ends_[h];
  sizes_[h] += static_cast<int>(tokens.size());
  if (at != nullptr && at->n_holders == 1 &&
      at->parent != nullptr) {  // No other holder shares it: the common case while decoding.
    at->run.insert(at->run.end(), tokens.begin(), tokens.end());
    return;
  }
  if (at == nullptr) {
    const auto entry = roots_.try_emplace(origin).first;
    if (entry->second == nullptr) entry->second = std::make_unique<Node>();
    at = entry->second.get();
    at->origin = &entry->first;
    ++at->n_holders;
  }
  Node* const from = at;
  std::erase(at->ends, holder);
  while (!tokens.empty()) {
    const auto found = at->children.find(tokens.front());
    if (found == at->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->run.assign(tokens.begin(), tokens.end());
      leaf->parent = at;
      leaf->n_holders = 1;
      Node* const next = leaf.get();
      at->children.emplace(tokens.front(), std::move(leaf));
      ++n_nodes_;
      at = next;
      break;
    }
    Node& child = *found->second;
    const std::size_t n = common_length(child.run, tokens);
    if (n < child.run.size()) split(child, n);
    ++child.n_holders;
    at = &child;
    tokens = tokens.subspan(n);
  }
  at->ends.push_back(holder);
  ends_[h] = at;
  join(*from);
}

void PrefixIndex::remove(SeqId holder) {
  const auto h = to_size(holder);
  Node* at = ends_[h];
  if (at == nullptr) return;
  std::erase(at->ends, holder);
  ends_[h] = nullptr;
  sizes_[h] = 0;
  Node* emptied = nullptr;  // The highest node without holders.
  Node* needed = at;
  const Node* root = at;
  for (Node* node = at; node != nullptr; node = node->parent) {
    root = node;
    if (--node->n_holders == 0 && node->parent != nullptr) {
      emptied = node;
      needed = node->parent;
    }
  }
  if (emptied != nullptr) {
    for (const Node* node = at; node != needed; node = node->parent) --n_nodes_;
    const Token first = emptied->run.front();
    needed->children.erase(first);
  }
  if (root->n_holders == 0) {
    std::erase_if(roots_, [&](const auto& entry) { return entry.second.get() == root; });
  } else {
    join(*needed);
  }
}

void PrefixIndex::clear() {
  roots_.clear();
  std::fill(ends_.begin(), ends_.end(), nullptr);
  std::fill(sizes_.begin(), sizes_.end(), 0);
  n_nodes_ = 0;
}

PrefixIndex::Match PrefixIndex::find(std::span<const Token> text, const TextOrigin& origin) const {
  const Node* at = root_of(origin);
  Match match;
  while (at != nullptr && !text.empty()) {
    const auto found = at->children.find(text.front());
    if (found == at->children.end()) break;
    at = found->second.get();
    const std::size_t n = common_length(at->run, text);
    match.n += static_cast<int>(n);
    if (n < at->run.size()) break;
    text = text.subspan(n);
  }
  if (match.n == 0) return match;
  // Holders that end here or below share the whole match.
  while (at->ends.empty()) at = at->children.begin()->second.get();
  match.holder = at->ends.back();
  return match;
}

PrefixIndex::Match PrefixIndex::find(std::span<const Token> text, const TextOrigin& origin,
                                     const std::function<bool(SeqId, int)>& usable) const {
  // Down: the nodes on the path, each with the length of the match at its end.
  std::vector<std::pair<const Node*, int>> path;
  int n = 0;
  for (const Node* at = root_of(origin); at != nullptr && n < static_cast<int>(text.size());) {
    const std::span<const Token> rest = text.subspan(to_size(n));
    const auto found = at->children.find(rest.front());
    if (found == at->children.end()) break;
    at = found->second.get();
    const std::size_t n_here = common_length(at->run, rest);
    n += static_cast<int>(n_here);
    path.emplace_back(at, n);
    if (n_here < at->run.size()) break;
  }
  // Up: holders that diverge from the match at this node and were not examined at a lower one.
  const Node* asked = nullptr;
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    const auto [node, n_common] = *step;
    const std::function<SeqId(const Node&)> ask = [&, n_here = n_common](const Node& below) -> SeqId {
      for (const SeqId holder : below.ends)
        if (usable(holder, n_here)) return holder;
      for (const auto& [token, child] : below.children) {
        if (child.get() == asked) continue;
        if (const SeqId holder = ask(*child); holder >= 0) return holder;
      }
      return -1;
    };
    if (const SeqId holder = ask(*node); holder >= 0) return {holder, n_common};
    asked = node;
  }
  return {};
}

SeqId PrefixIndex::find_any(const TextOrigin& origin) const {
  const Node* at = root_of(origin);
  if (at == nullptr) return -1;
  while (at->ends.empty()) at = at->children.begin()->second.get();
  return at->ends.back();
}

const TextOrigin& PrefixIndex::origin(SeqId holder) const {
  const Node* node = end_of(holder);
  while (node->parent != nullptr) node = node->parent;
  return *node->origin;
}

std::vector<Token> PrefixIndex::text(SeqId holder, int n) const {
  std::vector<const Node*> path;
  for (const Node* node = end_of(holder); node != nullptr; node = node->parent) path.push_back(node);
  std::vector<Token> tokens;
  for (auto node = path.rbegin(); node != path.rend(); ++node)
    tokens.insert(tokens.end(), (*node)->run.begin(), (*node)->run.end());
  tokens.resize(std::min(tokens.size(), to_size(n)));
  return tokens;
}

std::int64_t PrefixIndex::n_tokens_of(std::span<const SeqId> holders) const {
  std::set<const Node*> seen;
  std::int64_t n = 0;
  for (const SeqId holder : holders)
    for (const Node* node = end_of(holder); node != nullptr && seen.insert(node).second; node = node->parent)
      n += std::ssize(node->run);
  return n;
}

bool PrefixIndex::covered(SeqId holder) const {
  const Node* const end = end_of(holder);
  return end != nullptr && end->n_holders > 1;
}

bool PrefixIndex::begins_with(SeqId holder, SeqId prefix) const {
  const Node* const end = end_of(prefix);
  const Node* node = end_of(holder);
  while (node != nullptr && node != end) node = node->parent;
  return node != nullptr;
}

bool PrefixIndex::doubled(SeqId holder) const {
  const Node* const end = end_of(holder);
  return end != nullptr && end->ends.size() > 1;
}

}  // namespace weft::engine
