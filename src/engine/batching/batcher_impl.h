#pragma once
// The parts of a batcher. OpenRequests has all requests, and LiveStreams the streams that have not ended.
// Stepper computes the steps. Outbox has the output to deliver. PrefixCache has the sequences, and Flights
// the batches in flight.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/batching/batch_runner.h"
#include "engine/batching/flights.h"
#include "engine/batching/live_streams.h"
#include "engine/batching/open_requests.h"
#include "engine/batching/outbox.h"
#include "engine/batching/prefix_cache.h"
#include "engine/batching/speculation.h"
#include "engine/batching/stepper.h"
#include "engine/context/lease.h"
#include "weft/batcher.h"

namespace weft {

struct Batcher::Impl {
  Impl(Context& context_in, const BatcherParams& params_in);

  // --- Requests (batcher.cpp)

  RequestId submit(std::span<const Token> prompt, RequestParams params);
  /// Throws OverloadedError if the queue has no room.
  void check_queue(std::size_t n_prompt, const RequestParams& of);
  /// Adds a request that was checked (check_request).
  RequestId add(std::vector<Token> prompt, RequestParams params);
  std::shared_ptr<const engine::Request> make_request(std::vector<Token> prompt, RequestParams params) const;
  void cancel(RequestId id);
  void set_paused(RequestId id, int completion, bool paused);
  bool step();
  bool can_go_on() const;
  bool wants_store() const;
  /// Copies finished sequences to the cache tiers, as far as this step may.
  void store_idle();
  std::optional<engine::Clock::time_point> next_deadline() const;
  /// Delivers new output to the receivers.
  void deliver();
  /// Counts the end of a stream, which is about to be delivered.
  void count_end(const engine::Stream& stream);
  BatcherStats stats() const;
  BatcherSnapshot snapshot() const;  // snapshot.cpp

  /// `make` replaces the context by another one of the same model with the same parameters. Streams continue
  /// there and are recomputed from their tokens. Throws what `make` throws; all streams end with that error
  /// then.
  void renew(const std::function<void()>& make);

  // --- Saved prefixes (saved_prefixes.cpp)

  /// The adapters of requests that do not name any.
  std::vector<AdapterUse> usual_adapters() const;
  SavedPrefix save_prefix(std::span<const Token> tokens,
                          const std::optional<std::vector<AdapterUse>>& adapters);
  RestoredPrefix restore_prefix(std::span<const std::byte> state);
  int forget_prefix(std::span<const Token> tokens);
  /// Stepper::between_steps, which receivers of output must not call.
  template <typename F>
  auto between_steps(F f);

  /// Runs batches in a context that the batcher has leased.
  class Runner final : public engine::BatchRunner {
   public:
    explicit Runner(Context& context) : lease(&context), context_(context) {}
    DecodeStatus decode(const Batch& batch) override { return context_.decode(batch); }
    int n_at_once() const override { return context_.n_at_once(); }
    DecodeStatus begin(const Batch& batch) override { return context_.begin(batch); }
    DecodeStatus finish() override { return context_.finish(); }
    void drop_begun() noexcept override { context_.drop_begun(); }

    engine::Lease lease;

   private:
    Context& context_;
  };

  Context& context;
  const BatcherParams params;
  Runner runner;
  const engine::Lease draft_lease;
  BatcherStats counters;
  const std::unique_ptr<engine::Drafter> drafter;  // nullptr: no speculation.
  engine::PrefixCache cache;
  engine::OpenRequests open;
  engine::Outbox outbox;
  engine::Flights flights;
  engine::LiveStreams live;
  engine::Stepper stepper;
};

}  // namespace weft
