#pragma once
// A batcher on its own thread: requests from any thread, responses to any thread.
//
//   weft::Service service(std::move(context));
//   weft::Response response = service.submit(prompt, params);
//   for (weft::Chunk chunk; response.next(chunk);) std::cout << chunk.text;
//
// Each completion has a bounded queue of output. A slow client pauses its own completion, never a step. The
// completion continues once the client has emptied the queue. While it is paused, others may take its cells.
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
  /// A completion pauses when this many of its tokens are unread.
  int n_unread = 256;
  /// Whether devices of the context are lost for good, or weights (Model::check_weights). The service's
  /// thread calls it after a failed step. If true, no request ends with an error: all wait for renew(). Null:
  /// nothing can be lost.
  std::function<bool()> devices_lost = nullptr;
};

/// The output of a completion since its last chunk.
struct Chunk {
  int completion = 0;
  std::string text = {};
  std::vector<OutputToken> tokens = {};
  std::vector<OutputToken> prompt = {};  ///< As Output::prompt.
  std::vector<float> embedding = {};     ///< As Output::embedding.
  bool done = false;                     ///< The last chunk of this completion.
  StopReason stop = StopReason::kEnd;
  int stop_string = -1;  ///< As Output::stop_string.
  std::string error = {};
  bool not_numbers = false;  ///< As Output::not_numbers.
  CompletionStats stats = {};
};

/// The response to a request, as a stream. Used by one thread at a time, except cancel(). Moving and
/// destroying are cheap. Destroying a response before its end cancels the request. May outlive the service.
class Response {
 public:
  Response();  ///< Without a request: next() returns false.
  ~Response();
  Response(Response&&) noexcept;
  Response& operator=(Response&&) noexcept;

  RequestId id() const;
  /// Waits for new output of any completion, and takes all new output of one. Returns false at the end of
  /// all.
  bool next(Chunk& chunk);
  enum class Poll : std::uint8_t { kChunk, kNothingYet, kEnd };
  /// The same, but waits at most this long; 0: not at all.
  Poll poll(Chunk& chunk, std::chrono::milliseconds at_most = std::chrono::milliseconds(0));
  /// Ends the request. Output so far can still be taken, then the completions end with kCancelled. Any
  /// thread.
  void cancel();
  /// For event loops: the service's thread calls `wake` whenever poll() has new output, and this call does at
  /// once if there is some. `wake` must not block, throw or use the service. Null ends the calls; after the
  /// return none is running.
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
  /// From here on the context belongs to the service's thread. So does a draft's context
  /// (BatcherParams::draft), which must outlive the service. Throws Error.
  explicit Service(Context context, const ServiceParams& params = {});
  /// Cancels everything and waits for the thread.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Model& model() const;
  /// on_output must be empty: the response replaces it. Throws like Batcher::submit, and Error kUnavailable
  /// when the service is draining or down.
  Response submit(std::vector<Token> prompt, RequestParams params);
  /// The statistics after the last step.
  BatcherStats stats() const;
  /// The contents of the cache and the state of the requests, made by the service's thread: waits for the end
  /// of the running step. Throws Error kUnavailable once the service is down.
  BatcherPicture picture() const;

  // As the batcher's, on the service's thread: they wait for the end of the running step. Throw Error
  // kUnavailable once the service is down, and while it waits for renew() if they need lost devices.
  SavedText save_text(std::span<const Token> tokens,
                      const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  RestoredText restore_text(std::span<const std::byte> state);
  int forget_text(std::span<const Token> tokens);

  /// Replaces a context whose devices or weights are lost. `make` returns another one, of the same Model
  /// (Model::reload) and with the same parameters. It is called on the service's thread once the old one is
  /// gone. Requests under way continue: their tokens are computed again, with the same results, and no output
  /// is delivered twice. New requests wait. Cached prefixes of finished sequences are lost. A request that
  /// has dropped some of its sequence (RequestParams::context_shift) ends with an error. A draft's context
  /// stays as it is; where its devices are lost, too, nothing is drafted any more. Throws what `make` throws.
  /// Requests then end with that error, too, and the service takes no more.
  void renew(const std::function<Context()>& make);

  /// Takes no more requests and waits at most this long for the open ones. Then cancels the rest. Returns
  /// true if none had to be cancelled.
  bool drain(std::chrono::milliseconds at_most);
  /// Takes no more requests and cancels the open ones. All responses end.
  void shutdown();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
