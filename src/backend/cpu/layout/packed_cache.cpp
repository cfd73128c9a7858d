#include "backend/cpu/layout/packed_cache.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <system_error>

#include "weft/error.h"

namespace weft::cpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".packed";
constexpr std::uint64_t kAlignment =
    4096;  // A page, so that a matrix is aligned as memory of its own would be.
constexpr auto kAbandoned =
    std::chrono::hours(1);  // A writer's file that nobody has touched for so long is rubbish.

constexpr std::size_t kSamples = 8;
constexpr std::size_t kSampleBytes = 1024;

struct Trailer {
  char magic[8] = {'W', 'E', 'F', 'T', 'P', 'A', 'C', 'K'};
  std::uint32_t version = kPackedVersion;
  std::uint32_t n_entries = 0;
  base::Hash128 key;
  std::uint64_t table_offset = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_hash = 0;
  std::uint64_t hash = 0;  // Of everything before it.

  std::uint64_t own_hash() const {
    return base::hash64(std::as_bytes(std::span(this, 1)).first(sizeof(Trailer) - sizeof(hash)));
  }
};
static_assert(sizeof(Trailer) == 64 && std::has_unique_object_representations_v<Trailer>);
static_assert(sizeof(PackedCache::Entry) == 40 &&
              std::has_unique_object_representations_v<PackedCache::Entry>);

base::Hash128 entry_name(std::string_view name, DType dtype, std::span<const std::int64_t> shape) {
  base::Hasher hasher;
  hasher.add_value(name.size());
  hasher.add(std::as_bytes(std::span(name)));
  hasher.add_value(static_cast<std::uint32_t>(dtype));
  hasher.add(std::as_bytes(shape));
  return hasher.result();
}

/// Samples from the first byte to the last: a part that was never written, or written over, is seen if it is
/// no small one. `read(part)` gives a part of the data as it is now.
template <typename Read>
std::uint64_t hash_samples(std::span<const std::byte> data, const Read& read) {
  if (data.size() <= kSamples * kSampleBytes) return base::hash64(read(data));
  std::uint64_t hash = data.size();
  for (std::size_t i = 0; i < kSamples; ++i)
    hash = base::hash64(read(data.subspan((data.size() - kSampleBytes) / (kSamples - 1) * i, kSampleBytes)),
                        hash);
  return hash;
}

/// The entries of a file that is sound, nothing otherwise. Throws Error kIo.
std::optional<std::vector<PackedCache::Entry>> read_entries(const base::MappedFile& mapped,
                                                            base::Hash128 key) {
  const std::span<const std::byte> file = mapped.bytes();
  Trailer trailer;
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
  std::vector<PackedCache::Entry> entries(trailer.n_entries);
  const std::span<std::byte> table = std::as_writable_bytes(std::span(entries));
  mapped.read(file.subspan(trailer.table_offset, table_bytes), table);
  if (base::hash64(table) != trailer.table_hash) return std::nullopt;

  std::array<std::byte, kSamples * kSampleBytes> samples;
  const auto read = [&](std::span<const std::byte> part) -> std::span<const std::byte> {
    const std::span<std::byte> copy = std::span(samples).first(part.size());
    mapped.read(part, copy);
    return copy;
  };
  for (const PackedCache::Entry& entry : entries) {
    if (entry.offset % kAlignment != 0 || entry.offset > trailer.table_offset ||
        entry.bytes > trailer.table_offset - entry.offset ||
        hash_samples(file.subspan(entry.offset, entry.bytes), read) != entry.samples)
      return std::nullopt;
  }
  return entries;
}

std::string hex(base::Hash128 hash) {
  std::string text;
  for (const std::uint64_t half : {hash.high, hash.low})
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  return text;
}

}  // namespace

PackedCache::PackedCache(const PackedCacheOptions& options, base::Hash128 key, std::uint64_t n_bytes)
    : options_(options), key_(key), path_(options.folder / (hex(key) + std::string(kExtension))) {
  try {
    auto file = std::make_shared<File>(base::MappedFile(path_), base::LargePages());
    if (std::optional<std::vector<Entry>> entries = read_entries(file->mapped, key)) {
      entries_ = std::move(*entries);
      file_ = std::move(file);
      std::error_code ignored;
      fs::last_write_time(path_, fs::file_time_type::clock::now(), ignored);
      return;
    }
  } catch (const Error&) {
    // Not there, or not to be read: it is written.
  }
  try {
    make_room(n_bytes);
  } catch (const std::exception&) {
    writer_.reset();
  }
}

PackedCache::~PackedCache() = default;

// Opens the writer if the file may be written: within the folder's limit, for which others may have to go,
// and without filling the disk.
void PackedCache::make_room(std::uint64_t n_bytes) {
  if (n_bytes > options_.max_bytes) return;
  fs::create_directories(options_.folder);

  struct Found {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  std::vector<Found> files;
  std::uint64_t total = 0;
  const auto now = fs::file_time_type::clock::now();
  for (const fs::directory_entry& item : fs::directory_iterator(options_.folder)) {
    const std::string name = item.path().filename().string();
    std::error_code gone;  // Another process may be making room, too.
    const std::uint64_t bytes = item.file_size(gone);
    if (gone || name.find(kExtension) == std::string::npos || item.path() == path_) continue;
    const fs::file_time_type used = item.last_write_time(gone);
    if (gone) continue;
    if (!name.ends_with(kExtension)) {
      if (now - used > kAbandoned) fs::remove(item.path(), gone);
      continue;
    }
    files.push_back({item.path(), used, bytes});
    total += bytes;
  }
  std::sort(files.begin(), files.end(), [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& file : files) {
    if (total + n_bytes <= options_.max_bytes) break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    total -= file.bytes;
  }

  const fs::space_info disk = fs::space(options_.folder);
  const double left = static_cast<double>(disk.available) - static_cast<double>(n_bytes);
  if (left < options_.min_free_fraction * static_cast<double>(disk.capacity)) return;
  writer_ = std::make_unique<base::AtomicFile>(path_);
}

std::span<const std::byte> PackedCache::find(std::string_view name, DType dtype,
                                             std::span<const std::int64_t> shape, std::size_t n_bytes) const {
  if (!found()) return {};
  const base::Hash128 wanted = entry_name(name, dtype, shape);
  for (const Entry& entry : entries_) {
    if (entry.name == wanted && entry.bytes == n_bytes)
      return file_->mapped.bytes().subspan(entry.offset, entry.bytes);
  }
  return {};
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
                      std::span<const std::byte> packed) {
  if (writer_ == nullptr) return;
  static constexpr std::array<std::byte, kAlignment> kPadding{};
  write(std::span(kPadding).first((kAlignment - written_ % kAlignment) % kAlignment));
  entries_.push_back(
      {entry_name(name, dtype, shape), written_, packed.size(), hash_samples(packed, std::identity())});
  write(packed);
}

void PackedCache::settle() {
  if (found()) file_->pages.wait();
}

void PackedCache::commit() {
  if (found()) file_->pages = base::LargePages(file_->mapped);
  if (writer_ == nullptr) return;
  Trailer trailer;
  trailer.n_entries = static_cast<std::uint32_t>(entries_.size());
  trailer.key = key_;
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
