#include "files/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <system_error>
#include <utility>

#include "api/job.h"
#include "base/folder.h"
#include "files/batch_input.h"
#include "files/batch_output.h"
#include "files/line_exchange.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr std::string_view kBatchPrefix = "batch_";
constexpr std::string_view kStateEnd = ".json";
constexpr const char *kOutputEnd = ".output", *kErrorsEnd = ".errors";
constexpr std::string_view kOutputPurpose = "batch_output";
/// Results reach the disk after this time at most.
constexpr std::chrono::milliseconds kSyncPeriod{1000};
constexpr std::chrono::milliseconds kLongestPause{10000}, kFullDiskPause{1000};
/// Tries of a request while its model cannot be used. An overloaded server gets it again without a limit.
constexpr int kMostTries = 5;

std::string_view response_header(const HttpResponse& answer, std::string_view name) {
  for (const auto& [own, value] : answer.headers)
    if (own == name) return value;
  return {};
}

/// How a batch ends whose end was interrupted.
BatchStatus ending_status(const Batch& batch) {
  switch (batch.status) {
    case BatchStatus::kFinalizing:
      return BatchStatus::kCompleted;
    case BatchStatus::kCancelling:
      return BatchStatus::kCancelled;
    default:
      return BatchStatus::kFailed;
  }
}

/// The time after which the request is sent again; nullopt: the response is its result.
std::optional<std::chrono::milliseconds> retry_time(const HttpResponse& answer, int n_tries) {
  const std::string_view text = response_header(answer, "Retry-After-Ms");
  if (text.empty() || (!answer.is_overload && n_tries >= kMostTries)) return std::nullopt;
  std::int64_t ms = 1000;
  std::from_chars(text.data(), text.data() + text.size(), ms);
  return std::clamp(std::chrono::milliseconds(ms), std::chrono::milliseconds(1), kLongestPause);
}

/// The line of a result, as OpenAI has it. The body is JSON already.
std::string result_line(const std::string& custom_id, const HttpResponse& answer) {
  const std::string body = answer.body.empty() ? "null" : answer.body;
  std::string line = fmt::format(
      R"({{"id":"{}","custom_id":{},"response":{{"status_code":{},"request_id":{},"body":{}}},"error":null}})",
      make_id("batch_req_"), json_text(custom_id), answer.status,
      json_text(response_header(answer, "X-Request-Id")), body);
  std::replace(line.begin(), line.end(), '\n', ' ');  // JSON has line breaks between values only.
  return line;
}

void set_end(Batch& batch, BatchStatus status, const std::vector<BatchError>& errors) {
  batch.status = status;
  batch.errors = errors;
  (status == BatchStatus::kCompleted   ? batch.completed_at
   : status == BatchStatus::kCancelled ? batch.cancelled_at
                                       : batch.failed_at) = seconds_now();
}

std::vector<BatchError> one_error(std::string code, std::string message) {
  std::vector<BatchError> errors(1);
  errors[0].code = std::move(code);
  errors[0].message = std::move(message);
  return errors;
}

/// Whether it has not begun to end.
bool is_open(const Batch& batch) {
  return batch.status == BatchStatus::kValidating || batch.status == BatchStatus::kInProgress;
}

}  // namespace

struct Batches::Result {
  std::string id;  ///< Of the batch.
  std::size_t index = 0;
  HttpResponse answer;
};

/// A batch in progress.
struct Batches::Active {
  Active(Batch batch_in, std::shared_ptr<const base::OpenFile> file, std::size_t most_lines,
         const std::filesystem::path& output_path, const std::filesystem::path& errors_path, Space& space)
      : batch(std::move(batch_in)),
        input(std::move(file), batch.endpoint, most_lines),
        output(output_path, space, batch.owner),
        errors(errors_path, space, batch.owner) {}

  /// The next request without a result; nullopt: all are given out.
  std::optional<std::size_t> next_request() {
    if (!again.empty()) {
      const std::size_t index = again.front();
      again.pop_front();
      return index;
    }
    while (next < has_result.size() && has_result[next]) ++next;
    return next < has_result.size() ? std::optional(next++) : std::nullopt;
  }
  bool has_more() {
    while (next < has_result.size() && has_result[next]) ++next;
    return !again.empty() || next < has_result.size();
  }

  const Batch batch;  ///< As it was at its beginning.
  BatchInput input;
  BatchOutput output, errors;
  std::vector<bool> has_result;  ///< Those of an earlier process.
  std::size_t next = 0;
  std::deque<std::size_t> again;  ///< Requests that the server could not take.
  std::vector<Result> unsaved;    ///< The disk had no room for them. Their requests stay in `given_out`.
  std::unordered_map<std::size_t, int> n_tries;
  bool is_refused = false;  ///< The server could not take the last request: it gets one at a time.
  struct GivenOut {
    std::string custom_id;
    std::weak_ptr<LineExchange> exchange;  ///< The API holds it.
  };
  std::unordered_map<std::size_t, GivenOut> given_out;
};

Batches::Batches(FileStore& store, FileNotes note) : store_(store), note_(std::move(note)) { load(); }

Batches::~Batches() { stop(); }

void Batches::load() {
  for (const std::string& name : base::names_in(store_.setup().folder).value_or(std::vector<std::string>())) {
    if (!name.ends_with(kStateEnd)) continue;
    const std::string id = name.substr(0, name.size() - kStateEnd.size());
    if (!is_own_id(id, kBatchPrefix)) continue;
    try {
      const std::optional<Json> state = read_json(store_.path_of(name));
      if (state) {
        records_.put(batch_from(id, *state));
        continue;
      }
    } catch (const Json::exception&) {
    }
    note_problem(id, "its state is damaged and is ignored");
  }
}

void Batches::note_problem(const std::string& id, std::string_view what) const {
  if (note_) note_(fmt::format("{}: {}", id, what));
}

void Batches::wake() {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = true;
  }
  changed_.notify_all();
}

void Batches::start(BatchHost host) {
  host_ = std::move(host);
  has_news_ = true;
  thread_ = std::thread([this] { work(); });
}

void Batches::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Batches::yield() {
  {
    const std::lock_guard lock(mutex_);
    yields_ = true;
  }
  changed_.notify_all();
}

// --- Any thread

std::filesystem::path Batches::part_of(const std::string& id, const char* end) const {
  return store_.path_of(id + end);
}

void Batches::change(const std::string& id, const std::function<bool(Batch&)>& change) {
  const std::lock_guard state_lock(state_mutex_);
  Json state;
  {
    const std::lock_guard lock(mutex_);
    Batch* const found = records_.find(id);
    if (found == nullptr || !change(*found)) return;
    state = batch_state(*found);
  }
  write_json(store_.path_of(id + std::string(kStateEnd)), state);
}

Batch Batches::create(Batch batch) {
  const FilesSetup& setup = store_.setup();
  batch.id = make_id(kBatchPrefix);
  batch.created_ns = creation_time();
  std::string forgotten;
  const std::lock_guard state_lock(state_mutex_);  // Of two calls at the limit only one adds a batch.
  {
    const std::lock_guard lock(mutex_);
    std::size_t n_open = 0, n_ended = 0;
    records_.each([&](const Batch& other) {
      if (other.owner != batch.owner) return true;
      if (other.ended() && n_ended++ == 0) forgotten = other.id;
      n_open += other.ended() ? 0 : 1;
      return true;
    });
    if (n_open >= setup.n_batches)
      throw ApiError(
          429, "rate_limit_error", "too_many_batches", "",
          fmt::format("{} batches are unfinished, which is the limit; wait until one has ended", n_open));
    if (n_ended < setup.n_ended) forgotten.clear();
    if (!forgotten.empty()) records_.remove(forgotten);
  }
  std::error_code ignored;
  if (!forgotten.empty())
    std::filesystem::remove(store_.path_of(forgotten + std::string(kStateEnd)), ignored);
  write_json(store_.path_of(batch.id + std::string(kStateEnd)), batch_state(batch));
  {
    const std::lock_guard lock(mutex_);
    records_.put(batch);
  }
  wake();
  return batch;
}

std::optional<Batch> Batches::find(const std::string& viewer, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const Batch* const found = std::as_const(records_).find(viewer, id);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Page<Batch> Batches::list(const ListQuery& query, const std::string& viewer) const {
  const std::lock_guard lock(mutex_);
  return records_.page(query, viewer, [](const Batch&) { return true; });
}

std::optional<Batch> Batches::cancel(const std::string& viewer, const std::string& id) {
  if (!find(viewer, id)) return std::nullopt;
  const auto begin = [now = seconds_now()](Batch& batch) {
    if (!is_open(batch)) return false;
    batch.status = BatchStatus::kCancelling;
    batch.cancelling_at = now;
    return true;
  };
  {
    const std::lock_guard state_lock(state_mutex_);
    std::optional<Batch> cancelled;
    {
      const std::lock_guard lock(mutex_);
      if (const Batch* const found = records_.find(id); found != nullptr) cancelled = *found;
    }
    if (cancelled && begin(*cancelled)) {
      // First on the disk: if that fails, the batch goes on, also in another process.
      write_json(store_.path_of(id + std::string(kStateEnd)), batch_state(*cancelled));
      const std::lock_guard lock(mutex_);
      if (Batch* const found = records_.find(id); found != nullptr) begin(*found);
    }
  }
  wake();
  return find(viewer, id);
}

std::string Batches::reader_of(const std::string& file_id) const {
  std::string reader;
  const std::lock_guard lock(mutex_);
  records_.each([&](const Batch& batch) {
    if (!batch.ended() && batch.input_file == file_id) reader = batch.id;
    return reader.empty();
  });
  return reader;
}

// --- The thread

void Batches::work() {
  for (News news = wait(); !news.stopping; news = wait()) {
    try {
      for (Result& result : news.results) take(std::move(result));
      if (news.yields) take_back_requests();
      if (news.has_batches) begin_new();
      save_again();
      end_finished();
      give_out();
      sync(false);
    } catch (const std::exception& error) {  // Memory is short.
      note_problem("batches", error.what());
    }
  }
  for (const auto& active : active_) cancel_requests(*active);
  sync(true);
}

/// Waits for news. Returns also when results must reach the disk.
Batches::News Batches::wait() {
  const bool is_dirty = std::any_of(active_.begin(), active_.end(), [](const auto& active) {
    return active->output.is_dirty() || active->errors.is_dirty();
  });
  std::unique_lock lock(mutex_);
  const auto has_news = [&] { return stopping_ || has_news_ || yields_ || !results_.empty(); };
  if (is_dirty) {
    changed_.wait_for(lock, kSyncPeriod, has_news);
  } else {
    changed_.wait(lock, has_news);
  }
  return {std::exchange(results_, {}), std::exchange(has_news_, false), stopping_,
          std::exchange(yields_, false)};
}

void Batches::begin_new() {
  std::vector<Batch> open;
  {
    const std::lock_guard lock(mutex_);
    records_.each([&](const Batch& batch) {
      if (!batch.ended()) open.push_back(batch);
      return true;
    });
  }
  bool has_begun = false;
  for (const Batch& batch : open) {
    const std::string& id = batch.id;
    try {
      if (batch.has_files()) {  // An earlier process was ending it.
        end(id, ending_status(batch), batch.errors);
      } else {
        if (find_active(id) == active_.end()) {
          if (has_begun)
            return wake();  // Checking a large file takes long: results and other batches go first.
          has_begun = true;
          begin(batch);
        }
        if (batch.status == BatchStatus::kCancelling && find_active(id) != active_.end())
          end(id, BatchStatus::kCancelled);
      }
    } catch (const std::exception& error) {
      end(id, BatchStatus::kFailed, one_error("storage_error", without_folders(error.what())));
    }
  }
}

void Batches::begin(const Batch& batch) {
  bool stopping = false, cancelled = false;
  const auto stopped = [&] {
    const std::lock_guard lock(mutex_);
    const Batch* const now = records_.find(batch.id);
    stopping = stopping_;
    cancelled = now == nullptr || now->status == BatchStatus::kCancelling;
    return stopping || cancelled;
  };
  auto active =
      std::make_unique<Active>(batch, store_.open(batch.input_file), store_.setup().n_lines,
                               part_of(batch.id, kOutputEnd), part_of(batch.id, kErrorsEnd), store_.space());
  BatchInput::Checked checked = active->input.check(stopped);
  if (stopped()) {
    if (stopping) return;
    for (BatchOutput* const results : {&active->output, &active->errors})
      results->recover([](const std::string&) { return true; });
    return end(batch.id, BatchStatus::kCancelled);
  }
  if (!checked.errors.empty()) return end(batch.id, BatchStatus::kFailed, std::move(checked.errors));
  active->has_result.resize(active->input.size());
  const auto mark = [&](const std::string& custom_id) {
    const auto found = checked.by_id.find(custom_id);
    if (found == checked.by_id.end() || active->has_result[found->second]) return false;
    active->has_result[found->second] = true;
    return true;
  };
  const std::size_t n_completed = active->output.recover(mark), n_failed = active->errors.recover(mark);
  change(batch.id, [&](Batch& now) {
    now.n_total = active->input.size();
    now.n_completed = n_completed;
    now.n_failed = n_failed;
    if (now.status != BatchStatus::kValidating) return false;
    now.status = BatchStatus::kInProgress;
    now.in_progress_at = seconds_now();
    return true;
  });
  active_.push_back(std::move(active));
}

Batches::Actives::iterator Batches::find_active(const std::string& id) {
  return std::find_if(active_.begin(), active_.end(),
                      [&](const auto& active) { return active->batch.id == id; });
}

void Batches::take(Result result) {
  const auto place = find_active(result.id);
  if (place == active_.end()) return;
  Active& active = **place;
  if (!active.given_out.contains(result.index)) return;
  if (const auto time = retry_time(result.answer, ++active.n_tries[result.index])) {
    active.given_out.erase(result.index);
    active.again.push_back(result.index);
    active.is_refused = true;
    pause(result.id, *time);
    return;
  }
  save(active, std::move(result));
}

/// Appends a result. If the disk is full, it is saved after a pause.
void Batches::save(Active& active, Result result) {
  try {
    add_result(active, result.index, result.answer);
  } catch (const ApiError& error) {
    if (error.status != 507) return end(result.id, BatchStatus::kFailed, one_error(error.code, error.what()));
    pause(result.id, kFullDiskPause);
    if (full_.insert(result.id).second) note_problem(result.id, error.what());
    active.unsaved.push_back(std::move(result));
  }
}

void Batches::save_again() {
  for (const std::string& id : ids_with_unsaved()) {
    const Actives::iterator active = find_active(id);
    for (Result& result : std::exchange((*active)->unsaved, {})) {
      save(**active, std::move(result));
      if (find_active(id) == active_.end()) break;  // It has failed.
    }
  }
}

/// Of batches without a pause.
std::vector<std::string> Batches::ids_with_unsaved() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& active : active_)
    if (!active->unsaved.empty() && !pausing_.contains(active->batch.id)) ids.push_back(active->batch.id);
  return ids;
}

/// The batch gets no requests for this time.
void Batches::pause(const std::string& id, std::chrono::milliseconds time) {
  {
    const std::lock_guard lock(mutex_);
    if (!pausing_.insert(id).second) return;
  }
  host_.after(time, [this, id] {
    {
      const std::lock_guard lock(mutex_);
      pausing_.erase(id);
    }
    wake();
  });
}

void Batches::add_result(Active& active, std::size_t index, const HttpResponse& answer) {
  const bool completed = answer.status / 100 == 2;
  (completed ? active.output : active.errors)
      .append(result_line(active.given_out.at(index).custom_id, answer));
  full_.erase(active.batch.id);
  active.given_out.erase(index);
  active.n_tries.erase(index);
  active.is_refused = false;
  const std::lock_guard lock(mutex_);
  if (Batch* const batch = records_.find(active.batch.id); batch != nullptr)
    ++(completed ? batch->n_completed : batch->n_failed);
}

std::size_t Batches::n_given_out() const {
  std::size_t n = 0;
  for (const auto& active : active_) n += active->given_out.size();
  return n;
}

void Batches::give_out() {
  for (std::size_t n = n_given_out(); n < store_.setup().n_lines_at_once; ++n) {
    const auto may_go_on = [this](const auto& active) {
      const std::lock_guard lock(mutex_);
      return !stopping_ && active->has_more() && !pausing_.contains(active->batch.id) &&
             !(active->is_refused && !active->given_out.empty());
    };
    const auto next = std::find_if(active_.begin(), active_.end(), may_go_on);
    if (next == active_.end()) return;
    active_.splice(active_.end(), active_, next);
    Active& active = **next;
    try {
      give_out_one(active);
    } catch (const std::exception& error) {
      end(active.batch.id, BatchStatus::kFailed, one_error("storage_error", without_folders(error.what())));
    }
  }
}

void Batches::give_out_one(Active& active) {
  const std::size_t index = *active.next_request();
  BatchLine line = active.input.line(index);
  const auto done = [this, id = active.batch.id, index](HttpResponse answer) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopping_) results_.push_back({id, index, std::move(answer)});
    }
    changed_.notify_all();
  };
  auto exchange = std::make_shared<LineExchange>(active.batch.endpoint, to_text(line.body), host_.post, done);
  active.given_out[index] = {std::move(line.custom_id), exchange};
  if (line.body.value("stream", Json(false)) == true) return exchange->begin(200, "", {});
  host_.serve(std::move(exchange), active.batch.owner);
}

void Batches::end_finished() {
  std::vector<std::string> finished;
  for (const auto& active : active_)
    if (active->given_out.empty() && !active->has_more()) finished.push_back(active->batch.id);
  for (const std::string& id : finished) end(id, BatchStatus::kCompleted);
}

void Batches::cancel_requests(Active& active) {
  for (auto& [index, given_out] : active.given_out)
    if (const auto exchange = given_out.exchange.lock()) exchange->cancel();
  active.given_out.clear();
  active.unsaved.clear();
}

void Batches::take_back_requests() {
  for (const auto& active : active_) {
    for (const auto& [index, given_out] : active->given_out) active->again.push_back(index);
    active->is_refused = true;
    cancel_requests(*active);
  }
}

void Batches::end(const std::string& id, BatchStatus status, std::vector<BatchError> errors) {
  if (const auto place = find_active(id); place != active_.end()) {
    cancel_requests(**place);
    try {
      (*place)->output.sync();
      (*place)->errors.sync();
    } catch (const ApiError& error) {
      note_problem(id, error.what());
    }
    active_.erase(place);
  }
  try {
    keep_results(id, status, errors);
  } catch (const ApiError& error) {
    // It is ended again after a pause, or by another process.
    pause(id, kFullDiskPause);
    if (full_.insert(id).second) note_problem(id, error.what());
    return;
  }
  full_.erase(id);
  try {
    change(id, [&](Batch& batch) {
      set_end(batch, batch.status == BatchStatus::kCancelling ? BatchStatus::kCancelled : status, errors);
      return true;
    });
  } catch (const ApiError& error) {
    note_problem(id, error.what());
  }
}

/// The results become files of the folder.
void Batches::keep_results(const std::string& id, BatchStatus status, const std::vector<BatchError>& errors) {
  struct Part {
    const char* end;
    std::string Batch::* file;
    const char* name;
  };
  constexpr Part kParts[] = {{kOutputEnd, &Batch::output_file, "output"},
                             {kErrorsEnd, &Batch::error_file, "error"}};
  Batch ending;
  change(id, [&](Batch& batch) {
    if (status == BatchStatus::kCompleted && is_open(batch)) {
      batch.status = BatchStatus::kFinalizing;
      batch.finalizing_at = seconds_now();
    }
    if (status == BatchStatus::kFailed) batch.errors = errors;  // For a process that ends it again.
    for (const Part& part : kParts) {
      std::error_code error;
      const std::uintmax_t bytes = std::filesystem::file_size(part_of(id, part.end), error);
      if (!error && bytes > 0 && (batch.*part.file).empty()) batch.*part.file = make_id("file-");
    }
    ending = batch;
    return true;
  });
  for (const Part& part : kParts) {
    const std::filesystem::path path = part_of(id, part.end);
    const std::string& file = ending.*part.file;
    std::error_code ignored;
    if (file.empty()) {  // The part is empty.
      std::filesystem::remove(path, ignored);
    } else {
      store_.adopt(path, {.id = file,
                          .owner = ending.owner,
                          .name = fmt::format("{}_{}.jsonl", id, part.name),
                          .purpose = std::string(kOutputPurpose),
                          .created_ns = creation_time()});
    }
  }
}

void Batches::sync(bool at_once) {
  const auto now = std::chrono::steady_clock::now();
  if (!at_once && now - last_sync_ < kSyncPeriod) return;
  last_sync_ = now;
  std::vector<std::pair<std::string, ApiError>> failed;
  for (const auto& active : active_) {
    try {
      active->output.sync();
      active->errors.sync();
    } catch (const ApiError& error) {
      failed.emplace_back(active->batch.id, error);
    }
  }
  for (const auto& [id, error] : failed) end(id, BatchStatus::kFailed, one_error(error.code, error.what()));
}

}  // namespace weft::server
