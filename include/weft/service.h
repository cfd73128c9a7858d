#pragma once
// A batcher on its own thread, for requests from any thread (as an inference server has them).
//
//   weft::Service service(std::move(context));
//   weft::Response response = service.submit(prompt, {.n_predict = 100});
//   for (weft::Output output; response.next(output);) std::cout << output.text;
//
// Each completion has a bounded queue of output. If a client reads slowly, only its completion pauses. Steps
// continue for others, which may take its cells. The completion resumes once the client has read the queue.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/batcher.h"
#include "weft/context.h"

#pragma GCC visibility push(default)

namespace weft {

struct ServiceParams {
  BatcherParams batcher = {};
  /// A completion pauses while this many of its tokens are unread.
  int n_unread = 256;
  /// Returns whether devices of the context, or its weights (Model::check_weights), are lost for good. The
  /// service's thread calls it after a failed step. If it returns true, requests do not end with an error but
  /// wait for renew(). Null: never lost.
  std::function<bool()> devices_lost = nullptr;
};

using Chunk [[deprecated("use Output")]] = Output;  ///< For one version.

/// The response to a request, as a stream of outputs. Used by one thread at a time, except cancel().
/// Destroying it before its end cancels the request. It may outlive the service.
class Response {
 public:
  Response();  ///< Without a request: next() returns false.
  ~Response();
  Response(Response&&) noexcept;
  Response& operator=(Response&&) noexcept;

  RequestId id() const;
  /// Waits for new output, and takes all new output of one completion. Returns false after the last output of
  /// all completions.
  bool next(Output& output);
  enum class Poll : std::uint8_t {
    kOutput,
    kNothingYet,
    kEnd,
    kChunk [[deprecated("use kOutput")]] = kOutput
  };
  /// The same, but waits at most this long. 0: does not wait.
  Poll poll(Output& output, std::chrono::milliseconds at_most = std::chrono::milliseconds(0));
  /// Ends the request. Output so far can still be taken; then each completion ends with kCancelled. Any
  /// thread may call it.
  void cancel();
  /// For event loops: the service's thread calls `wake` whenever poll() has new output. If there is some
  /// already, this call itself calls `wake`. `wake` must not block, throw or use the service. Null ends the
  /// calls: none is running after the return.
  void on_ready(std::function<void()> wake);

 private:
  friend class Service;
  struct State;
  explicit Response(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// All members may be called from any thread.
class Service {
 public:
  /// The service's thread now owns the context. It also uses the draft model's context
  /// (BatcherParams::draft). Throws like Batcher's constructor, Error
  /// kInvalidArgument for n_unread below 1, and kOutOfMemory if no thread can be made.
  explicit Service(Context context, const ServiceParams& params = {});
  /// Cancels all requests and waits for the thread.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Model& model() const;
  /// Adds a request. RequestParams::on_output must be empty: the response replaces it. Throws like
  /// Batcher::submit, and Error kUnavailable after drain() or shutdown().
  Response submit(std::vector<Token> prompt, RequestParams params);
  /// Recent statistics. Does not wait for a step.
  BatcherStats stats() const;
  /// A snapshot of the cache and the requests. Waits for the end of the running step. Throws Error
  /// kUnavailable after shutdown().
  BatcherSnapshot snapshot() const;

  // See Batcher. These wait for the end of the running step. They throw Error kUnavailable after shutdown(),
  // and while devices are lost and the service waits for renew().
  SavedPrefix save_prefix(std::span<const Token> tokens,
                          const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  RestoredPrefix restore_prefix(std::span<const std::byte> state);
  int forget_prefix(std::span<const Token> tokens);

  /// Replaces the context after its devices or weights were lost. The service's thread destroys the old
  /// context and then calls `make`. That returns a new one with the same Model (after Model::reload) and the
  /// same parameters.
  ///
  /// Open requests continue: their tokens are computed again, with the same results, and no output is
  /// delivered twice. Requests whose context was shifted (RequestParams::context_shift) end with an error.
  /// New requests wait. Cached prefixes are lost. The draft model's context is not replaced: if its devices
  /// are lost, too, speculation ends.
  ///
  /// If `make` throws, renew() rethrows it, all requests end with that error, and the service takes no more.
  void renew(const std::function<Context()>& make);

  /// Refuses new requests and waits at most this long for the open ones; then cancels the rest. Returns true
  /// if none had to be cancelled.
  bool drain(std::chrono::milliseconds at_most);
  /// Refuses new requests and cancels the open ones, so that all responses end.
  void shutdown();

  // Deprecated names, for one version.
  [[deprecated("use save_prefix")]] SavedPrefix save_text(
      std::span<const Token> tokens, const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt) {
    return save_prefix(tokens, adapters);
  }
  [[deprecated("use restore_prefix")]] RestoredPrefix restore_text(std::span<const std::byte> state) {
    return restore_prefix(state);
  }
  [[deprecated("use forget_prefix")]] int forget_text(std::span<const Token> tokens) {
    return forget_prefix(tokens);
  }
  [[deprecated("use snapshot")]] BatcherSnapshot picture() const { return snapshot(); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
