#pragma once
// The batcher's loop. Its parts are the queue (Admission), the cached sequences (PrefixCache), drafts
// (Drafts), the size of steps (StepPace) and the masks of constrained streams (MaskMaker). The step itself is
// in batch_step.cpp; submission and the ends of requests are in batcher.cpp.
//
// A stream is waiting, running (it has a sequence) or done. A stream with output to deliver is in the outbox
// once. Moving a running stream to the queue or to the outbox needs no memory. So a step that fails for lack
// of memory can be undone.
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
  /// Throws OverloadedError if the queue has no room.
  void check_queue(std::size_t n_prompt, int n_completions);
  /// Adds a request that was checked (check_request).
  RequestId add(std::vector<Token> prompt, RequestParams params);
  void cancel(RequestId id);
  void set_paused(RequestId id, int completion, bool paused);
  bool step();
  /// Ends streams that missed a deadline.
  void expire(engine::Clock::time_point now);
  std::optional<engine::Clock::time_point> next_deadline() const;
  /// Delivers new output to the receivers.
  void deliver();
  /// A running stream has ended; its sequence may become an idle one.
  void end(engine::Stream& stream, StopReason reason);
  // Remove ended streams; their undelivered output stays in the outbox:
  void leave(const engine::StreamPtr& stream);  ///< One stream, wherever it is.
  void drop_done();                             ///< All ended streams of `running`.
  void drop_done_waiting();  ///< All ended streams of the queue, in time linear in its length.
  void count_end(const engine::Stream& stream);
  void tell(const engine::StreamPtr& stream);
  bool can_go_on() const;
  BatcherStats stats() const;
  BatcherPicture picture() const;  // picture.cpp

  // --- Saved prefixes (saved_texts.cpp)

  /// The adapters of requests that do not name any.
  std::vector<AdapterUse> usual_adapters() const;
  SavedText save_text(std::span<const Token> tokens, const std::optional<std::vector<AdapterUse>>& adapters);
  RestoredText restore_text(std::span<const std::byte> state);
  int forget_text(std::span<const Token> tokens);
  /// Returns the result of `f`. If `f` throws, sequences that it left undefined are computed again.
  template <typename F>
  auto or_recover(F f);

  // --- A step (batch_step.cpp)

  /// A stream's items of the batch.
  struct Share {
    engine::Stream* stream;
    int first;  // Item of the batch.
    int n;      // Items, drafts not counted.
  };

  /// One step. It does not throw if a device or an allocation fails; later steps try again.
  void compute();
  void admit();
  /// Statistics of the streams of `running` from index `n_before` on.
  void note_admissions(std::size_t n_before, engine::Clock::time_point now);
  /// Ends or shifts the streams that have used all cells that one stream may have. Runs before the batch is
  /// made.
  void check_limits();
  /// Encodes the sources of streams that lack one, within the step's time. False if that was cancelled.
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
  /// Requests the logprob of the prompt token text[next] from the batch item that computes the token before
  /// it.
  void ask_for_prompt(const engine::Stream& stream, int item, int next);
  void read_all(double decode_ms);
  void tell_step(const StepRecord& record) const noexcept;
  void read(const Share& share);
  void draw(const Share& share);
  void drop_branches();

  // --- Steps that overlap (overlap.cpp)

  /// The number of groups that the running streams are divided into. One group's batch can start while the
  /// batches of the others are in flight. It is 1 if the context's batches do not overlap, if there are too
  /// few streams, or if one must not be in flight.
  std::size_t count_groups() const;
  /// Chooses the streams of this step: as many of those not in flight as a group has.
  void choose_turn();
  /// Computes the batch. If steps overlap, it only starts the batch. `batch` and its shares are then the
  /// oldest started batch, or empty if fewer batches than groups are in flight.
  DecodeStatus decode();
  /// Records `batch` as in flight.
  void take_off() noexcept;
  /// Waits for the oldest batch in flight, which becomes `batch`.
  DecodeStatus receive();
  /// Waits for batches in flight and reads them, until `n_left` are left.
  void land(std::size_t n_left = 0);
  /// Removes the stream from the batch in flight that it is in.
  void leave_flight(engine::Stream& stream);
  /// Drops all batches in flight. The caller must take back their streams.
  void drop_flights() noexcept;
  /// Cuts the stream's sequence back to its length before the dropped batch. False if that is impossible,
  /// because a running state has advanced.
  bool take_back(engine::Stream& stream);

  // --- When the cache is full, or a step fails

  void make_room();
  void preempt(const engine::StreamPtr& stream);
  void wait_again(const engine::StreamPtr& stream);  ///< `stream` must not be a reference into `running`.
  bool preempt_youngest(const engine::Stream* except);
  /// A step failed. `cache_is_unsure`: the contents of the cache and its index are undefined.
  void failed(std::string_view why, bool cache_is_unsure) noexcept;
  void blame(std::string_view why) noexcept;
  void recover(std::string_view why, bool cache_is_unsure) noexcept;
  void give_up_unsound(std::string_view why);
  /// Drops the cache. All running streams wait again and are recomputed from their tokens.
  void rebuild(std::string_view why) noexcept;

  // --- When devices are lost (renewal.cpp)

  /// If devices are lost, all streams wait for renew() and no stream is blamed. Returns whether that is so.
  bool suspend_if_lost(std::string_view why) noexcept;
  /// `make` replaces the context by another one of the same model with the same parameters. Streams continue
  /// there and are recomputed from their tokens. Throws what `make` throws; all streams end with that error
  /// then.
  void renew(const std::function<void()>& make);

  /// The batcher's exclusive use of a context.
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
  std::function<bool()> devices_lost = nullptr;  // ServiceParams::devices_lost.
  bool suspended = false;                        // Devices are lost; until renew().
  std::optional<Lease> lease;
  const Lease draft_lease;
  BatcherStats counters;
  const std::unique_ptr<engine::Drafter> drafter;  // nullptr: no speculation.
  engine::PrefixCache cache;
  engine::Admission admission;
  engine::Drafts drafts;
  engine::StepPace pace;
  engine::MaskMaker masks;

  std::vector<engine::StreamPtr> running;  // In the order of their admission.
  std::vector<engine::StreamPtr> outbox;   // With output to deliver.
  std::vector<engine::StreamPtr> telling;  // The streams that deliver() has taken from the outbox.
  std::size_t n_open = 0;                  // Streams whose end was not delivered.
  std::map<RequestId, std::vector<engine::StreamPtr>> open;  // Requests with open streams.
  bool any_deadlines = false;                                // Whether any of them has a deadline.
  bool delivering = false;

  std::vector<engine::StreamPtr> turn;  // Streams of `running` that take part in this step.
  Batch batch;
  std::vector<Share> shares;
  std::vector<engine::Stream*> reading;  // Streams of this step that read a prompt.
  /// A stream whose next part must be computed in one step and did not fit into the last one. It gets the
  /// next step alone. Only an address: the stream may be gone.
  const engine::Stream* crowded_out = nullptr;
  int n_decoding = 0;  // Items of the batch that belong to decoding streams.
  /// A batch in flight: started, and not read yet.
  struct Flight {
    Batch batch;
    std::vector<Share> shares;  // `stream` is null if the stream has left.
    int n_decoding = 0;
  };
  std::vector<Flight> flights;  // The oldest first; a stream is in at most one of them.
  std::size_t n_groups = 1;     // More than 1: steps are started and not waited for.
  bool unsure = false;          // Results are being read: the cache may not match the streams' fields.
  int n_read_by_drafter = 0;    // Tokens, in this step.
  int n_source = 0;             // Encoder input tokens that this step has computed, ...
  double source_ms = 0.0;       // ... and how long that took.
  bool drafts_allowed = true;
  int n_failures = 0;  // Steps that failed, one after another.
  /// The stream that is being preempted, which a failure is blamed on.
  engine::StreamPtr concerned;

  std::optional<engine::Clock::time_point> last_admission;  // Unset if the queue is empty.
  std::int64_t step_number = 0;
  RequestId last_request = 0;
  std::int64_t last_order = 0;
};

}  // namespace weft
