#pragma once
// The loop over what has places of its own: who waits and is let in (Admission), what the cache holds
// (PrefixCache), what is written ahead (Drafts), how much a step takes on (StepPace), which tokens are
// allowed (MaskMaker). The step itself is in batch_step.cpp, requests and their ends in batcher.cpp.
//
// A stream is waiting, running (it has a sequence) or done. Those that have something to tell are in the
// outbox once; nothing on the way from running to waiting or to the outbox needs memory, so that a step that
// fails for want of it can be taken back.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/batching/admission.h"
#include "engine/batching/drafts.h"
#include "engine/batching/limits.h"
#include "engine/batching/mask_maker.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/step_pace.h"
#include "engine/batching/stream.h"
#include "engine/sequence_adapters.h"
#include "weft/batcher.h"

namespace weft {

struct Batcher::Impl {
  Impl(Context& context_in, const BatcherParams& params_in);

  // --- Requests and their ends (batcher.cpp)

  RequestId submit(std::span<const Token> prompt, RequestParams params);
  /// Throws OverloadedError where the queue has no room.
  void check_queue(std::size_t n_prompt, int n_completions);
  /// The request was checked (check_request), and may wait.
  RequestId add(std::vector<Token> prompt, RequestParams params);
  void cancel(RequestId id);
  void set_paused(RequestId id, int completion, bool paused);
  bool step();
  /// Ends streams that are late.
  void expire(engine::Clock::time_point now);
  std::optional<engine::Clock::time_point> next_deadline() const;
  /// Everybody is told what is new.
  void deliver();
  /// A running stream has ended: what it leaves may serve others.
  void end(engine::Stream& stream, StopReason reason);
  // Streams that have ended leave where they are; what they have to tell stays until it is told:
  void leave(const engine::StreamPtr& stream);  ///< One, wherever it is.
  void drop_done();                             ///< Those of `running`.
  void drop_done_waiting();                     ///< Those of the queue; costs its length.
  void count_end(const engine::Stream& stream);
  void tell(const engine::StreamPtr& stream);
  bool can_go_on() const;
  BatcherStats stats() const;
  BatcherPicture picture() const;  // picture.cpp

  // --- Texts that outlive the cache (saved_texts.cpp)

  /// Those of texts of which nobody has said anything else.
  std::vector<AdapterUse> usual_adapters() const;
  SavedText save_text(std::span<const Token> tokens, const std::optional<std::vector<AdapterUse>>& adapters);
  RestoredText restore_text(std::span<const std::byte> state);
  int forget_text(std::span<const Token> tokens);
  /// What `f` returns; where it throws, what it left unsure is computed again.
  template <typename F>
  auto or_recover(F f);

  // --- A step (batch_step.cpp)

  /// What a stream has in the batch.
  struct Share {
    engine::Stream* stream;
    int first;  // Item of the batch.
    int n;      // Items, drafts not counted.
  };

  /// One step, whatever fails: what a device or memory refuses is tried again by the steps to come.
  void compute();
  void admit();
  /// Of the streams of `running` from `n_before` on.
  void note_admissions(std::size_t n_before, engine::Clock::time_point now);
  /// Room in the cache that one stream may use is up, before the batch is made.
  void check_limits();
  /// Those whose texts are about sources that are not read yet read theirs, as many as a step takes on. False
  /// where that was cancelled.
  bool read_sources();
  void build();
  void clear_batch() {
    batch.clear();
    shares.clear();
    n_decoding = 0;
  }
  void add_prompts();
  void ask_for_best(const Share& share);
  bool finds_logprobs(const engine::Stream& stream) const;
  /// An item reads a prompt token: the logprob of the next one, text[next], is wanted.
  void ask_for_prompt(const engine::Stream& stream, int item, int next);
  void read_all(double decode_ms);
  void tell_step(const StepRecord& record) const noexcept;
  void read(const Share& share);
  void draw(const Share& share);
  void drop_branches();

  // --- Steps that overlap (overlap.cpp)

  /// Into how many groups those that run are dealt, of which one's batch can be begun while the others' are
  /// on their way. 1: somebody runs that must not be in flight, or too few, or the context's batches do not
  /// overlap.
  std::size_t count_groups() const;
  /// Whose turn it is: of those that are not in flight as many as a group has.
  void choose_turn();
  /// Computes the batch. Where steps overlap it is only begun, and `batch` and its shares are those of the
  /// one that was begun first, or empty where there are not as many as groups.
  DecodeStatus decode();
  /// The batch was begun.
  void take_off() noexcept;
  /// Waits for the batch that was begun first, which becomes `batch`.
  DecodeStatus receive();
  /// Waits for batches that are on their way, and reads them, until so many are left.
  void land(std::size_t n_left = 0);
  /// The stream takes no part any more in the batch that is on its way.
  void leave_flight(engine::Stream& stream);
  /// What is on its way is given up: its streams are to be taken back.
  void drop_flights() noexcept;
  /// The cache has of the stream's text what it had before the batch that was given up. False where that
  /// cannot be: a running state has gone on.
  bool take_back(engine::Stream& stream);

  // --- When the cache is full, or a step fails

  void make_room();
  void preempt(const engine::StreamPtr& stream);
  void wait_again(const engine::StreamPtr& stream);  ///< Not a reference into `running`.
  bool preempt_youngest(const engine::Stream* except);
  /// A step failed. `cache_is_unsure`: what the cache and its index hold may be anything.
  void failed(std::string_view why, bool cache_is_unsure) noexcept;
  void blame(std::string_view why) noexcept;
  void recover(std::string_view why, bool cache_is_unsure) noexcept;
  void give_up_unsound(std::string_view why);
  /// Gives up the cache; all streams that run wait again, to be computed from their texts.
  void rebuild(std::string_view why) noexcept;

  // --- When devices are lost (renewal.cpp)

  /// Where they are, all streams wait for renew(), and nobody is blamed. Whether that is so.
  bool suspend_if_lost(std::string_view why) noexcept;
  /// `make` puts another context in the place of this one, of the same model and with the same parameters;
  /// streams go on there, computed again from their texts. Throws what `make` throws; all streams end with
  /// that, then.
  void renew(const std::function<void()>& make);

  /// The context is this batcher's alone, for so long.
  class Lease {
   public:
    explicit Lease(Context* context) : context_(context) {
      if (context_ != nullptr) context_->lease();
    }
    ~Lease() {
      if (context_ != nullptr) context_->end_lease();
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    Context* const context_;
  };

  Context& context;
  const BatcherParams params;
  std::function<bool()> devices_lost = nullptr;  // As ServiceParams has it.
  bool suspended = false;                        // They are: until renew().
  std::optional<Lease> lease;
  const Lease draft_lease;
  BatcherStats counters;
  const std::unique_ptr<engine::Drafter> drafter;  // nullptr: no speculation.
  engine::PrefixCache cache;
  engine::Admission admission;
  engine::Drafts drafts;
  engine::StepPace pace;
  engine::MaskMaker masks;

  std::vector<engine::StreamPtr> running;                    // In the order of their admission.
  std::vector<engine::StreamPtr> outbox;                     // With something to tell.
  std::vector<engine::StreamPtr> telling;                    // What deliver() has taken of it.
  std::size_t n_open = 0;                                    // Streams that were not told their end.
  std::map<RequestId, std::vector<engine::StreamPtr>> open;  // Requests with such streams.
  bool any_deadlines = false;                                // Among them.
  bool delivering = false;

  std::vector<engine::StreamPtr> turn;  // Those of `running` whose turn it is in this step.
  Batch batch;
  std::vector<Share> shares;
  std::vector<engine::Stream*> reading;  // Of the step: those that want some of the prompt budget.
  /// What it reads next is computed in one step, and the last one had no room for it: it has the next one to
  /// itself. Not more than an address, of a stream that may be gone.
  const engine::Stream* crowded_out = nullptr;
  int n_decoding = 0;  // Items of the batch that are no prompt's.
  /// A batch that was begun, and is not read yet.
  struct Flight {
    Batch batch;
    std::vector<Share> shares;  // Null streams are those that have left.
    int n_decoding = 0;
  };
  std::vector<Flight> flights;  // The oldest first; one stream is in one of them at most.
  std::size_t n_groups = 1;     // More: this step is begun, not waited for.
  bool unsure = false;          // Results are being read: what the cache holds may not be what streams say.
  int n_read_by_drafter = 0;    // Tokens, in this step.
  int n_source = 0;             // Tokens of sources that this step has read, ...
  double source_ms = 0.0;       // ... and how long that took.
  bool drafts_allowed = true;
  int n_failures = 0;  // Steps that failed, one after another.
  /// Being preempted: where that fails, it is why.
  engine::StreamPtr concerned;

  std::optional<engine::Clock::time_point> last_admission;  // Since somebody waits.
  std::int64_t step_number = 0;
  RequestId last_request = 0;
  std::int64_t last_order = 0;
};

}  // namespace weft
