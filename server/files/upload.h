#pragma once
// A file on its way from a client to the folder: a form with the parts `file` and `purpose`.
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/ignored.h"
#include "files/file_store.h"
#include "files/multipart.h"
#include "http/http_server.h"
#include "workers.h"

namespace weft::server {

class Upload final : public BodySink, public std::enable_shared_from_this<Upload>, private FormHandler {
 public:
  /// `owner`: FileInfo::owner. The store and the workers, which write, must outlive it.
  Upload(FileStore& store, Workers& disk, std::string_view boundary, std::string owner);

  std::uint64_t max_bytes() const override;
  void put(std::string piece, std::function<void()> taken) override;

  /// Once all pieces are taken: the stored file. Throws ApiError; the file is gone then.
  FileInfo finish();
  /// Parts that the server does not use.
  const std::vector<std::string>& ignored() const { return ignored_; }

 private:
  void read(std::string_view piece) noexcept;
  void begin_part(FormPart part) override;
  void add(std::string_view bytes) override;
  void end_part() override;

  FileStore& store_;
  Workers& disk_;
  MultipartReader reader_;
  FileInfo info_;
  std::unique_ptr<NewFile> file_;
  std::exception_ptr error_;  ///< The rest of the body is dropped.
  std::string field_;         ///< The current part's name, and its content unless it is the file.
  std::string value_;
  std::vector<std::string> ignored_;
};

}  // namespace weft::server
