#include "files/file_endpoints.h"

#include <fmt/format.h>

#include <mutex>
#include <span>
#include <utility>

#include "files/files.h"

namespace weft::server {
namespace {

constexpr std::string_view kFilesFolder = "/v1/files/";
constexpr std::size_t kMostListed = 10000;

FileInfo found_file(const Job& job, const std::string& id) {
  auto info = files_of(job).store.find(job.viewer, id);
  if (!info)
    throw ApiError(404, "invalid_request_error", "file_not_found", "file_id",
                   fmt::format("there is no file '{}'", id.substr(0, 64)));
  return std::move(*info);
}

/// Sends a file's bytes as fast as the client takes them.
class FileSender : public std::enable_shared_from_this<FileSender> {
 public:
  FileSender(std::shared_ptr<const base::OpenFile> file, const Job& job, Workers& disk)
      : file_(std::move(file)),
        exchange_(job.exchange),
        http_(job.http),
        disk_(disk),
        client_(job.client),
        done_(job.done) {}

  void start(HttpHeaders headers) {
    exchange_->on_drained([self = shared_from_this()] { self->go_on(); });
    exchange_->on_closed([self = shared_from_this()] { self->go_on(); });
    exchange_->begin(200, "application/octet-stream", std::move(headers));
    if (exchange_->request().method == "HEAD") return end();
    go_on();
  }

 private:
  void go_on() {
    if (disk_.run(client_, [self = shared_from_this()] { self->send(); })) return;
    const std::lock_guard lock(mutex_);
    fail("too many files are being sent");
  }

  void send() {
    const std::lock_guard lock(mutex_);
    if (done_ == nullptr) return;
    std::string piece;
    try {
      while (exchange_->n_unsent() <= kMostUnsent) {
        if (exchange_->closed()) return fail("the client disconnected", 499);
        piece.resize(kPiece);
        piece.resize(file_->read_at(n_sent_, std::as_writable_bytes(std::span(piece))));
        n_sent_ += piece.size();
        if (piece.empty()) return end();
        exchange_->write(piece);
      }
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void end() {
    exchange_->end();
    finish({});
  }
  void fail(const char* why, int status = 500) {
    exchange_->abort();
    finish({.status = status, .error = why});
  }
  void finish(Outcome outcome) {
    if (auto done = std::exchange(done_, nullptr))
      http_->post([done = std::move(done), outcome = std::move(outcome)] { done(outcome); });
  }

  static constexpr std::size_t kPiece = std::size_t{256} << 10;
  static constexpr std::size_t kMostUnsent = std::size_t{512} << 10;  // More than HttpParams::high_water.

  const std::shared_ptr<const base::OpenFile> file_;
  const std::shared_ptr<Exchange> exchange_;
  HttpServer* const http_;
  Workers& disk_;
  const std::string client_;
  std::mutex mutex_;
  std::size_t n_sent_ = 0;
  std::function<void(const Outcome&)> done_;  ///< Null once the response has ended.
};

}  // namespace

Files& files_of(const Job& job) {
  if (job.files == nullptr)
    throw ApiError(501, "not_supported_error", "", "",
                   "files and batches are disabled; start the server with --files FOLDER");
  return *job.files;
}

std::pair<std::string, std::string> id_below(const Job& job, std::string_view folder) {
  std::string id = job.exchange->request().path.substr(folder.size());
  const std::size_t slash = std::min(id.find('/'), id.size());
  std::string below = id.substr(std::min(slash + 1, id.size()));
  id.resize(slash);
  return {std::move(id), std::move(below)};
}

void upload_file(Job& job) {
  static_cast<void>(files_of(job));
  const auto upload = std::dynamic_pointer_cast<Upload>(job.exchange->request().sink);
  if (upload == nullptr)
    throw bad_request("",
                      "the body must be a form (multipart/form-data) with the parts 'file' and 'purpose'");
  const FileInfo info = upload->finish();
  for (const std::string& name : upload->ignored()) job.ignored.add(name);
  job.send(file_json(info));
}

void list_files(Job& job) {
  const HttpRequest& request = job.exchange->request();
  const Page<FileInfo> page = files_of(job).store.list(read_list_query(request, kMostListed, kMostListed),
                                                       job.viewer, request.query_value("purpose"));
  Json data = Json::array();
  for (const FileInfo& info : page.records) data.push_back(file_json(info));
  job.send(list_json(std::move(data), page.has_more));
}

void show_file(Job& job) {
  const auto [id, below] = id_below(job, kFilesFolder);
  const FileInfo info = found_file(job, id);
  if (below == "content") {
    std::make_shared<FileSender>(files_of(job).store.open(id), job, *files_of(job).disk)
        ->start(job.headers());
    return;
  }
  if (!below.empty())
    throw ApiError(404, "invalid_request_error", "not_found", "", "a file has only 'content' below it");
  job.send(file_json(info));
  job.done({});
}

void delete_file(Job& job) {
  const auto [id, below] = id_below(job, kFilesFolder);
  const FileInfo info = found_file(job, id);
  Files& files = files_of(job);
  const std::lock_guard lock(files.inputs);
  if (const std::string reader = files.batches.reader_of(id); !reader.empty())
    throw ApiError(409, "invalid_request_error", "file_in_use", "file_id",
                   fmt::format("the batch {} reads this file; cancel it first", reader));
  files.store.remove(info);
  job.send({{"id", id}, {"object", "file"}, {"deleted", true}});
}

}  // namespace weft::server
