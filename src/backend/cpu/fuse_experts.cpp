// Products of experts, and what some rows of a product get added from experts that they choose.
#include <algorithm>
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

/// What is added to some rows of a product: they lie where that is added.
bool Fuser::absorb_expert_means(MatmulValues& values) {
  const auto means = expert_means(graph_, values.out, [&](ValueId value) { return users(value); });
  if (!means) return false;
  values.out = means->out;
  for (const NodeId node : means->between) done_[index(node)] = true;
  expert_means_.push_back(*means);
  return true;
}

Fuser::UseRows Fuser::use_rows(const ExpertMeans& means, const ExpertGroups& groups) {
  for (int i = 0; i < program_.n_launches(); ++i) {
    const auto* candidate = dynamic_cast<const UseRowsLaunch*>(&program_.launch(i));
    if (candidate != nullptr && candidate->serves(means, groups.launch)) return {candidate, i};
  }
  auto made = std::make_unique<UseRowsLaunch>(graph_, means, groups.launch);
  const UseRowsLaunch* const rows = made.get();
  int phase = program_.phase(groups.made_by) + 1;
  for (const ValueId value : {means.begins, means.ends, means.flags})
    phase = std::max(phase, program_.ready(value));
  const int launch = program_.add(std::move(made), phase, true);
  for (const ValueId value : {means.begins, means.ends, means.flags}) program_.reads(launch, value);
  program_.reads_from(launch, groups.made_by);
  return {rows, launch};
}

/// The override that ends what was absorbed behind a product.
bool Fuser::add_expert_means(NodeId id) {
  const auto found = std::find_if(expert_means_.begin(), expert_means_.end(),
                                  [&](const ExpertMeans& means) { return means.last == id; });
  if (found == expert_means_.end()) return false;
  make_plain(found->ids);
  const ExpertGroups groups = expert_groups(found->ids, found->weight);
  const ValueId read[] = {found->x, found->factors, found->begins, found->ends, found->flags};
  for (const ValueId value : read) make_plain(value);
  const UseRows rows = use_rows(*found, groups);
  int phase = std::max(program_.phase(rows.made_by) + 1, program_.ready(found->out));
  for (const ValueId value : read) phase = std::max(phase, program_.ready(value));
  const int launch =
      program_.add(std::make_unique<ExpertMeansLaunch>(graph_, *found, groups.launch, rows.launch), phase);
  program_.reads(launch, found->weight);
  for (const ValueId value : read) program_.reads(launch, value);
  program_.reads_from(launch, groups.made_by);
  program_.reads_from(launch, rows.made_by);
  program_.changes(launch, found->out);
  done_[index(id)] = true;
  return true;
}

}  // namespace weft::cpu
