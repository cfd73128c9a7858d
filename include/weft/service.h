#pragma once
// The batcher behind a thread of its own: requests from any thread, answers to any thread.
//
//   weft::Service service(std::move(context));
//   weft::Response response = service.submit(prompt, params);
//   for (weft::Chunk chunk; response.next(chunk);) std::cout << chunk.text;
//
// Each completion has a bounded queue for what it writes. Who reads slowly pauses its own completion, never
// a step: it goes on once the queue was read down, and while it is paused its cells may go to others.
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
  /// Tokens that a completion may have written and its reader not taken yet; then it pauses.
  int n_unread = 256;
  /// Whether devices of the context are lost for good, or weights (Model::check_weights). Asked when a step
  /// has failed, by the service's thread. Then no request ends with an error: all wait for renew(). Null:
  /// nothing can be lost.
  std::function<bool()> devices_lost = nullptr;
};

/// What a completion has written since the last chunk of it.
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

/// The answer to a request, as it is written. Used by one thread at a time, except cancel(). Moving and
/// destroying are cheap; an answer that is destroyed before its end cancels its request. May outlive the
/// service.
class Response {
 public:
  Response();  ///< Of no request: next() is false.
  ~Response();
  Response(Response&&) noexcept;
  Response& operator=(Response&&) noexcept;

  RequestId id() const;
  /// Waits for what is new in any of the completions, and takes all of one. False when everything was taken.
  bool next(Chunk& chunk);
  enum class Poll : std::uint8_t { kChunk, kNothingYet, kEnd };
  /// The same without waiting longer than this; 0: not at all.
  Poll poll(Chunk& chunk, std::chrono::milliseconds at_most = std::chrono::milliseconds(0));
  /// Ends the request: what was written can still be taken, then its completions end with kCancelled. Any
  /// thread.
  void cancel();
  /// `wake` is called whenever poll() has something new, from the service's thread, and at once where it has
  /// already: for event loops. It must not block nor throw, nor use the service. Null: no more; when this
  /// returns no call is under way.
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
  /// The context (and that of a draft, BatcherParams::draft, which must outlive the service) belong to the
  /// service's thread from here on. Throws Error.
  explicit Service(Context context, const ServiceParams& params = {});
  /// Cancels everything and waits for the thread.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const Model& model() const;
  /// The parameters' on_output must be empty: the response takes its place. Throws like Batcher::submit, and
  /// Error kUnavailable when the service is draining or down.
  Response submit(std::vector<Token> prompt, RequestParams params);
  /// How things stand after the last step.
  BatcherStats stats() const;
  /// What is in the cache and who is served. Made by the service's thread when it is asked for: waits until
  /// the step that computes is over. Throws Error kUnavailable once the service is down.
  BatcherPicture picture() const;

  // As the batcher's, by the service's thread between two steps: they wait until the one that computes is
  // over. Error kUnavailable once the service is down, and where it waits for renew() and they need the
  // devices that are lost.
  SavedText save_text(std::span<const Token> tokens,
                      const std::optional<std::vector<AdapterUse>>& adapters = std::nullopt);
  RestoredText restore_text(std::span<const std::byte> state);
  int forget_text(std::span<const Token> tokens);

  /// Devices or weights of the context are lost: `make` makes another one, of the same Model
  /// (Model::reload) and with the same parameters. It is called on the service's thread once the old one is
  /// gone. Requests under way go on where they were, computed again from their texts: with the same tokens,
  /// and nothing is told twice; new ones wait. What finished texts left in the cache is gone, and a request
  /// that has forgotten some of its text (RequestParams::context_shift) ends with an error. A draft's context
  /// stays as it is: where its devices are lost, too, nothing is drafted any more. Throws what
  /// `make` throws: requests end with that error, too, and the service takes no more.
  void renew(const std::function<Context()>& make);

  /// Takes no more requests, and waits until those that it has are done, at most so long; those that remain
  /// are cancelled then. True where none had to be.
  bool drain(std::chrono::milliseconds at_most);
  /// Takes no more requests, and cancels those that it has. All responses get their ends.
  void shutdown();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
