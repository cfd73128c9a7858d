#pragma once
// A program: launches in phases, and the lifetimes of their results in memory.
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/launches/launch.h"
#include "base/to_size.h"

namespace weft::cpu {

/// When a form of a value is alive, in phases. first < 0: the form is not used.
struct FormLife {
  int first = -1;
  int last = -1;
  bool used() const { return first >= 0; }
};

struct Program {
  struct Entry {
    std::unique_ptr<Launch> launch;
    int layer = NodeTag::kNone;  ///< The layer of the node for which it was made.
    int phase = 0;
    /// Little work if it has few tasks. Then it needs no phase of its own, but may run as soon as the
    /// launches that it reads from are done. That is in first_phase at the earliest.
    bool may_follow = false;
    int first_phase = 0;
    std::vector<std::size_t> after;  ///< The launches that it reads from, all of earlier phases.
  };
  std::vector<Entry> launches;  ///< In order of phases.
  int n_phases = 0;
  std::vector<ByForm<FormLife>> lives;  ///< By ValueId: the lifetimes in memory.
  struct Alias {
    ValueId value, base;
  };
  std::vector<Alias> aliases;  ///< Values that are the beginning of another's memory.
};

/// Launches while they are put together: what each makes and reads.
class ProgramBuilder {
 public:
  static constexpr int kNoLaunch = -1;

  explicit ProgramBuilder(std::size_t n_values);

  /// Launches that are added from here on are made for nodes of that layer.
  void enter_layer(int layer) { layer_ = layer; }
  int add(std::unique_ptr<Launch> launch, int phase, bool may_follow = false);
  int n_launches() const { return static_cast<int>(entries_.size()); }
  Launch& launch(int launch) const { return *entry(launch).launch; }
  int phase(int launch) const { return entry(launch).phase; }

  /// The launch that makes a value in this form.
  int maker(ValueId value, Form form = Form::kPlain) const { return makers_[to_size(value)][form]; }
  void makes(int launch, ValueId value, Form form = Form::kPlain) { makers_[to_size(value)][form] = launch; }
  /// A launch changes a value in place, which no other launch reads before. From here on it counts as the
  /// value's maker.
  void changes(int launch, ValueId value);
  /// The first phase in which a value can be read in this form.
  int ready(ValueId value, Form form = Form::kPlain) const;
  /// Notes that a launch reads a value, unless it makes it itself.
  void reads(int launch, ValueId value, Form form = Form::kPlain);
  /// ... and another launch's data that is not a value.
  void reads_from(int launch, int other);
  /// A plain value stays in memory even if only its maker reads it.
  void keep(ValueId value) { kept_[to_size(value)] = true; }
  /// A value that no launch makes, with the memory of `base`, which is not an alias: readers of it read that.
  void alias(ValueId value, ValueId base) { bases_[to_size(value)] = base; }
  bool is_alias(ValueId value) const { return base_of(value) != value; }
  /// By value.
  const std::vector<bool>& kept() const { return kept_; }

  Program finish();

 private:
  struct Entry {
    std::unique_ptr<Launch> launch;
    int layer = NodeTag::kNone;
    int phase = 0;
    bool may_follow = false;
    std::vector<std::pair<ValueId, Form>> reads;
    std::vector<int> reads_from;
  };
  Entry& entry(int launch) { return entries_[to_size(launch)]; }
  const Entry& entry(int launch) const { return entries_[to_size(launch)]; }
  ValueId base_of(ValueId value) const { return bases_[to_size(value)]; }
  void settle_lives(Program& program, const std::vector<std::size_t>& place) const;

  int layer_ = NodeTag::kNone;
  std::vector<Entry> entries_;
  std::vector<ByForm<int>> makers_;  // By value.
  std::vector<int> first_makers_;    // By value: the launch whose value the maker changes, or none.
  std::vector<bool> kept_;
  std::vector<ValueId> bases_;  // By value: itself, unless it is an alias.
};

}  // namespace weft::cpu
