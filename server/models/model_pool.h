#pragma once
// The models that a server has, by name: loaded when asked for, the least recently used one put out when
// memory is short. A thread of the pool's own loads. About once a second it asks models whether they are lost
// (ServedModel::lost), and loads those again: requests in progress wait, then continue. Where that fails they
// end with the error, and the pool tries again later, and when a request asks for the model.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "models/served_model.h"

namespace weft::server {

struct PoolParams {
  std::vector<ModelSpec> models = {};  ///< The first one is that of requests that name none.
  /// Names of models and adapters are found whole, or by a part that only one has, in any case.
  bool any_name = true;     ///< Names that nothing has mean the first one, so that tools need not know ours.
  int n_loaded = 0;         ///< At the same time, at most; 0: as many as there is memory for.
  std::uint64_t bytes = 0;  ///< Of weights and caches together; 0: no limit.
  /// Loads a model; tells progress from 0 to 1, and stops where that returns false.
  std::function<std::shared_ptr<ServedModel>(const ModelSpec&, const std::function<bool(float)>&)> load;
  /// What one will take. Asked right before each load, on the same thread. Throws where the file cannot be
  /// read.
  std::function<std::uint64_t(const ModelSpec&)> bytes_of;
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> warn;  ///< The same, of what somebody should look after.
};

struct ModelState {
  enum class Stage : std::uint8_t { kIdle, kLoading, kLoaded, kFailed };
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> tags;
  std::vector<std::string> adapters;  ///< Names that mean it with an adapter.
  std::filesystem::path path;
  Stage stage = Stage::kIdle;
  float progress = 0.0f;  ///< With kLoading.
  std::string error;      ///< With kFailed: of the last try.
  bool was_loaded = false;
  std::shared_ptr<ServedModel> model;
};

/// Any number of threads.
class ModelPool {
 public:
  explicit ModelPool(PoolParams params);
  /// Requests that wait for a model are told that there is none.
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// Is called once, with a model or an error: at once where it is loaded, unknown or could not be loaded a
  /// moment ago, else from the pool's thread. Who keeps the pointer keeps the model loaded.
  using Ready = std::function<void(std::shared_ptr<ServedModel>, std::exception_ptr)>;
  /// `name` empty: the first one. Where the name is none, the error says which there are.
  void get(std::string_view name, Ready ready);
  std::vector<ModelState> states() const;
  /// Of a name as clients may say it: the model's own, or that of the adapter that is meant. Itself where
  /// there is none.
  std::string whole_name(std::string_view name) const;
  /// That of the name, null where it is unknown or not loaded.
  std::shared_ptr<ServedModel> loaded(std::string_view name) const;
  /// The same, for a request: it is now the one that was used last.
  std::shared_ptr<ServedModel> use(std::string_view name);

  /// No model is loaded any more that is not there. Those that wait are told. What is lost is still loaded
  /// anew, for the sake of requests under way.
  void stop();
  /// Nor is that, from now on.
  void end();
  /// The same, and waits until nobody is called any more.
  void join();

 private:
  struct Slot;
  struct Waiting {
    std::size_t slot;
    Ready ready;
  };
  /// What a name means: a model, or an adapter of it.
  struct Found {
    Slot* slot = nullptr;
    std::string_view name = {};
  };
  Found find(std::string_view name) const;
  std::string known_names() const;
  /// What came of a slot that somebody waits for: a model, or an error for them.
  struct Outcome {
    std::shared_ptr<ServedModel> model;
    std::exception_ptr error;
    std::string failure;  ///< Why it could not be loaded; not set where there is only no room for it now.
    std::shared_ptr<ServedModel> too_late;  ///< To end it takes its time: those who wait are told before.
  };
  void work();
  Slot* next();
  Outcome model_of(Slot& slot);
  std::vector<Ready> settle(Slot& slot, Outcome& of);
  void warn(const std::string& line) const;
  std::shared_ptr<ServedModel> load(Slot& slot);
  void make_room(const Slot& slot, std::unique_lock<std::mutex>& lock);
  bool is_asked_for(const Slot& slot) const;
  /// Whose loading goes on as long as `flag` is not set.
  std::function<bool(float)> progress_of(Slot& slot, const bool& flag);
  void renew_lost(std::unique_lock<std::mutex>& lock);
  void renew(Slot& slot, const std::string& why, std::unique_lock<std::mutex>& lock);
  void fail(Slot& slot, const std::string& why);
  Slot* wanted_back();

  const PoolParams params_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Waiting> waiting_;
  std::uint64_t clock_ = 0;
  bool stopped_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace weft::server
