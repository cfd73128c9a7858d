#include "backend/cpu/layout/packed_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "base/folder.h"
#include "base/hex.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::cpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".packed";
constexpr std::uint64_t kAlignment =
    4096;  // A page, so that a matrix is aligned as memory of its own would be.
constexpr std::size_t kPieceBytes = base::FileWatch::kPieceBytes;  // What a thread reads and hashes at once.
constexpr std::size_t kMaxNameBytes = 100;                         // The model's name in the file's name.

using Trailer = PackedCache::Trailer;
static_assert(sizeof(Trailer) == 80 && std::has_unique_object_representations_v<Trailer>);
static_assert(sizeof(PackedCache::Entry) == 48 &&
              std::has_unique_object_representations_v<PackedCache::Entry>);

base::Hash128 entry_name(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  base::Hasher hasher;
  hasher.add_value(name.size());
  hasher.add(std::as_bytes(std::span(name)));
  hasher.add_value(static_cast<std::uint32_t>(dtype));
  hasher.add(std::as_bytes(shape));
  return hasher.result();
}

/// The hashes of pieces of bytes, in order; `read(piece, thread)` returns the current bytes of a piece.
template <typename Read>
std::vector<std::uint64_t> piece_hashes(std::span<const std::byte> bytes, base::Pool& pool,
                                        const Read& read) {
  std::vector<std::uint64_t> hashes((bytes.size() + kPieceBytes - 1) / kPieceBytes);
  pool.parallel_for(static_cast<std::int32_t>(hashes.size()), [&](std::int32_t piece, int thread) {
    const std::size_t at = to_size(piece) * kPieceBytes;
    hashes[to_size(piece)] =
        base::hash64(read(bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at)), thread));
  });
  return hashes;
}

/// The same for a part of a file. A piece that cannot be read has the hash of no bytes, so it counts as
/// changed.
std::vector<std::uint64_t> piece_hashes(const base::MappedFile& file, std::span<const std::byte> bytes,
                                        base::Pool& pool) {
  std::vector<std::vector<std::byte>> buffers(to_size(pool.n_threads()));
  return piece_hashes(bytes, pool,
                      [&](std::span<const std::byte> piece, int thread) -> std::span<const std::byte> {
                        try {
                          std::vector<std::byte>& buffer = buffers[to_size(thread)];
                          buffer.resize(piece.size());
                          file.read(piece, buffer);
                          return buffer;
                        } catch (const std::exception&) {
                          return {};
                        }
                      });
}

/// The checksum of `n_bytes` bytes whose pieces have these hashes.
std::uint64_t checksum_of(std::span<const std::uint64_t> pieces, std::size_t n_bytes) {
  return base::hash64(std::as_bytes(pieces), n_bytes);
}

struct Contents {
  Trailer trailer;
  std::vector<PackedCache::Entry> entries;
};

/// What a file of this layout and key holds, nothing of others. Throws Error kIo.
std::optional<Contents> read_contents(const base::MappedFile& mapped, base::Hash128 key) {
  const std::span<const std::byte> file = mapped.bytes();
  Contents contents;
  Trailer& trailer = contents.trailer;
  if (file.size() < sizeof(trailer)) return std::nullopt;
  mapped.read(file.last(sizeof(trailer)), std::as_writable_bytes(std::span(&trailer, 1)));
  if (trailer.hash != trailer.own_hash() ||
      std::memcmp(trailer.magic, Trailer().magic, sizeof(trailer.magic)) != 0 ||
      trailer.version != kPackedVersion || trailer.key != key || trailer.file_bytes != file.size())
    return std::nullopt;
  const std::uint64_t before_trailer = file.size() - sizeof(trailer);
  const std::uint64_t table_bytes = std::uint64_t{trailer.n_entries} * sizeof(PackedCache::Entry);
  if (trailer.table_offset > before_trailer || before_trailer - trailer.table_offset != table_bytes)
    return std::nullopt;
  contents.entries.resize(trailer.n_entries);
  const std::span<std::byte> table = std::as_writable_bytes(std::span(contents.entries));
  mapped.read(file.subspan(trailer.table_offset, table_bytes), table);
  if (base::hash64(table) != trailer.table_hash) return std::nullopt;
  for (const PackedCache::Entry& entry : contents.entries) {
    if (entry.offset % kAlignment != 0 || entry.offset > trailer.table_offset ||
        entry.bytes > trailer.table_offset - entry.offset)
      return std::nullopt;
  }
  return contents;
}

}  // namespace

std::uint64_t PackedCache::Trailer::own_hash() const {
  return base::hash64(std::as_bytes(std::span(this, 1)).first(sizeof(Trailer) - sizeof(hash)));
}

PackedCache::PackedCache(const PackedCacheOptions& options, const PackedModel& model)
    : options_(options),
      model_(model),
      path_(options.folder /
            (model.name.substr(0, kMaxNameBytes) + "-" + base::to_hex(model.key) + std::string(kExtension))) {
  // The time of last use, for prune(). At most once a day, since each change makes other processes read the
  // file again. Before the file is opened: from then on only other processes write to it.
  std::error_code ignored;
  const auto now = fs::file_time_type::clock::now();
  if (now - fs::last_write_time(path_, ignored) > std::chrono::hours(24))
    fs::last_write_time(path_, now, ignored);
  try {
    auto file = std::make_shared<const base::MappedFile>(path_);
    if (std::optional<Contents> contents = read_contents(*file, model_.key)) {
      entries_ = std::move(contents->entries);
      trailer_ = contents->trailer;
      unchanged_ = contents->trailer.identity == model_.identity && model_.identity != base::Hash128();
      file_ = std::make_shared<base::FileWatch>(std::move(file));
      return;
    }
  } catch (const Error&) {
    // Not there, or not to be read: it is written.
  }
  try {
    make_room();
  } catch (const std::exception&) {
    writer_.reset();
  }
}

PackedCache::~PackedCache() = default;

// Opens the writer if the file may be written: within the folder's limit, for which others may have to go,
// and without filling the disk.
void PackedCache::make_room() {
  const std::uint64_t n_bytes = model_.n_bytes;
  if (n_bytes > options_.max_bytes) return;
  fs::create_directories(options_.folder);

  std::vector<base::CachedFile> files = base::cached_files(options_.folder, kExtension);
  std::erase_if(files, [&](const base::CachedFile& file) { return file.path == path_; });
  std::uint64_t total = 0;
  for (const base::CachedFile& file : files) total += file.bytes;
  const auto has_room = [&](std::uint64_t freed) {
    const fs::space_info disk = fs::space(options_.folder);
    const double left =
        static_cast<double>(disk.available) + static_cast<double>(freed) - static_cast<double>(n_bytes);
    return left >= options_.min_free_fraction * static_cast<double>(disk.capacity);
  };
  const auto is_enough = [&](std::uint64_t freed) { return total - freed + n_bytes <= options_.max_bytes; };
  std::uint64_t would_be_freed = 0, freed = 0;
  for (auto file = files.begin(); file != files.end() && !is_enough(would_be_freed); ++file)
    would_be_freed += file->bytes;
  if (!has_room(would_be_freed)) return;  // No other model loses its file for nothing.
  for (auto file = files.begin(); file != files.end() && !is_enough(freed); ++file) {
    std::error_code error;
    if (fs::remove(file->path, error) || !error) freed += file->bytes;
  }
  // What another process has mapped takes its room for as long.
  if (!is_enough(freed) || !has_room(0)) return;
  writer_ = std::make_unique<base::AtomicFile>(path_);
}

std::span<const std::byte> PackedCache::find(std::string_view name, DType dtype,
                                             std::span<const std::int64_t> shape, std::size_t n_bytes,
                                             base::Pool& pool,
                                             const std::function<std::uint64_t()>& source_hash) {
  if (file_ == nullptr) return {};
  const base::Hash128 wanted = entry_name(name, dtype, shape);
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.name == wanted && e.bytes == n_bytes; });
  if (entry == entries_.end()) return {};
  const std::span<const std::byte> packed = file_->file().bytes().subspan(entry->offset, entry->bytes);
  const std::vector<std::uint64_t> hashes = piece_hashes(file_->file(), packed, pool);
  if (checksum_of(hashes, packed.size()) != entry->checksum ||
      (!unchanged_ && source_hash() != entry->source_hash)) {
    drop();
    return {};
  }
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::size_t at = i * kPieceBytes;
    file_->add(packed.subspan(at, std::min(kPieceBytes, packed.size() - at)), hashes[i]);
  }
  return packed;
}

/// The next start writes another. What was given out stays mapped.
void PackedCache::drop() {
  dropped_ = true;
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PackedCache::write(std::span<const std::byte> bytes) {
  if (writer_ == nullptr) return;
  try {
    writer_->write(bytes);
    written_ += bytes.size();
  } catch (const Error&) {
    writer_.reset();
  }
}

void PackedCache::add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::byte> packed, std::uint64_t source_hash, base::Pool& pool) {
  if (writer_ == nullptr) return;
  static constexpr std::array<std::byte, kAlignment> kPadding{};
  write(std::span(kPadding).first((kAlignment - written_ % kAlignment) % kAlignment));
  const std::uint64_t checksum = checksum_of(
      piece_hashes(packed, pool, [](std::span<const std::byte> piece, int /*thread*/) { return piece; }),
      packed.size());
  entries_.push_back({entry_name(name, dtype, shape), written_, packed.size(), checksum, source_hash});
  write(packed);
}

void PackedCache::settle() { pages_.wait(); }

/// All was read and compared: the next start need not. The trailer is written over where it is; one that was
/// written by half counts as no file.
void PackedCache::note_identity() {
  const std::string same_file = "/proc/self/fd/" + std::to_string(file_->file().file().descriptor());
  const int fd = ::open(same_file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  trailer_.identity = model_.identity;
  trailer_.hash = trailer_.own_hash();
  // Where that fails, the next start compares again.
  [[maybe_unused]] const ssize_t n =
      ::pwrite(fd, &trailer_, sizeof(trailer_), static_cast<off_t>(trailer_.file_bytes - sizeof(trailer_)));
  ::close(fd);
}

void PackedCache::commit() {
  if (found() && !unchanged_ && model_.identity != base::Hash128()) note_identity();
  if (file_ != nullptr) pages_ = base::LargePages(file_);
  if (writer_ == nullptr) return;
  Trailer& trailer = trailer_;
  trailer.n_entries = static_cast<std::uint32_t>(entries_.size());
  trailer.key = model_.key;
  trailer.identity = model_.identity;
  trailer.table_offset = written_;
  const std::span<const std::byte> table = std::as_bytes(std::span(entries_));
  trailer.file_bytes = written_ + table.size() + sizeof(trailer);
  trailer.table_hash = base::hash64(table);
  trailer.hash = trailer.own_hash();
  write(table);
  write(std::as_bytes(std::span(&trailer, 1)));
  if (writer_ == nullptr) return;
  try {
    writer_->commit();
  } catch (const Error&) {
    // The next start tries again.
  }
  writer_.reset();
}

}  // namespace weft::cpu
