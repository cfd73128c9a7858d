#include "base/file_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::base {
namespace {

std::uint64_t hash_of(const MappedFile& file, std::span<const std::byte> piece,
                      std::vector<std::byte>& buffer) {
  buffer.resize(piece.size());
  file.read(piece, buffer);
  return hash64(buffer);
}

}  // namespace

FileWatch::FileWatch(std::shared_ptr<const MappedFile> file)
    : file_(std::move(file)), known_(file_->file().stamp()) {}

void FileWatch::add(std::span<const std::byte> part) {
  WEFT_CHECK(part.empty() || file_->holds(part));
  const std::lock_guard lock(mutex_);
  const auto offset = to_size(part.data() - file_->bytes().data());
  for (std::size_t at = 0; at < part.size(); at += kPieceBytes) {
    Piece& piece = pieces_[offset + at];
    const std::size_t size = std::min(kPieceBytes, part.size() - at);
    if (size > piece.size) piece = {size, std::nullopt};
  }
}

void FileWatch::add(std::span<const std::byte> piece, std::uint64_t hash) {
  WEFT_CHECK(file_->holds(piece));
  const std::lock_guard lock(mutex_);
  pieces_[to_size(piece.data() - file_->bytes().data())] = {piece.size(), hash};
}

std::span<const std::byte> FileWatch::bytes_of(std::size_t offset, const Piece& piece) const {
  return file_->bytes().subspan(offset, piece.size);
}

void FileWatch::learn(const std::stop_token& stop) {
  std::vector<std::pair<std::size_t, Piece>> unknown;
  std::size_t n_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [offset, piece] : pieces_)
      if (!piece.hash) {
        unknown.emplace_back(offset, piece);
        n_bytes += piece.size;
      }
  }
  if (machine_memory().available < n_bytes) return;
  std::vector<std::byte> buffer;
  for (const auto& [offset, piece] : unknown) {
    if (stop.stop_requested()) return;
    const std::uint64_t hash = hash_of(*file_, bytes_of(offset, piece), buffer);
    const std::lock_guard lock(mutex_);
    if (file_->file().stamp_now() != known_) return;  // The bytes may have changed before they were read.
    if (Piece& now = pieces_[offset]; now.size == piece.size) now.hash = hash;
  }
}

bool FileWatch::knows_all() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(pieces_, [](const auto& entry) { return entry.second.hash.has_value(); });
}

void FileWatch::set_own(std::size_t n_bytes) {
  const std::lock_guard lock(mutex_);
  n_own_ = n_bytes;
}

void FileWatch::check() const {
  const std::lock_guard lock(mutex_);
  const bool depends = n_own_ < file_->bytes().size();
  if (problem_.empty() && (depends || file_->lost())) problem_ = find_problem();
  if (!problem_.empty()) throw Error(ErrorCode::kIo, problem_);
}

std::string FileWatch::find_problem() const {
  const std::string path = file_->file().path().string();
  const auto was_changed = [&] {
    return path +
           " was modified while weft read weights from it; load the model again. To replace a file, rename "
           "the new one to its name";
  };
  if (file_->lost()) return file_->loss();
  const std::optional<OpenFile::Stamp> now = file_->file().stamp_now();
  if (!now || *now == known_) return {};
  const bool is_written = now->size != known_.size || now->written_ns != known_.written_ns;
  std::vector<std::byte> buffer;
  for (const auto& [offset, piece] : pieces_) {
    if (offset + piece.size <= n_own_) continue;
    if (!piece.hash) {
      if (is_written) return was_changed();
      continue;
    }
    try {
      if (hash_of(*file_, bytes_of(offset, piece), buffer) != *piece.hash) return was_changed();
    } catch (const Error& error) {
      return error.what();
    }
  }
  known_ = *now;
  return {};
}

}  // namespace weft::base
