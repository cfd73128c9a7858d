// Attention, attention that is written out, and softmax along an axis that was turned to the end.
#include <algorithm>
#include <utility>

#include "backend/cpu/fuser.h"
#include "backend/cpu/launches/dense_attention.h"
#include "backend/cpu/launches/softmax.h"
#include "base/to_size.h"

namespace weft::cpu {

void Fuser::add_attention(const Node& node) {
  const auto in = named_inputs<ops::Attention>(node);
  int phase = 0;
  for (const ValueId input : node.inputs) phase = std::max(phase, program_.ready(input));
  SharedTiles* shared = nullptr;
  for (SharedTiles& candidate : tiles_)
    if (candidate.tiles->serves(graph_, in) && candidate.last_phase < phase) shared = &candidate;
  if (shared == nullptr)
    shared = &tiles_.emplace_back(SharedTiles{std::make_shared<AttentionTiles>(graph_, in)});
  const bool first = std::exchange(shared->last_phase, phase) < 0;
  add_simple(node, std::make_unique<AttentionLaunch>(graph_, node, shared->tiles, first));
}

/// Attention that is written out: its first product and what follows are left to its last one.
bool Fuser::add_attention_parts(NodeId id) {
  for (const WrittenOut& written_out : written_out_)
    if (written_out.parts.last == id) {
      add_written_out(written_out.parts, written_out.turned_keys);
      return true;
    }
  const auto parts = attention_parts(graph_, id, [&](ValueId value) { return only_user(value); });
  if (!parts) return false;
  // Keys are stored row by row if their transpose is multiplied.
  const View& turned = views_[index(parts->turned_keys)];
  if (!(turned.strides[to_size(turned.shape.rank() - 2)] == Dim(1))) return false;
  done_[index(id)] = true;
  for (const NodeId between : parts->between) done_[index(between)] = true;
  written_out_.push_back({*parts, turned});
  return true;
}

void Fuser::add_written_out(const AttentionParts& parts, const View& turned_keys) {
  const auto rows_of = [&](ValueId value) {
    const View& view = views_[index(value)];
    if (!(view.strides[to_size(view.shape.rank() - 1)] == Dim(1))) make_plain(value);
    return with_four_axes(views_[index(value)]);
  };
  const ValueId result = graph_.node(parts.last).output;
  DenseAttentionViews views = {.q = rows_of(parts.q),
                               .k = with_four_axes(turned_keys),
                               .v = rows_of(parts.v),
                               .out = with_four_axes(plain_view(result, graph_.value(result).shape))};
  views.k.shape = {views.k.shape[0], views.k.shape[1], views.k.shape[3], views.k.shape[2]};
  std::swap(views.k.strides[2], views.k.strides[3]);
  std::vector<ValueId> read = {views.q.base, views.k.base, views.v.base};
  if (parts.bias != kNoValue) {
    views.bias = views_[index(parts.bias)];
    views.mask = graph_.value(parts.bias).dtype == DType::kI32;
    read.push_back(views.bias->base);
  }
  int phase = 0;
  for (const ValueId value : read) phase = std::max(phase, program_.ready(value));
  const int launch = program_.add(std::make_unique<DenseAttentionLaunch>(parts.op, views), phase);
  for (const ValueId value : read) program_.reads(launch, value);
  program_.makes(launch, result);
  done_[index(parts.last)] = true;
}

/// A softmax of transposed rows that are transposed back: along an axis of the original.
bool Fuser::add_softmax_across(NodeId id) {
  const Node& node = graph_.node(id);
  const NodeId back = only_user<ops::Permute>(node.output);
  if (back == kNoNode || !is_strided(node.inputs[0])) return false;
  const ValueId result = graph_.node(back).output;
  const auto& axes = get_op<ops::Permute>(graph_.node(back))->axes;
  const View x = views_[index(node.inputs[0])];
  const View plain = plain_view(result, graph_.value(result).shape);
  View out = {result, x.shape, 0, {}};
  for (std::size_t i = 0; i < to_size(x.shape.rank()); ++i) out.strides[to_size(axes[i])] = plain.strides[i];
  const int launch =
      program_.add(std::make_unique<SoftmaxAcrossLaunch>(graph_, x, out), program_.ready(x.base));
  program_.reads(launch, x.base);
  program_.makes(launch, result);
  views_[index(node.output)] = out;
  done_[index(id)] = done_[index(back)] = true;
  return true;
}

}  // namespace weft::cpu
