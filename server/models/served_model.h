#pragma once
// A model that is loaded and served: its service, and what requests of it share.
#include <chrono>
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
#include "weft/vision.h"

namespace weft::server {

/// A model that can be asked for.
struct ModelSpec {
  std::string name;                  ///< As clients are told it.
  std::vector<std::string> aliases;  ///< Further names that it answers to.
  std::filesystem::path path;
  std::vector<std::string> adapters = {};  ///< Names that mean the model with that adapter.
  std::vector<std::string> tags = {};      ///< For people: clients only show them.
  bool is_adapted = false;                 ///< Adapters and control vectors are loaded with it.
};

/// Grammars that requests send again and again, compiled once. Grammars grow while they are used, so each
/// get() measures all of them. Any number of threads.
class GrammarCache {
 public:
  explicit GrammarCache(const Tokenizer& tokenizer, std::size_t max_bytes = std::size_t{256} << 20)
      : compiler_(tokenizer), max_bytes_(max_bytes) {}
  /// `key` says all that `make` depends on. What make or the compiler throws is not kept.
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

/// What chats say to the template where a request leaves it open.
struct ChatDefaults {
  /// Whether models reason before they answer, for templates with a switch. Nothing: the template decides.
  std::optional<bool> reasoning = true;
  std::string variables_json = {};  ///< Empty, or an object of variables of the template.
};

/// What stands first in a prompt whose middle the model fills in.
enum class InfillOrder : std::uint8_t { kPrefixFirst, kSuffixFirst };

struct ServedModelParams {
  ContextParams context = {};
  ServiceParams service = {};
  std::shared_ptr<const VisionModel> vision = nullptr;  ///< Null: it reads no pictures.
  std::shared_ptr<const AudioModel> audio = nullptr;    ///< Null: it reads no sounds.
  int n_ctx = 0;                 ///< Cells that each completion may hold at most. 0: the whole cache.
  ChatDefaults chat = {};
  InfillOrder infill_order = InfillOrder::kPrefixFirst;
  std::function<void(const StepRecord&)> on_step = nullptr;
  /// Why the model is of no use until it is loaded again: devices have gone, or a file of its weights
  /// (Model::check_weights). Empty: it is of use. Any thread; takes long where a file was touched. Null:
  /// nothing can be lost.
  std::function<std::string()> lost = nullptr;
  /// Loads the weights anew onto what is left (Model::reload), where that is so.
  std::function<void(const std::function<bool(float)>& progress)> reload = nullptr;
};

/// For clients, whom it does not concern in which folders files lie.
std::string without_folders(std::string_view text);
/// "the model 'x' could not be loaded: ..."
std::string load_failure(const ModelSpec& spec, std::string_view why);
/// "the model 'x' lost its weights while it was served, and the server loads it again: ..."
std::string weights_lost(const ModelSpec& spec, std::string_view why);
/// 503, with one of these messages: never the client's fault. Paths are reduced to file names.
ApiError model_unavailable(std::string_view message, double retry_after_ms = 2000.0);

/// Why the chat template of the model's file cannot be used, in brackets; empty: it can, or there is none.
std::string why_no_template(const Model& model);

/// All members may be used from any thread.
class ServedModel {
 public:
  ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in, const ServedModelParams& params);

  const ModelSpec spec;
  const std::shared_ptr<const Model> model;
  const std::shared_ptr<const VisionModel> vision;  ///< Null: it reads no pictures.
  const std::shared_ptr<const AudioModel> audio;    ///< Null: it reads no sounds.
  const std::int64_t created;                       ///< Of its file, in seconds since 1970.
  /// By the model's template, or ChatML where its file has none. Nothing for an encoder.
  const std::optional<Chat> chat;
  const ChatDefaults chat_defaults;
  const InfillTokens infill;
  const InfillOrder infill_order;
  GrammarCache grammars;
  const ContextParams context;                        ///< With the defaults filled in, of a decoder.
  const std::unique_ptr<EmbeddingService> embedding;  ///< Null of a decoder.
  const int n_ctx;    ///< Tokens of a prompt and its answer, or of a text, at most.
  const int n_slots;  ///< Completions computed at the same time, at most.
  StepLog steps;
  std::optional<Service> service;  ///< Of a decoder; an encoder has `embedding` in its place.

  /// As ServedModelParams has it.
  std::string lost() const { return lost_ ? lost_() : std::string(); }
  /// Then its weights and its cache are made again, and requests in progress continue. Throws where that
  /// cannot be, for want of room or since the model's file has changed: requests have ended then, and it is
  /// of no more use.
  void renew(const std::function<bool(float)>& progress);
  /// What those requests are to be told, and all that come still; nothing while it is of use.
  std::optional<ApiError> gone() const;

  /// Why the last request that computed something failed, where the model computed values that are not
  /// numbers; empty: it did not. The model stays loaded, as other texts may still be computed.
  void note_failure(std::string why);
  std::string failure() const;

  /// Lets requests that were taken end, at most so long.
  void drain(std::chrono::milliseconds at_most);
  /// Requests that are there end now, with an error.
  void shutdown();
  const Tokenizer& tokenizer() const { return model->tokenizer(); }
  /// What requests are written with that ask for the model by this name, and for no adapters.
  std::vector<AdapterUse> adapters_for(std::string_view name) const;
  /// Those of requests that name none of them.
  void set_usual_adapters(std::vector<AdapterUse> adapters);
  /// How things stood at most a moment ago. One caller waits for the computing thread, others get the last
  /// one.
  std::shared_ptr<const BatcherPicture> picture();

 private:
  ServedModel(ModelSpec spec_in, std::shared_ptr<const Model> model_in, const ServedModelParams& params,
              std::optional<Context> made);

  const std::function<std::string()> lost_;
  const std::function<void(const std::function<bool(float)>&)> reload_;
  mutable std::mutex gone_mutex_;
  std::optional<ApiError> gone_;
  std::string failure_;  // With gone_mutex_.
  mutable std::mutex adapters_mutex_;
  std::vector<AdapterUse> usual_adapters_;
  std::mutex picture_mutex_;
  std::shared_ptr<const BatcherPicture> picture_ = std::make_shared<BatcherPicture>();
  std::chrono::steady_clock::time_point picture_time_{};
  bool drawing_ = false;
};

}  // namespace weft::server
