// Products of experts, and the additions of adapters to products. Adapters are experts that a sequence
// chooses.
#include <algorithm>
#include <set>
#include <utility>

#include "backend/cpu/fuser.h"

namespace weft::cpu {

Fuser::ExpertGroups Fuser::expert_groups(ValueId ids, ValueId weight) {
  const std::int64_t n_experts = graph_.value(weight).shape[0].constant();
  for (int i = 0; i < program_.n_launches(); ++i) {
    const auto* candidate = dynamic_cast<const ExpertGroupsLaunch*>(&program_.launch(i));
    if (candidate != nullptr && candidate->ids() == ids && candidate->n_experts() == n_experts)
      return {candidate, i};
  }
  auto made = std::make_unique<ExpertGroupsLaunch>(graph_, ids, n_experts);
  const ExpertGroupsLaunch* const groups = made.get();
  const int launch = program_.add(std::move(made), program_.ready(ids), true);
  program_.reads(launch, ids);
  return {groups, launch};
}

void Fuser::add_matmul_experts(const Node& node, const MatmulValues& values) {
  const ExpertGroups groups = expert_groups(node.inputs[2], values.weight);
  const Form form = activation_form(graph_.value(values.weight).dtype);
  const int phase = std::max(program_.phase(groups.made_by) + 1, require_form(values.x, form));
  const int launch =
      program_.add(std::make_unique<MatmulExpertsLaunch>(graph_, values, groups.launch), phase);
  program_.reads_from(launch, groups.made_by);
  finish_product(launch, values);
}

/// The additions of adapters to products, and gathered rows without other readers: they are read in place.
void Fuser::find_adapters() {
  low_ranks_ = find_low_ranks(graph_, [&](ValueId value) { return users(value); });
  std::set<ValueId> gathered;
  std::set<NodeId> absorbed;
  for (const auto& [y, low_rank] : low_ranks_) {
    absorbed.insert(low_rank.nodes.begin(), low_rank.nodes.end());
    gathered.insert(low_rank.gathered);
  }
  for (const ValueId rows : gathered)
    if (!graph_.is_output(rows) &&
        std::ranges::all_of(users(rows), [&](NodeId user) { return absorbed.contains(user); }))
      done_[index(graph_.value(rows).producer)] = true;
}

/// Adds the additions to the rows of a product; `out` becomes the result.
void Fuser::absorb_low_rank(ValueId& out, LowRankValues& values) {
  const auto found = low_ranks_.find(out);
  if (found == low_ranks_.end()) return;
  values = found->second.values;
  out = found->second.out;
  for (const NodeId node : found->second.nodes) done_[index(node)] = true;
}

Fuser::Uses Fuser::uses_of(const LowRankValues& values) {
  for (const ValueId value : values.choices()) make_plain(value);
  const ExpertGroups groups = expert_groups(values.ids, values.b);
  for (int i = 0; i < program_.n_launches(); ++i) {
    const auto* candidate = dynamic_cast<const UsesLaunch*>(&program_.launch(i));
    if (candidate != nullptr && candidate->serves(values, groups.launch)) return {candidate, i};
  }
  auto made = std::make_unique<UsesLaunch>(graph_, values, groups.launch);
  const UsesLaunch* const uses = made.get();
  int phase = program_.phase(groups.made_by) + 1;
  for (const ValueId value : values.choices()) phase = std::max(phase, program_.ready(value));
  const int launch = program_.add(std::move(made), phase, true);
  for (const ValueId value : values.choices()) program_.reads(launch, value);
  program_.reads_from(launch, groups.made_by);
  return {uses, launch};
}

/// The product with the first of an adapter's matrices.
int Fuser::add_low_rank(const LowRankValues& values, const Uses& uses) {
  const ValueId read[] = {values.x, values.ids, values.factors};
  for (const ValueId value : read) make_plain(value);
  int phase = program_.phase(uses.made_by) + 1;
  for (const ValueId value : read) phase = std::max(phase, program_.ready(value));
  const int launch = program_.add(std::make_unique<LowRankLaunch>(graph_, values, uses.launch), phase);
  program_.reads(launch, values.a);
  for (const ValueId value : read) program_.reads(launch, value);
  program_.reads_from(launch, uses.made_by);
  program_.makes(launch, values.low);
  return launch;
}

/// A product that something is added to.
void Fuser::add_adapted(const MatmulValues& values) {
  const LowRankValues* const added[] = {&values.low_rank, &values.gate_low_rank};
  const Uses uses = uses_of(values.low_rank.used() ? values.low_rank : values.gate_low_rank);
  int phase = 0;
  for (const LowRankValues* const each : added)
    if (each->used()) phase = std::max(phase, program_.phase(add_low_rank(*each, uses)) + 1);
  phase = std::max(phase, first_phase(values));
  const int launch =
      program_.add(std::make_unique<MatmulLaunch>(graph_, values, nullptr, uses.launch), phase);
  for (const LowRankValues* const each : added)
    for (const ValueId value : {each->b, each->low, each->ids}) program_.reads(launch, value);
  program_.reads_from(launch, uses.made_by);
  finish_product(launch, values);
}

}  // namespace weft::cpu
