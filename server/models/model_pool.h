#pragma once
// The models of a server, by name. They are loaded on request; when memory is short, the least recently used
// one is unloaded. A model that no request has used for some time can be unloaded, too. A thread of the
// pool's own loads. About once a second it asks models whether they are lost
// (ServedModel::lost), and loads those again: requests in progress wait, then continue. If that fails, they
// end with the error. The pool tries again later, and when a request asks for the model.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "models/served_model.h"

namespace weft::server {

struct PoolParams {
  std::vector<ModelSpec> models = {};  ///< The first is the default, for requests without a name.
  /// Names of models and adapters match as a whole, or by a part that only one of them has. Case is ignored.
  bool any_name = true;     ///< Unknown names mean the first model, so that tools need no configuration.
  int n_loaded = 0;         ///< Loaded models, at most; 0: limited by memory only.
  std::uint64_t bytes = 0;  ///< Of weights and caches together; 0: no limit.
  /// How long a model stays loaded after its last request. Nullopt: until another one needs its memory.
  std::optional<std::chrono::milliseconds> keep_alive = std::nullopt;
  /// How long a model stays loaded after its last request, if only requests in the background need its
  /// memory.
  std::chrono::milliseconds keep_from_background{10000};
  /// Loads a model. Reports progress from 0 to 1, and stops if that callback returns false.
  std::function<std::shared_ptr<ServedModel>(const ModelSpec&, const std::function<bool(float)>&)> load;
  /// Estimates the bytes of a model. Called right before each load, on the same thread. Throws if the file
  /// cannot be read.
  std::function<std::uint64_t(const ModelSpec&)> bytes_of;
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> warn;  ///< For lines that need attention.
};

struct ModelState {
  enum class Stage : std::uint8_t { kIdle, kLoading, kLoaded, kFailed };
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  std::vector<std::string> adapters;  ///< Names that mean the model with an adapter.
  std::filesystem::path path;
  Stage stage = Stage::kIdle;
  float progress = 0.0f;  ///< With kLoading.
  std::string error;      ///< With kFailed: of the last try.
  bool was_loaded = false;
  std::shared_ptr<ServedModel> model;
  /// With a loaded model: how long it stays after its last request (PoolParams::keep_alive), and the time
  /// since then. A model in use has been idle for 0 ms.
  std::optional<std::chrono::milliseconds> keep_alive = std::nullopt;
  std::chrono::milliseconds idle{0};
};

/// Any number of threads.
class ModelPool {
 public:
  explicit ModelPool(PoolParams params);
  /// Requests that wait for a model get an error.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// Called once, with a model or an error. Called at once if the model is loaded, unknown, or failed to load
  /// a moment ago; otherwise from the pool's thread. The pointer keeps the model loaded.
  using Ready = std::function<void(std::shared_ptr<ServedModel>, std::exception_ptr)>;
  /// `name` empty: the first one. For an unknown name, the error lists the known ones. A request in the
  /// background waits for no memory: the error is kNoRoom.
  void get(std::string_view name, Ready ready, bool is_background = false);
  /// `call` is called from the pool's thread when a client waits for memory of models in use. Requests in the
  /// background should leave then. Before the first request.
  void on_crowded(std::function<void()> call) { on_crowded_ = std::move(call); }
  std::vector<ModelState> states() const;
  /// The full name of the model or adapter that a client's `name` means. Returns `name` if it is unknown.
  std::string whole_name(std::string_view name) const;
  /// The name of the first Whisper model, or of the first other model. Empty if there is none.
  std::string first_name(bool is_transcriber) const;
  /// The model of the name; null if it is unknown or not loaded.
  std::shared_ptr<ServedModel> loaded(std::string_view name) const;
  /// Whether the name means one of the models or adapters, without any_name.
  bool knows(std::string_view name) const;
  /// The error for an unknown name. It lists the known ones.
  ApiError unknown_model(std::string_view name) const;
  /// Changes how long the model stays loaded after its last request, until it is loaded again. 0: it is
  /// unloaded once no request uses it. No effect if it is not loaded.
  void keep(std::string_view name, std::optional<std::chrono::milliseconds> time);
  /// The same, for a request: marks the model as used last. Null also in the background while a client waits
  /// for memory.
  std::shared_ptr<ServedModel> use(std::string_view name, bool is_background = false);

  /// Loads no more models; waiting requests get an error. Lost models are still loaded again, for requests in
  /// progress.
  void stop();
  /// As stop(), and loads no lost models either.
  void end();
  /// As end(), and waits for the pool's thread: no callback runs after that.
  void join();

 private:
  struct Slot;
  struct Waiting {
    std::size_t slot;
    Ready ready;
    bool is_background;
  };
  /// What a name means: a model, or an adapter of it.
  struct Found {
    Slot* slot = nullptr;
    std::string_view name = {};
  };
  Found find(std::string_view name) const;
  Found find_known(std::string_view name) const;
  std::string known_names() const;
  /// The result for requests that wait for a slot: a model or an error.
  struct Outcome {
    std::shared_ptr<ServedModel> model;
    std::exception_ptr error;
    std::string failure;        ///< Why it could not be loaded; not set if only memory is short now.
    bool is_permanent = false;  ///< The failure: the model does not support the server's options.
    std::shared_ptr<ServedModel> too_late;  ///< Its destructor takes time: it runs after the callbacks.
  };
  void work();
  Slot* next();
  Outcome model_of(Slot& slot);
  std::vector<Ready> settle(Slot& slot, Outcome& of);
  void warn(const std::string& line) const;
  std::shared_ptr<ServedModel> load(Slot& slot);
  void make_room(const Slot& slot, std::unique_lock<std::mutex>& lock);
  bool is_asked_for(const Slot& slot) const;
  bool has_client(const Slot& slot) const;
  /// A progress callback for loading the slot, which stops once `flag` is set.
  std::function<bool(float)> progress_of(Slot& slot, const bool& flag);
  void renew_lost(std::unique_lock<std::mutex>& lock);
  void renew(Slot& slot, const std::string& why, std::unique_lock<std::mutex>& lock);
  void fail(Slot& slot, const std::string& why, bool is_permanent = false);
  Slot* wanted_back();
  void unload_idle(std::unique_lock<std::mutex>& lock);
  void unload(Slot& slot, std::string_view why, std::unique_lock<std::mutex>& lock);

  const PoolParams params_;
  std::function<void()> on_crowded_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Waiting> waiting_;
  std::uint64_t clock_ = 0;
  bool stopped_ = false, ended_ = false;
  bool is_crowded_ = false;  ///< A client waits for memory of models in use.
  std::thread thread_;
};

}  // namespace weft::server
