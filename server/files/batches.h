#pragma once
// The batches of --files. One thread reads their inputs, gives the API a bounded number of requests at a
// time, and appends the results to files. Batches take turns.
//
// The state of a batch is ID.json in the folder, its results are ID.output and ID.errors until it ends. Both
// are enough to continue it in another process: requests whose custom_id has a result are not computed again.
// A batch waits while the disk is full. It fails if its owner's share of --files-size is used up.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "files/batch.h"
#include "files/file_store.h"
#include "files/records.h"
#include "http/http_server.h"

namespace weft::server {

/// The server, as batches see it. Calls may come from any thread.
struct BatchHost {
  /// Serves a request for the key of this name, in the background.
  std::function<void(std::shared_ptr<Exchange>, const std::string& key)> serve;
  /// Runs a call on the HTTP server's thread, now or after a time.
  std::function<void(std::function<void()>)> post;
  std::function<void(std::chrono::milliseconds, std::function<void()>)> after;
};

/// Any number of threads.
class Batches {
 public:
  /// Reads the states in the folder. Damaged ones are noted and ignored. The store must outlive this.
  Batches(FileStore& store, FileNotes note);
  ~Batches();  ///< As stop().
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Begins to work, also on batches of an earlier process. Once.
  void start(BatchHost host);
  /// Ends the work; another process can continue it. Requests in progress are cancelled.
  void stop();

  /// Requests in progress are cancelled and computed again later, from their beginning: a client needs the
  /// memory of their models.
  void yield();

  /// Adds a batch with this owner, endpoint, input file, window and metadata. Throws ApiError 429 if the
  /// owner has too many, and 507.
  Batch create(Batch batch);
  // `viewer`: see sees(). Nullopt also for batches that the client does not see.
  std::optional<Batch> find(const std::string& viewer, const std::string& id) const;
  Page<Batch> list(const ListQuery& query, const std::string& viewer) const;
  /// Nullopt if there is none. A batch that has ended, or is ending, stays as it is. Throws ApiError 507.
  std::optional<Batch> cancel(const std::string& viewer, const std::string& id);
  /// The unfinished batch that reads this file; empty: none.
  std::string reader_of(const std::string& file_id) const;

 private:
  struct Active;
  struct Result;

  using Actives = std::list<std::unique_ptr<Active>>;
  struct News {
    std::vector<Result> results;
    bool has_batches = false;  ///< New or cancelled ones.
    bool stopping = false;
    bool yields = false;
  };

  void load();
  /// Changes a record and stores its state, unless `change` returns false. Throws ApiError 507; the record is
  /// changed then.
  void change(const std::string& id, const std::function<bool(Batch&)>& change);
  std::filesystem::path part_of(const std::string& id, const char* end) const;
  void note_problem(const std::string& id, std::string_view what) const;

  /// The thread looks for new and cancelled batches, and goes on with those whose pause has ended.
  void wake();

  // On the thread:
  void work();
  News wait();
  Actives::iterator find_active(const std::string& id);
  void begin_new();
  void begin(const Batch& batch);
  void take(Result result);
  void save(Active& active, Result result);
  void save_again();
  std::vector<std::string> ids_with_unsaved() const;
  void pause(const std::string& id, std::chrono::milliseconds time);
  void add_result(Active& active, std::size_t index, const HttpResponse& answer);
  std::size_t n_given_out() const;
  void give_out();
  void give_out_one(Active& active);
  void cancel_requests(Active& active);
  void take_back_requests();
  void end_finished();
  void end(const std::string& id, BatchStatus status, std::vector<BatchError> errors = {});
  void keep_results(const std::string& id, BatchStatus status, const std::vector<BatchError>& errors);
  void sync(bool at_once);

  FileStore& store_;
  const FileNotes note_;
  BatchHost host_;
  mutable std::mutex mutex_;
  std::mutex state_mutex_;  ///< Held while a state is written, before mutex_.
  std::condition_variable changed_;
  Records<Batch> records_;
  std::vector<Result> results_;
  bool has_news_ = false;  ///< New or cancelled batches, or the end of a pause.
  /// Ids of batches whose requests the server could not take, or whose results the disk could not.
  std::set<std::string> pausing_;
  bool stopping_ = false;
  bool yields_ = false;
  // The thread's own:
  Actives active_;              ///< The one whose turn it is comes first.
  std::set<std::string> full_;  ///< Ids of batches that wait for the disk, which the log has.
  std::chrono::steady_clock::time_point last_sync_ = {};
  std::thread thread_;
};

}  // namespace weft::server
