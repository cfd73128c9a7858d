#include "backend/cpu/program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/to_size.h"

namespace weft::cpu {

ProgramBuilder::ProgramBuilder(std::size_t n_values)
    : makers_(n_values), first_makers_(n_values, kNoLaunch), kept_(n_values), bases_(n_values) {
  std::iota(bases_.begin(), bases_.end(), ValueId{0});
  for (ByForm<int>& makers : makers_)
    for (const Form form : kForms) makers[form] = kNoLaunch;
}

int ProgramBuilder::add(std::unique_ptr<Launch> launch, int phase, bool may_follow) {
  entries_.push_back({std::move(launch), layer_, phase, may_follow, {}, {}});
  return n_launches() - 1;
}

void ProgramBuilder::changes(int launch, ValueId value) {
  int& maker = makers_[to_size(value)][Form::kPlain];
  reads_from(launch, maker);
  first_makers_[to_size(value)] = std::exchange(maker, launch);
  keep(value);
}

int ProgramBuilder::ready(ValueId value, Form form) const {
  const int launch = maker(form == Form::kPlain ? base_of(value) : value, form);
  return launch == kNoLaunch ? 0 : phase(launch) + 1;
}

void ProgramBuilder::reads(int launch, ValueId value, Form form) {
  if (value == kNoValue) return;
  if (form == Form::kPlain) value = base_of(value);
  if (maker(value, form) == launch) return;
  entry(launch).reads.emplace_back(value, form);
  if (form == Form::kPlain) keep(value);
}

void ProgramBuilder::reads_from(int launch, int other) { entry(launch).reads_from.push_back(other); }

Program ProgramBuilder::finish() {
  // Everything that a launch reads is made in earlier phases, so in this order it comes after it.
  std::vector<std::size_t> order(entries_.size()), place(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return entries_[a].phase < entries_[b].phase; });
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;

  Program program;
  for (const std::size_t i : order) {
    Entry& entry = entries_[i];
    Program::Entry made = {.launch = std::move(entry.launch),
                           .layer = entry.layer,
                           .phase = entry.phase,
                           .may_follow = entry.may_follow,
                           .first_phase = entry.phase};
    const auto add_after = [&](int other) {
      if (other != kNoLaunch) made.after.push_back(place[to_size(other)]);
    };
    for (const auto& [value, form] : entry.reads) add_after(maker(value, form));
    for (const int other : entry.reads_from) add_after(other);
    std::sort(made.after.begin(), made.after.end());
    made.after.erase(std::unique(made.after.begin(), made.after.end()), made.after.end());
    if (made.may_follow && !made.after.empty()) {
      made.first_phase = 0;
      for (const std::size_t other : made.after)
        made.first_phase = std::max(made.first_phase, program.launches[other].first_phase);
    }
    program.n_phases = std::max(program.n_phases, made.phase + 1);
    program.launches.push_back(std::move(made));
  }
  settle_lives(program, place);
  for (std::size_t v = 0; v < bases_.size(); ++v)
    if (const auto value = static_cast<ValueId>(v); is_alias(value))
      program.aliases.push_back({value, base_of(value)});
  return program;
}

/// A form is in memory from its first possible making until its last possible read.
void ProgramBuilder::settle_lives(Program& program, const std::vector<std::size_t>& place) const {
  program.lives.resize(makers_.size());
  for (std::size_t v = 0; v < makers_.size(); ++v) {
    for (const Form form : kForms) {
      const int launch = makers_[v][form];
      if (launch == kNoLaunch || (form == Form::kPlain && !kept_[v])) continue;
      const auto entry_of = [&](int made_by) -> const Program::Entry& {
        return program.launches[place[to_size(made_by)]];
      };
      const bool changed = form == Form::kPlain && first_makers_[v] != kNoLaunch;
      program.lives[v][form] = {entry_of(changed ? first_makers_[v] : launch).first_phase,
                                entry_of(launch).phase};
    }
  }
  for (const Entry& reader : entries_)
    for (const auto& [value, form] : reader.reads) {
      int& last = program.lives[to_size(value)][form].last;
      last = std::max(last, reader.phase);
    }
}

}  // namespace weft::cpu
