#pragma once
// What a context is made of: bookkeeping, caches, one plan. The API on it is in context.cpp, the walk of a
// batch in decode.cpp.
#include <atomic>
#include <optional>
#include <utility>

#include "engine/devices/bound_graph.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"
#include "engine/placing.h"
#include "engine/states/states.h"
#include "exec/plan.h"
#include "kv/sequences.h"
#include "kv/state_slots.h"
#include "kv/window_pages.h"
#include "weft/context.h"

namespace weft {

namespace engine {
inline constexpr Pos kMaxPosition = 1 << 29;
inline constexpr const char* kKeepWindows =
    "; make the context with a larger window_rewind (-1 keeps everything)";
}  // namespace engine

struct Context::Impl {
  Impl(std::shared_ptr<const Model> model_in, const ContextParams& params_in,
       std::shared_ptr<Workspaces> workspaces_in);

  const model::HParams& hparams() const { return model->impl().description.hparams; }
  int n_extents() const { return engine::extents_of(n_pages); }
  model::GraphSizes sizes() const;
  std::optional<kv::WindowPages> make_windows() const;

  /// The host's memory of an input or output.
  template <typename T>
  std::span<T> values(ValueId id) const {
    if (id == kNoValue) return {};
    const std::span<std::byte> bytes = bindings[static_cast<std::size_t>(id)]->host();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  void check_sequence(SeqId seq) const;

  // The walk of a batch.
  DecodeStatus decode(const Batch& batch);
  /// Checks the batch, resolves its positions and passes them to `placing`.
  void admit(const Batch& batch);
  /// Finds the running states' slots before and after each item. The slots' batch ends with commit or
  /// abandon.
  void step_states(const Batch& batch);
  /// Writes the inputs of a step's items. Gives the number of entries of what is hidden from them.
  std::int64_t bind_step(const Batch& batch);
  /// Those of layers that keep a window only.
  void bind_windows(const Batch& batch, std::int64_t n_hidden);
  engine::MoveInputs move_inputs(const model::CellInputs& inputs) const;
  /// One step, with the last of the moves that are owed before it; what does not fit goes in steps of their
  /// own. `start`: it is started and not waited for (exec::Plan::start).
  /// `n_logits` of the outputs are rows of logits, of the others the best are taken.
  void run_step(std::int64_t n_tokens, std::int64_t n_outputs, std::int64_t n_logits, std::int64_t n_hidden,
                bool start = false);
  /// What an operation on sequences has left to be moved is known to the windows too.
  void follow_moves() {
    if (windows) windows->follow_moves();
  }
  /// For those who look at cells outside of steps.
  void carry_out_moves();
  /// Notes where the logits of the step's items are. All but the last step's are moved out of the plan's way.
  void read_step(const Batch& batch, const engine::Placing::Step& step);
  void read_logits(const Batch& batch, const engine::Placing::Step& step);
  void read_best(const Batch& batch, const engine::Placing::Step& step);
  /// Room for the best tokens of an item.
  std::span<Best> add_best(const Batch& batch, int item);

  bool consistent() const;

  std::vector<std::byte> save(std::optional<SeqId> seq);
  void save_file(const std::filesystem::path& path, std::optional<SeqId> seq);
  bool restore(std::span<const std::byte> bytes, std::optional<SeqId> seq);

  const std::shared_ptr<const Model> model;
  const ContextParams params;
  const int n_pages;
  const model::ModelGraph graph;
  const engine::BoundGraph bound;
  const Bindings& bindings;
  const bool recurrent = model->impl().description.hparams.recurrent();
  kv::Sequences sequences;
  std::optional<kv::WindowPages> windows;  // Where layers keep a window only.
  kv::StateSlots slots;
  engine::Placing placing;
  engine::States states;
  const std::shared_ptr<Workspaces> workspaces;  // Of those who take turns.
  exec::Plan plan;
  Pos max_pos = 0;

  std::vector<kv::Place> places;                  // Of the batch being admitted.
  std::vector<std::pair<int, int>> hidden_pairs;  // Of the batch, in the order of the first ones.
  std::vector<kv::StateSlots::Step> state_steps;  // By item, in recurrent models.
  std::vector<Pos> last_pos;                      // By sequence: the last position in the batch so far.
  std::vector<const float*> logits_of;            // By item of the last batch.
  std::vector<float> kept_logits;
  std::size_t n_kept = 0;
  struct BestOf {
    std::size_t begin = 0;  // In `best`.
    std::size_t n = 0;
  };
  std::vector<BestOf> best_of;  // By item of the last batch.
  std::vector<Best> best;
  std::vector<std::int64_t> last_symbols;
  std::atomic<bool> cancelled{false};
  double host_seconds = 0.0;
  bool leased = false;  // To a batcher.
};

}  // namespace weft
