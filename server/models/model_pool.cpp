#include "models/model_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr std::size_t kMaxWaiting = 1024;
/// How often models in use are looked at again, to see whether one has become free.
constexpr std::chrono::milliseconds kCancelPoll{50};
/// The interval at which models are checked for lost devices.
constexpr std::chrono::seconds kLookForLost{1};
/// The pause after a failed load, so that not every request reads the file again. It doubles with each
/// failure, up to the maximum.
constexpr std::chrono::seconds kTryAgain{2}, kTryAgainAtMost{60};
/// A request that waits this long for memory that other models use gets an error.
constexpr std::chrono::seconds kMaxWait{60};

std::exception_ptr as_pointer(const ApiError& error) { return std::make_exception_ptr(error); }

// The error of a request that gets no model.
constexpr double kModelRetryMs = 1000.0;
ApiError no_model(const std::string& message, double retry_after_ms = kModelRetryMs) {
  return unavailable("unavailable", message, retry_after_ms);
}
ApiError no_room() {
  return unavailable(kNoRoom, "other models use the memory; the request waits for them", kModelRetryMs);
}
ApiError shutting_down() { return no_model("the server is shutting down"); }

// Without the suffix of file names.
std::string lower_case(std::string_view name) {
  if (name.ends_with(".gguf")) name.remove_suffix(5);
  std::string lower(name.substr(0, 256));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Letters and digits of a name as Ollama writes it: "hf.co/user/Llama-3.2-1B-GGUF:Q4_K_M" or "llama3.2:1b".
std::string plain_letters(std::string_view name) {
  name.remove_prefix(name.find_last_of('/') + 1);
  std::string lower = lower_case(name);
  for (const std::string_view tail : {":latest", "-gguf"})
    if (lower.ends_with(tail)) lower.resize(lower.size() - tail.size());
  if (const std::size_t at = lower.find("-gguf:"); at != std::string::npos) lower.erase(at, 5);
  std::erase_if(lower, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return lower;
}

}  // namespace

struct ModelPool::Slot {
  ModelSpec spec;
  ModelState::Stage stage = ModelState::Stage::kIdle;
  float progress = 0.0f;
  std::string error;
  std::shared_ptr<ServedModel> model;
  std::uint64_t bytes = 0;
  std::uint64_t last_used = 0;
  // Failed loads since the last success:
  int n_failures = 0;
  bool is_permanent = false;  ///< With kFailed: Outcome::is_permanent.
  std::chrono::steady_clock::time_point try_again_at = {};
  bool was_loaded = false;
  bool was_lost = false;  ///< With kFailed: while it was served. No request has tried to load it again yet.
  std::optional<std::chrono::milliseconds> keep_alive = {};
  std::chrono::steady_clock::time_point idle_since = {};  ///< The last time when it was seen in use.
  /// It was in use at the last look. A snapshot for /metrics, which does not count as use, holds it for a
  /// moment.
  bool was_in_use = false;
  bool is_wanted = false;  ///< To be loaded again without a request: it was loaded, and lost.

  bool is_free() const { return model != nullptr && model.use_count() == 1; }
  void use(std::uint64_t time) {
    last_used = time;
    idle_since = std::chrono::steady_clock::now();
  }
  std::chrono::milliseconds idle() const {
    if (!is_free()) return {};
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 idle_since);
  }
  bool is_over() const { return is_free() && keep_alive && idle() >= *keep_alive; }

  /// With kFailed.
  ApiError not_loaded() const {
    if (is_permanent) {
      ApiError permanent(500, "server_error", "model_not_supported", "", load_failure(spec, error));
      permanent.is_permanent = true;
      return permanent;
    }
    const std::chrono::duration<double, std::milli> pause = try_again_at - std::chrono::steady_clock::now();
    return model_unavailable(was_lost ? weights_lost(spec, error) : load_failure(spec, error),
                             std::max(1000.0, pause.count()));
  }
};

ModelPool::ModelPool(PoolParams params) : params_(std::move(params)) {
  for (const ModelSpec& spec : params_.models) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->spec = spec;
  }
  thread_ = std::thread([this] { work(); });
}

ModelPool::~ModelPool() { join(); }

void ModelPool::join() {
  end();
  if (thread_.joinable()) thread_.join();
}

ModelPool::Found ModelPool::find(std::string_view name) const {
  if (slots_.empty()) return {};
  const Found first{slots_.front().get(), slots_.front()->spec.name};
  if (name.empty()) return first;
  const Found found = find_known(name);
  return found.slot == nullptr && params_.any_name ? first : found;
}

ModelPool::Found ModelPool::find_known(std::string_view name) const {
  const std::string lower = lower_case(name);
  const bool is_tagged = name.find_first_of(":/") != std::string_view::npos;
  const std::string letters = is_tagged ? plain_letters(name) : std::string();
  // As it is; ignoring case; as a part of only one name, as on the command line; as a name of Ollama.
  const std::function<bool(std::string_view)> fits[] = {
      [&](std::string_view known) { return known == name; },
      [&](std::string_view known) { return lower_case(known) == lower; },
      [&](std::string_view known) { return lower_case(known).find(lower) != std::string::npos; },
      [&](std::string_view known) { return !letters.empty() && plain_letters(known) == letters; },
      [&](std::string_view known) {
        return !letters.empty() && plain_letters(known).find(letters) != std::string::npos;
      }};
  for (const auto& fit : fits) {
    std::vector<Found> found;
    for (const auto& slot : slots_) {
      const ModelSpec& spec = slot->spec;
      if (fit(spec.name) || std::any_of(spec.aliases.begin(), spec.aliases.end(), fit))
        found.push_back({slot.get(), spec.name});
      for (const std::string& adapter : spec.adapters)
        if (fit(adapter)) found.push_back({slot.get(), adapter});
    }
    if (found.size() == 1) return found.front();
  }
  return {};
}

bool ModelPool::knows(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return !name.empty() && find_known(name).slot != nullptr;
}

void ModelPool::keep(std::string_view name, std::optional<std::chrono::milliseconds> time) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(name).slot;
  if (slot == nullptr || slot->model == nullptr) return;
  slot->keep_alive = time;
  changed_.notify_all();
}

std::string ModelPool::whole_name(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Found found = find(name);
  return std::string(found.slot != nullptr ? found.name : name);
}

std::string ModelPool::first_name(bool is_transcriber) const {
  for (const ModelSpec& spec : params_.models)
    if (spec.is_transcriber == is_transcriber) return spec.name;
  return {};
}

/// The first few names, for an error.
std::string ModelPool::known_names() const {
  constexpr std::size_t kMost = 20;
  std::vector<std::string_view> names;
  for (const auto& slot : slots_) {
    names.push_back(slot->spec.name);
    names.insert(names.end(), slot->spec.adapters.begin(), slot->spec.adapters.end());
  }
  const std::size_t n = std::min(names.size(), kMost);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(n), ", "),
                     n < names.size() ? ", ..." : "");
}

ApiError ModelPool::unknown_model(std::string_view name) const {
  return {404, "invalid_request_error", "model_not_found", "model",
          fmt::format("unknown model '{}'; the server has: {}", name.substr(0, 200), known_names())};
}

void ModelPool::get(std::string_view name, Ready ready, bool is_background) {
  std::shared_ptr<ServedModel> model;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    Slot* const slot = find(name).slot;
    if (slot == nullptr) {
      error = as_pointer(unknown_model(name));
    } else if (stopped_) {
      error = as_pointer(shutting_down());
    } else if (is_background && is_crowded_) {
      error = as_pointer(no_room());
    } else if (slot->model != nullptr) {
      slot->use(++clock_);
      model = slot->model;
    } else if (slot->stage == ModelState::Stage::kFailed &&
               std::chrono::steady_clock::now() < slot->try_again_at) {
      error = as_pointer(slot->not_loaded());
    } else if (waiting_.size() >= kMaxWaiting) {
      error =
          as_pointer(no_model("too many requests are waiting for a model to load; try again later", 5000.0));
    } else {
      const auto at =
          std::find_if(slots_.begin(), slots_.end(), [&](const auto& s) { return s.get() == slot; });
      waiting_.push_back({to_size(at - slots_.begin()), std::move(ready), is_background});
      if (slot->stage == ModelState::Stage::kIdle) {
        slot->stage = ModelState::Stage::kLoading;
        slot->progress = 0.0f;
      }
      changed_.notify_all();
      return;
    }
  }
  ready(std::move(model), error);
}

std::vector<ModelState> ModelPool::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelState> result;
  for (const auto& slot : slots_) {
    const auto idle = slot->idle();  // Before the copy of the pointer, which counts as use.
    result.push_back({slot->spec.name, slot->spec.aliases, slot->spec.tags, slot->spec.adapters,
                      slot->spec.path, slot->stage, slot->progress, slot->error, slot->was_loaded,
                      slot->model, slot->keep_alive, idle});
  }
  return result;
}

std::shared_ptr<ServedModel> ModelPool::loaded(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Slot* const slot = find(name).slot;
  return slot == nullptr ? nullptr : slot->model;
}

std::shared_ptr<ServedModel> ModelPool::use(std::string_view name, bool is_background) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(name).slot;
  if (slot == nullptr || slot->model == nullptr || (is_background && is_crowded_)) return nullptr;
  slot->use(++clock_);
  return slot->model;
}

void ModelPool::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

void ModelPool::end() {
  const std::lock_guard lock(mutex_);
  stopped_ = ended_ = true;
  changed_.notify_all();
}

/// With `lock`, which is released while the model is destroyed.
void ModelPool::unload(Slot& slot, std::string_view why, std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<ServedModel> leaving = std::exchange(slot.model, nullptr);
  slot.stage = ModelState::Stage::kIdle;
  lock.unlock();
  leaving.reset();
  if (params_.log) params_.log(fmt::format("model '{}' was unloaded {}", slot.spec.name, why));
  lock.lock();
}

/// Unloads models whose time is over.
void ModelPool::unload_idle(std::unique_lock<std::mutex>& lock) {
  for (const auto& slot : slots_) {
    const bool in_use = slot->model != nullptr && !slot->is_free();
    if (in_use && slot->was_in_use) slot->idle_since = std::chrono::steady_clock::now();
    slot->was_in_use = in_use;
    if (slot->is_over() && !stopped_) unload(*slot, "because no request uses it", lock);
  }
}

// Unloads unused models until there is room, and waits for models in use. Requests in the background leave
// for a client. For them alone it does not wait, and unloads no model that clients use now and then.
void ModelPool::make_room(const Slot& slot, std::unique_lock<std::mutex>& lock) {
  const auto deadline = std::chrono::steady_clock::now() + kMaxWait;
  while (!stopped_) {
    int n_loaded = 0;
    std::uint64_t bytes = slot.bytes;
    Slot* oldest = nullptr;
    for (const auto& other : slots_) {
      if (other->model == nullptr) continue;
      ++n_loaded;
      bytes += other->bytes;
      if (other->is_free() && (oldest == nullptr || other->last_used < oldest->last_used))
        oldest = other.get();
    }
    const bool fits = (params_.n_loaded == 0 || n_loaded < params_.n_loaded) &&
                      (params_.bytes == 0 || bytes <= params_.bytes);
    if (fits || n_loaded == 0) return;  // A model that is alone is tried despite its estimate.
    if (!is_asked_for(slot)) throw Error(ErrorCode::kUnavailable, "other models use the memory");
    const bool has_client = this->has_client(slot);
    if (oldest != nullptr && (has_client || oldest->idle() >= params_.keep_from_background)) {
      unload(*oldest, "to make room", lock);
    } else if (!has_client) {
      throw no_room();
    } else if (!std::exchange(is_crowded_, true)) {
      lock.unlock();
      if (on_crowded_) on_crowded_();
      lock.lock();
    } else if (std::chrono::steady_clock::now() > deadline) {
      throw no_model(
          "no room for this model (memory or --models-max) while other models are in use; try again later",
          5000.0);
    } else {
      changed_.wait_for(lock, kCancelPoll);
    }
  }
  throw shutting_down();
}

std::shared_ptr<ServedModel> ModelPool::load(Slot& slot) {
  const std::uint64_t bytes = params_.bytes_of ? params_.bytes_of(slot.spec) : 0;
  {
    std::unique_lock lock(mutex_);
    slot.bytes = bytes;
    slot.stage = ModelState::Stage::kLoading;
    slot.progress = 0.0f;
    slot.error.clear();
    try {
      make_room(slot, lock);
    } catch (...) {
      is_crowded_ = false;
      throw;
    }
    is_crowded_ = false;
  }
  return params_.load(slot.spec, progress_of(slot, stopped_));
}

std::function<bool(float)> ModelPool::progress_of(Slot& slot, const bool& flag) {
  return [this, &slot, &flag](float progress) {
    const std::lock_guard lock(mutex_);
    slot.progress = progress;
    return !flag;
  };
}

/// With mutex_ held.
bool ModelPool::is_asked_for(const Slot& slot) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& waiting) { return slots_[waiting.slot].get() == &slot; });
}

/// With mutex_ held: whether a request waits for the slot that is not in the background.
bool ModelPool::has_client(const Slot& slot) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return slots_[waiting.slot].get() == &slot && !waiting.is_background;
  });
}

/// With mutex_ held.
void ModelPool::fail(Slot& slot, const std::string& why, bool is_permanent) {
  slot.stage = ModelState::Stage::kFailed;
  slot.was_lost = false;
  slot.is_permanent = is_permanent;
  slot.error = without_folders(why);
  const auto pause = std::min(kTryAgain * (1 << std::min(slot.n_failures++, 5)), kTryAgainAtMost);
  slot.try_again_at = std::chrono::steady_clock::now() + pause;
}

/// With mutex_ held: a model to be loaded again without a request.
ModelPool::Slot* ModelPool::wanted_back() {
  const auto now = std::chrono::steady_clock::now();
  const auto at = std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot->is_wanted && slot->model == nullptr && slot->stage != ModelState::Stage::kLoading &&
           now >= slot->try_again_at;
  });
  return stopped_ || at == slots_.end() ? nullptr : at->get();
}

void ModelPool::renew_lost(std::unique_lock<std::mutex>& lock) {
  struct Loaded {
    Slot* slot;
    std::shared_ptr<ServedModel> model;
    std::string why_lost = {};
  };
  std::vector<Loaded> all;
  for (const auto& slot : slots_)
    if (slot->model != nullptr) all.push_back({slot.get(), slot->model});
  lock.unlock();  // lost() may read a file.
  for (Loaded& one : all) one.why_lost = std::exchange(one.model, nullptr)->lost();
  lock.lock();
  std::erase_if(all, [](const Loaded& one) { return one.why_lost.empty(); });
  for (const Loaded& one : all) one.slot->stage = ModelState::Stage::kLoading;  // All before the first one.
  for (const Loaded& one : all)
    if (!ended_) renew(*one.slot, one.why_lost, lock);
}

/// Requests in progress wait, then continue.
void ModelPool::renew(Slot& slot, const std::string& why, std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<ServedModel> model = slot.model;
  slot.progress = 0.0f;
  lock.unlock();
  warn(fmt::format("model '{}' lost its weights; requests wait while the server reloads them: {}",
                   slot.spec.name, why));
  std::string error;
  try {
    model->renew(progress_of(slot, ended_));
  } catch (...) {
    error = to_api_error(std::current_exception()).what();
  }
  lock.lock();
  if (error.empty()) {
    slot.stage = ModelState::Stage::kLoaded;
    lock.unlock();
    if (params_.log)
      params_.log(fmt::format("model '{}' continues: its weights are loaded again", slot.spec.name));
    lock.lock();
    return;
  }
  slot.model = nullptr;
  slot.is_wanted = true;
  fail(slot, error);
  slot.was_lost = true;
  const bool is_end = ended_;
  lock.unlock();
  if (!is_end) warn(weights_lost(slot.spec, error));
  model.reset();  // Its destructor takes time.
  lock.lock();
}

void ModelPool::warn(const std::string& line) const {
  if (params_.warn) params_.warn(line);
}

/// Waits for a slot that a request needs, or that must be loaded again. Null: the pool has ended.
ModelPool::Slot* ModelPool::next() {
  std::unique_lock lock(mutex_);
  const auto wanted = [&] { return ended_ || !waiting_.empty(); };
  const auto is_over = [](const auto& slot) { return slot->is_over(); };
  while (true) {
    // A model that keep() lets go but requests use is looked at more often.
    const bool is_leaving = std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
      return slot->model != nullptr && slot->keep_alive && slot->keep_alive->count() == 0;
    });
    changed_.wait_for(lock, is_leaving ? kCancelPoll : kLookForLost, [&] {
      return wanted() || (!stopped_ && std::any_of(slots_.begin(), slots_.end(), is_over));
    });
    renew_lost(lock);
    unload_idle(lock);
    if (wanted()) break;
    if (Slot* const back = wanted_back()) return back;
  }
  return waiting_.empty() ? nullptr : slots_[waiting_.front().slot].get();
}

ModelPool::Outcome ModelPool::model_of(Slot& slot) {
  Outcome of;
  {
    const std::lock_guard lock(mutex_);
    of.model = slot.model;
    if (stopped_) of.error = as_pointer(shutting_down());
  }
  if (of.error != nullptr || of.model != nullptr) return of;
  try {
    of.model = load(slot);
  } catch (const ApiError&) {  // There is not enough memory now.
    of.error = std::current_exception();
  } catch (...) {
    const ApiError error = to_api_error(std::current_exception());
    of.failure = error.what();
    of.is_permanent = error.status == 400;
  }
  return of;
}

/// Sets the slot to the outcome. Returns the callbacks that waited for it.
std::vector<ModelPool::Ready> ModelPool::settle(Slot& slot, Outcome& of) {
  std::vector<Ready> those;
  std::string warning;
  bool is_back = false;
  const bool has_no_room = of.error != nullptr && to_api_error(of.error).code == kNoRoom;
  {
    const std::lock_guard lock(mutex_);
    // A load that stop() broke off is not a failure of the model. A model that arrives now is dropped, as the
    // shutdown would miss it.
    if (stopped_) {
      of.failure.clear();
      of.error = as_pointer(shutting_down());
      if (slot.model == nullptr) of.too_late = std::move(of.model);
    }
    slot.use(++clock_);
    if (of.model != nullptr) {
      slot.model = of.model;
      slot.stage = ModelState::Stage::kLoaded;
      slot.error.clear();
      is_back = std::exchange(slot.n_failures, 0) > 0;
      slot.was_loaded = true;
      slot.is_wanted = false;
      slot.keep_alive = params_.keep_alive;
    } else if (!of.failure.empty()) {
      fail(slot, of.failure, of.is_permanent);
      warning = load_failure(slot.spec, of.failure);
      of.error = as_pointer(slot.not_loaded());
    } else {
      slot.stage = ModelState::Stage::kIdle;
      if (!stopped_ && !has_no_room)
        warning = fmt::format("model '{}': {}", slot.spec.name, to_api_error(of.error).what());
    }
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      // A client that came after the check stays: it may wait for memory.
      if (slots_[it->slot].get() != &slot || (has_no_room && !it->is_background)) {
        ++it;
        continue;
      }
      those.push_back(std::move(it->ready));
      it = waiting_.erase(it);
    }
  }
  if (!warning.empty()) warn(warning);
  if (is_back && params_.log) params_.log(fmt::format("model '{}' is loaded again", slot.spec.name));
  return those;
}

void ModelPool::work() {
  while (Slot* const slot = next()) {
    Outcome of = model_of(*slot);
    for (const Ready& ready : settle(*slot, of)) {
      try {
        ready(of.model, of.error);
      } catch (...) {  // Out of memory: the exchange responds with 500 when it is dropped.
      }
    }
  }
}

}  // namespace weft::server
