#include "files/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::server {
namespace {

/// For the other parts and the boundaries.
constexpr std::uint64_t kFormBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMostValue = 1024;
constexpr std::size_t kMostShownName = 255;
constexpr std::array<std::string_view, 6> kPurposes = {"assistants", "batch",     "fine-tune",
                                                       "vision",     "user_data", "evals"};

void check_purpose(const std::string& purpose) {
  if (purpose.empty()) throw bad_request("purpose", "the form has no part 'purpose'");
  if (std::find(kPurposes.begin(), kPurposes.end(), purpose) == kPurposes.end())
    throw bad_request("purpose", fmt::format("'purpose' must be one of {}, not '{}'",
                                             fmt::join(kPurposes, ", "), purpose.substr(0, 64)));
}

}  // namespace

Upload::Upload(FileStore& store, Workers& disk, std::string_view boundary, std::string owner)
    : store_(store), disk_(disk), reader_(boundary, *this), info_{.owner = std::move(owner)} {}

std::uint64_t Upload::max_bytes() const { return store_.setup().file_bytes + kFormBytes; }

void Upload::put(std::string piece, std::function<void()> taken) {
  const auto work = [self = shared_from_this(), piece = std::move(piece), taken] {
    self->read(piece);
    taken();
  };
  if (disk_.run(info_.owner, work)) return;
  error_ = std::make_exception_ptr(unavailable(kOverloaded, "too many files are being received; try again"));
  taken();
}

void Upload::read(std::string_view piece) noexcept {
  if (error_ != nullptr) return;
  try {
    reader_.read(piece);
  } catch (...) {
    error_ = std::current_exception();
    file_.reset();
  }
}

void Upload::begin_part(FormPart part) {
  field_ = std::move(part.name);
  value_.clear();
  if (field_ != "file") return;
  if (file_ != nullptr) throw bad_request("file", "the form has two parts 'file'");
  file_ = store_.begin(info_.owner);
  info_.name = part.filename.value_or("upload").substr(0, kMostShownName);
}

void Upload::add(std::string_view bytes) {
  if (field_ == "file") return file_->write(bytes);
  if (bytes.size() > kMostValue - value_.size())
    throw bad_request("",
                      fmt::format("a part of the form other than 'file' has more than {} bytes", kMostValue));
  value_ += bytes;
}

void Upload::end_part() {
  if (field_ == "purpose") {
    info_.purpose = value_;
    check_purpose(info_.purpose);
  } else if (field_ != "file") {
    ignored_.push_back(field_);
  }
}

FileInfo Upload::finish() {
  if (error_ != nullptr) std::rethrow_exception(error_);
  reader_.finish();
  check_purpose(info_.purpose);
  if (file_ == nullptr) throw bad_request("file", "the form has no part 'file'");
  FileInfo stored = store_.add(*file_, info_);
  file_.reset();
  return stored;
}

}  // namespace weft::server
