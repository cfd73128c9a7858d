#pragma once
// A model that is loaded and served: its service, and the state that its requests share.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/error.h"
#include "models/embedding_service.h"
#include "observe/step_log.h"
#include "weft/audio.h"
#include "weft/chat.h"
#include "weft/context.h"
#include "weft/grammar.h"
#include "weft/infill.h"
#include "weft/model.h"
#include "weft/service.h"
#include "weft/transcriber.h"
#include "weft/vision.h"

namespace weft::server {

/// A model that requests can name.
struct ModelSpec {
  std::string name;                  ///< The name that clients see.
  std::vector<std::string> aliases;  ///< Further names for requests.
  std::filesystem::path path;
  std::vector<std::string> adapters = {};  ///< Each name means the model with that adapter.
  std::vector<std::string> tags = {};      ///< For people: clients only show them.
  bool is_transcriber = false;             ///< A Whisper model.
  bool is_adapted = false;                 ///< Adapters and control vectors are loaded with it.
};

/// Grammars that requests send again and again, compiled once. Grammars grow while they are used, so each
/// get() measures all of them. Any number of threads.
class GrammarCache {
 public:
  explicit GrammarCache(const Tokenizer& tokenizer, std::size_t max_bytes = std::size_t{256} << 20)
      : compiler_(tokenizer), max_bytes_(max_bytes) {}
  /// `key` identifies everything that `make` depends on. Errors of make and the compiler are thrown, not
  /// cached.
  std::shared_ptr<const CompiledGrammar> get(const std::string& key, const std::function<Grammar()>& make);
  std::size_t size();

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
  };
  /// With the lock: drops those used least recently until the rest fits. The most recent one stays.
  void shrink();

  GrammarCompiler compiler_;
  const std::size_t max_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< Used last comes first.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

/// Defaults of the template's variables for chat requests.
struct ChatDefaults {
  /// Whether models reason before they respond, for templates with a switch. Nullopt: the template decides.
  std::optional<bool> reasoning = true;
  int reasoning_budget = -1;  ///< As ChatTurn::reasoning_budget, for requests without one.
  std::string reasoning_budget_message = {};
  std::string variables_json = {};  ///< Empty, or an object of variables of the template.
};

/// The order of prefix and suffix in infill prompts.
enum class InfillOrder : std::uint8_t { kPrefixFirst, kSuffixFirst };

struct ServedModelParams {
  ContextParams context = {};
  ServiceParams service = {};
  std::shared_ptr<const VisionModel> vision = nullptr;  ///< Null: it reads no images.
  std::shared_ptr<const AudioModel> audio = nullptr;    ///< Null: it reads no audio.
  /// With Speculation::kModel: the draft model, and the parameters of its context.
  std::shared_ptr<const Model> draft = nullptr;
  ContextParams draft_context = {};
  int n_ctx = 0;  ///< Cells that each completion may hold at most. 0: the whole cache.
  ChatDefaults chat = {};
  InfillOrder infill_order = InfillOrder::kPrefixFirst;
  std::function<void(const StepRecord&)> on_step = nullptr;
  /// Why the model must be loaded again: devices are lost, or a file of its weights has changed
  /// (Model::check_weights). Empty: it works. Any thread; takes long if a file was touched. Null: nothing can
  /// be lost.
  std::function<std::string()> lost = nullptr;
  /// Loads the weights again onto the remaining devices (Model::reload).
  std::function<void(const std::function<bool(float)>& progress)> reload = nullptr;
};

/// Reduces paths to file names: clients should not see the server's folders.
std::string without_folders(std::string_view text);
/// "the model 'x' could not be loaded: ..."
std::string load_failure(const ModelSpec& spec, std::string_view why);
/// "the model 'x' lost its weights while it was served, and the server loads it again: ..."
std::string weights_lost(const ModelSpec& spec, std::string_view why);
/// 503, with one of these messages: never the client's fault. Paths are reduced to file names.
ApiError model_unavailable(std::string_view message, double retry_after_ms = 2000.0);

/// The time of a file, in seconds since 1970; 0 if there is none.
std::int64_t seconds_of(const std::filesystem::path& path);

/// Why the chat template of the model's file cannot be used, in brackets; empty: it can, or there is none.
std::string why_no_template(const Model& model);

/// The transcriptions of a model that have ended.
struct TranscriptionStats {
  std::int64_t n_completed = 0, n_cancelled = 0, n_errors = 0;
  double audio_seconds = 0.0;  ///< The length of the audio of completed ones.
  double seconds = 0.0;        ///< The time that all of them took, without the queue.
};

/// All members may be used from any thread.
class ServedModel {
 public:
  ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in, const ServedModelParams& params);

  /// A model that transcribes audio, and nothing else. `model` is null.
  ServedModel(ModelSpec spec_in, std::shared_ptr<const Transcriber> transcriber_in);

  const ModelSpec spec;
  const std::shared_ptr<const Model> model;              ///< Null for a transcriber.
  const std::shared_ptr<const Transcriber> transcriber;  ///< Null for all other models.
  const std::shared_ptr<const VisionModel> vision;       ///< Null: it reads no images.
  const std::shared_ptr<const AudioModel> audio;         ///< Null: it reads no audio.
  const std::int64_t created;                            ///< The time of its file, in seconds since 1970.
  /// By the model's template, or ChatML if its file has none. Nullopt for an encoder.
  const std::optional<Chat> chat;
  const ChatDefaults chat_defaults;
  const InfillTokens infill;
  const InfillOrder infill_order;
  std::optional<GrammarCache> grammars;               ///< Not of a transcriber.
  const ContextParams context;                        ///< For a decoder: with the defaults filled in.
  const std::unique_ptr<EmbeddingService> embedding;  ///< Null for a decoder.
  const int n_ctx;    ///< Tokens of a prompt and its response, at most; for an encoder, of an input.
  const int n_slots;  ///< Completions computed at the same time, at most.
  const bool drafts;  ///< Whether n-grams or a draft model draft for it.
  /// Whether the batcher keeps snapshots where prompts may diverge (BatcherParams::n_snapshots).
  const bool keeps_snapshots;
  StepLog steps;
  std::optional<Service> service;  ///< For a decoder; an encoder has `embedding` instead.

  /// As ServedModelParams has it.
  std::string lost() const { return lost_ ? lost_() : std::string(); }
  /// For a lost model. Loads its weights and makes its cache again; requests in progress continue. Throws if
  /// that fails, for lack of memory or because the model's file has changed. Then requests have ended, and
  /// this model can no longer be used.
  void renew(const std::function<bool(float)>& progress);
  /// The error for these and all later requests; nullopt while the model can be used.
  std::optional<ApiError> gone() const;

  /// Notes that a request failed because the model computed values that are not numbers; empty: a request
  /// succeeded. The model stays loaded, as other prompts may work.
  void note_failure(std::string why);
  std::string failure() const;

  /// Counts a transcription that waits or runs, for drain().
  class Use {
   public:
    explicit Use(std::shared_ptr<ServedModel> model) : model_(std::move(model)) { model_->count_use(1); }
    ~Use() { model_->count_use(-1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const std::shared_ptr<ServedModel> model_;
  };
  /// Changes the counts of transcriptions.
  void count(const std::function<void(TranscriptionStats&)>& change);
  TranscriptionStats transcriptions() const;
  /// Whether transcriptions must end now.
  bool stopped() const { return stopped_; }

  /// Waits for submitted requests to end, at most this long.
  void drain(std::chrono::milliseconds at_most);
  /// Ends all requests now, with an error.
  void shutdown();
  const Tokenizer& tokenizer() const { return model->tokenizer(); }
  /// The adapters of requests that use this name for the model and select no adapters themselves.
  std::vector<AdapterUse> adapters_for(std::string_view name) const;
  /// The adapters of requests that use the model's own name and select none.
  void set_usual_adapters(std::vector<AdapterUse> adapters);
  /// A recent snapshot of the batcher. If it is older than 200 ms, one caller waits for a new one from the
  /// computing thread; other callers get the old one.
  std::shared_ptr<const BatcherSnapshot> snapshot();

 private:
  void count_use(int n);
  ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in, const ServedModelParams& params,
              std::optional<Context> made);

  const std::function<std::string()> lost_;
  const std::function<void(const std::function<bool(float)>&)> reload_;
  mutable std::mutex gone_mutex_;
  std::optional<ApiError> gone_;
  std::string failure_;  // With gone_mutex_.
  mutable std::mutex adapters_mutex_;
  std::vector<AdapterUse> usual_adapters_;
  std::mutex snapshot_mutex_;
  std::shared_ptr<const BatcherSnapshot> snapshot_ = std::make_shared<BatcherSnapshot>();
  std::chrono::steady_clock::time_point snapshot_time_{};
  bool drawing_ = false;
  mutable std::mutex uses_mutex_;
  std::condition_variable no_uses_;
  int n_uses_ = 0;
  TranscriptionStats transcriptions_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace weft::server
