// The engine: a service and the responses to its requests, for threads and for event loops.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <system_error>
#include <tuple>

#include "binding.h"
#include "grammar.h"
#include "model.h"
#include "opening.h"
#include "options.h"
#include "weft/token_bans.h"

namespace weft::python {

namespace {

/// The responses with new chunks, for an event loop that watches a file descriptor. The engine's thread adds
/// keys without the interpreter's lock. Several keys wake the loop once.
class ReadyQueue {
 public:
  ReadyQueue() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd_ < 0) throw Error(ErrorCode::kIo, "no eventfd: " + std::system_category().message(errno));
  }
  ~ReadyQueue() { close(fd_); }
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;

  int fd() const { return fd_; }
  void put(std::int64_t key) {
    const std::scoped_lock lock(mutex_);
    keys_.push_back(key);
    const std::uint64_t one = 1;
    if (keys_.size() == 1) [[maybe_unused]]
      const ssize_t written = write(fd_, &one, sizeof one);  // Fails only where it is signalled already.
  }
  std::vector<std::int64_t> take() {
    const std::scoped_lock lock(mutex_);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof count);
    return std::exchange(keys_, {});
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::vector<std::int64_t> keys_;
};

/// The response to a request with one completion.
class EngineResponse {
 public:
  explicit EngineResponse(Response response) : response_(std::move(response)) {}
  ~EngineResponse() {
    if (!user_.is_at_home()) new Response(std::move(response_));  // The engine's locks may never be released.
  }
  EngineResponse(const EngineResponse&) = delete;
  EngineResponse& operator=(const EngineResponse&) = delete;

  /// Waits for the next chunk; returns nullopt at the end. Signal handlers run during the wait, so Ctrl-C
  /// ends it.
  std::optional<Output> next() {
    const auto hold = user_.hold("the response");
    while (true) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Checked even if chunks are always ready.
      Output chunk;
      const Response::Poll poll = wait(chunk);
      if (poll == Response::Poll::kOutput) return chunk;
      if (poll == Response::Poll::kEnd) return std::nullopt;
    }
  }
  /// Waits for the end and returns all remaining chunks as one.
  Output rest() {
    Output all;
    while (std::optional<Output> chunk = next()) {
      const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(all.text, chunk->text);
      append(all.tokens, chunk->tokens);
      append(all.prompt, chunk->prompt);
      all.done = chunk->done;
      all.stop = chunk->stop;
      all.error = std::move(chunk->error);
      all.stats = chunk->stats;
    }
    return all;
  }
  /// Returns a chunk if one is ready, without waiting; `ended` says whether more may come.
  std::optional<Output> poll() {
    const auto hold = user_.hold("the response");
    Output chunk;
    const Response::Poll poll = response_.poll(chunk);
    ended_ = poll == Response::Poll::kEnd;
    return poll == Response::Poll::kOutput ? std::optional(std::move(chunk)) : std::nullopt;
  }
  bool ended() const { return ended_; }
  void cancel() {
    if (user_.is_at_home()) response_.cancel();
  }
  void on_ready(const std::shared_ptr<ReadyQueue>& queue, std::int64_t key) {
    const auto hold = user_.hold("the response");
    response_.on_ready([queue, key] { queue->put(key); });
  }

 private:
  Response::Poll wait(Output& chunk) {
    const Unlocked unlocked;
    return response_.poll(chunk, std::chrono::milliseconds(50));
  }

  Response response_;
  bool ended_ = false;
  OneUser user_;
};

/// Notes of an engine's threads for Python, which reads them later.
class Notes {
 public:
  void add(const std::string& note) {
    const std::scoped_lock lock(mutex_);
    notes_.push_back(note);
  }
  std::vector<nb::str> all() const {
    std::vector<nb::str> result;
    const std::scoped_lock lock(mutex_);
    for (const std::string& note : notes_) result.push_back(to_str(note));
    return result;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

class Engine {
 public:
  Engine(ModelPtr model, ContextParams context, ServiceParams params, const ModelPtr& draft,
         const std::shared_ptr<Notes>& notes)
      : model_(std::move(model)) {
    BatcherParams& batcher = params.batcher;
    if (draft != nullptr) batcher.speculation = Speculation::kModel;
    if (batcher.speculation != Speculation::kNone && context.state_rewind == 0)
      context.state_rewind =
          state_rewind_for(std::clamp(batcher.n_draft, 0, 64),
                           batcher.n_running > 0 ? batcher.n_running : context.n_sequences);
    if (draft != nullptr)
      batcher.draft =
          std::make_shared<Context>(draft->model(), ContextParams{.n_ctx = context.n_ctx,
                                                                  .n_sequences = context.n_sequences,
                                                                  .state_rewind = context.state_rewind});
    batcher.tiers.on_note = [notes](const std::string& note) { notes->add(note); };
    service_ = std::make_unique<Service>(Context(model_->model(), context), params);
  }
  ~Engine() {
    const Unlocked unlocked;  // The service's thread ends its step first.
    service_.reset();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Service& service() { return *service_; }
  const Tokenizer& tokenizer() const { return model_->tokenizer(); }

 private:
  ModelPtr model_;
  std::unique_ptr<Service> service_;
};

std::unique_ptr<Engine> make_engine(const ModelPtr& model, const Dict& context_options,
                                    const Dict& service_options, const ModelPtr& draft,
                                    const std::shared_ptr<Notes>& notes) {
  ContextParams context;
  set_fields(context, context_fields(), context_options);
  ServiceParams service;
  set_fields(service, service_fields(), service_options);
  const Unlocked unlocked;
  return std::make_unique<Engine>(model, context, service, draft, notes);
}

/// Bans words and tokens, in addition to all other constraints.
void ban(RequestOptions& request, const Tokenizer& tokenizer) {
  TokenBans bans{.allowed = std::move(request.allowed)};
  for (std::size_t i = 0; i < request.bad_words.size(); ++i) {
    try {
      bans.add_word(request.bad_words[i], tokenizer);
    } catch (const Error& error) {
      refuse("bad_words[" + std::to_string(i) + "]: " + error.what());
    }
  }
  ban_tokens(request.params, std::move(bans), tokenizer);
}

std::unique_ptr<EngineResponse> submit(Engine& self, std::vector<Token> prompt, const Dict& options,
                                       const PyGrammar* grammar, const Opening* opening) {
  RequestOptions request;
  RequestParams& params = request.params;
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    if (set_field(params.sampler, sampler_fields(), name, value) ||
        set_field(request, request_fields(), name, value))
      continue;
    unknown_option(name);
  }
  const Unlocked unlocked;
  if (request.shows_stops) params.n_shown_stops = static_cast<int>(params.stop.size());
  if (grammar != nullptr)
    params.constraint = [compiled = grammar->compiled](int) { return compiled->constraint(); };
  if (opening != nullptr) opening->add_to(params);
  ban(request, self.tokenizer());
  return std::make_unique<EngineResponse>(self.service().submit(std::move(prompt), std::move(params)));
}

Dict stats_of(const CompletionStats& stats) {
  Dict result;
  result["n_prompt"] = stats.n_prompt;
  result["n_cached"] = stats.n_cached;
  result["n_generated"] = stats.n_generated;
  result["n_preempted"] = stats.n_preempted;
  result["n_recomputed"] = stats.n_recomputed;
  result["n_drafted"] = stats.n_drafted;
  result["n_accepted"] = stats.n_accepted;
  result["n_discarded"] = stats.n_discarded;
  result["queue_ms"] = stats.queue_ms;
  result["first_token_ms"] = stats.first_token_ms;
  result["total_ms"] = stats.total_ms;
  return result;
}

Dict stats_of(const BatcherStats& stats) {
  Dict result;
  result["n_steps"] = stats.n_steps;
  result["n_failed_steps"] = stats.n_failed_steps;
  result["n_rebuilt"] = stats.n_rebuilt;
  result["n_requests"] = stats.n_requests;
  result["n_rejected"] = stats.n_rejected;
  result["n_completed"] = stats.n_completed;
  result["n_cancelled"] = stats.n_cancelled;
  result["n_timed_out"] = stats.n_timed_out;
  result["n_errors"] = stats.n_errors;
  result["n_prompt_tokens"] = stats.n_prompt_tokens;
  result["n_cached_tokens"] = stats.n_cached_tokens;
  result["n_recomputed_tokens"] = stats.n_recomputed_tokens;
  result["n_generated_tokens"] = stats.n_generated_tokens;
  result["n_drafted_tokens"] = stats.n_drafted_tokens;
  result["n_accepted_tokens"] = stats.n_accepted_tokens;
  result["n_branches"] = stats.n_branches;
  result["n_evicted"] = stats.n_evicted;
  result["n_preempted"] = stats.n_preempted;
  result["n_snapshots"] = stats.n_snapshots;
  result["n_running"] = stats.n_running;
  result["n_prefilling"] = stats.n_prefilling;
  result["n_paused"] = stats.n_paused;
  result["n_waiting"] = stats.n_waiting;
  result["n_waiting_tokens"] = stats.n_waiting_tokens;
  result["longest_wait_ms"] = stats.longest_wait_ms;
  result["ms_per_admission"] = stats.ms_per_admission;
  result["cells_used"] = stats.cells_used;
  result["cells_cached"] = stats.cells_cached;
  result["cells_peak"] = stats.cells_peak;
  result["cells_total"] = stats.cells_total;
  result["sequences_cached"] = stats.sequences_cached;
  result["snapshots_cached"] = stats.snapshots_cached;
  result["sequences_free"] = stats.sequences_free;
  result["sequences_total"] = stats.sequences_total;
  result["host_seconds"] = stats.host_seconds;
  result["decode_seconds"] = stats.decode_seconds;
  const CacheTierStats& tiers = stats.tiers;
  result["n_stored_tokens"] = tiers.n_stored_tokens;
  result["n_ram_tokens"] = tiers.n_ram_tokens;
  result["n_disk_tokens"] = tiers.n_disk_tokens;
  result["n_tier_failures"] = tiers.n_failures;
  result["cache_ram_bytes"] = tiers.ram_bytes;
  result["cache_ram_limit"] = tiers.ram_limit;
  result["cache_disk_bytes"] = tiers.disk_bytes;
  return result;
}

std::vector<Token> ids(const std::vector<OutputToken>& tokens) {
  std::vector<Token> result;
  for (const OutputToken& token : tokens) result.push_back(token.id);
  return result;
}

/// A token, its logprob, and the most probable ones with theirs.
using TokenLogprob = std::tuple<Token, float, std::vector<std::pair<Token, float>>>;

std::vector<TokenLogprob> logprobs(const std::vector<OutputToken>& tokens) {
  std::vector<TokenLogprob> result;
  for (const OutputToken& token : tokens) {
    std::vector<std::pair<Token, float>> top;
    for (const Logprob& one : token.top) top.emplace_back(one.id, one.logprob);
    result.emplace_back(token.id, token.logprob, std::move(top));
  }
  return result;
}

}  // namespace

void bind_engine(nb::module_& m) {
  nb::class_<ReadyQueue>(m, "ReadyQueue")
      .def(nb::init<>())
      .def("fileno", &ReadyQueue::fd)
      .def("take", &ReadyQueue::take);

  nb::class_<Output>(m, "Chunk")
      .def_prop_ro("text", [](const Output& chunk) { return to_str(chunk.text); })
      .def_prop_ro("tokens", [](const Output& chunk) { return ids(chunk.tokens); })
      .def_prop_ro("logprobs", [](const Output& chunk) { return logprobs(chunk.tokens); })
      .def_prop_ro("prompt_logprobs", [](const Output& chunk) { return logprobs(chunk.prompt); })
      .def_ro("done", &Output::done)
      .def_prop_ro("stop", [](const Output& chunk) { return to_string(chunk.stop); })
      .def_prop_ro("error", [](const Output& chunk) { return to_str(chunk.error); })
      .def_prop_ro("stats", [](const Output& chunk) { return stats_of(chunk.stats); });

  nb::class_<EngineResponse>(m, "Response")
      .def("next", &EngineResponse::next)
      .def("rest", &EngineResponse::rest)
      .def("poll", &EngineResponse::poll)
      .def_prop_ro("ended", &EngineResponse::ended)
      .def("cancel", &EngineResponse::cancel)
      .def("on_ready", &EngineResponse::on_ready, nb::arg("queue"), nb::arg("key"));

  nb::class_<Notes>(m, "Notes").def(nb::init<>()).def("all", &Notes::all);

  nb::class_<Engine>(m, "Engine")
      .def_static("make", &make_engine, nb::arg("model"), nb::arg("context_options"),
                  nb::arg("service_options"), nb::arg("draft").none(), nb::arg("notes"))
      .def("submit", &submit, nb::arg("prompt"), nb::arg("options"), nb::arg("grammar").none(),
           nb::arg("opening").none())
      .def("stats", [](Engine& self) { return stats_of(self.service().stats()); })
      .def(
          "save_prefix",
          [](Engine& self, const std::vector<Token>& tokens) {
            SavedPrefix saved;
            {
              const Unlocked unlocked;
              saved = self.service().save_prefix(tokens);
            }
            return std::pair(saved.n_tokens, nb::bytes(saved.state.data(), saved.state.size()));
          },
          nb::arg("tokens"))
      .def(
          "restore_prefix",
          [](Engine& self, const nb::bytes& state) {
            const std::span bytes(reinterpret_cast<const std::byte*>(state.c_str()), state.size());
            const Unlocked unlocked;
            return self.service().restore_prefix(bytes).tokens;
          },
          nb::arg("state"))
      .def(
          "forget_text",
          [](Engine& self, const std::vector<Token>& tokens) { return self.service().forget_prefix(tokens); },
          nb::arg("tokens"), WithoutLock())
      .def("shutdown", [](Engine& self) { self.service().shutdown(); }, WithoutLock());

  m.def("service_options", [] { return names_of(service_fields()); });
  m.def("defaults", [] {
    Dict defaults;
    add_defaults(defaults, model_fields());
    add_defaults(defaults, service_fields());
    add_defaults(defaults, embedder_fields());
    add_defaults(defaults, sampler_fields());
    add_defaults(defaults, request_fields());
    add_defaults(defaults, context_fields());
    return defaults;
  });
  m.def("request_options", [] {
    std::vector<std::string_view> names = names_of(sampler_fields());
    for (const Field<RequestOptions>& one : request_fields()) names.push_back(one.name);
    return names;
  });
}

}  // namespace weft::python
