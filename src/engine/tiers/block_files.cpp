#include "engine/tiers/block_files.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/folder.h"
#include "base/hex.h"
#include "base/open_file.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".weftkv";
constexpr std::size_t kHexDigits = 32;
constexpr std::uint64_t kMaxSymbols = std::uint64_t{1} << 24;
/// The fraction of the disk that writing leaves free.
constexpr double kFree = 0.05;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kEndBytes = sizeof(base::Hash128);  // The hash at the end of a state.

struct Header {
  std::array<char, 8> magic = {'w', 'e', 'f', 't', 'b', 'l', 'c', 'k'};
  std::uint32_t version = kVersion;
  std::uint32_t n_symbols = 0;
  base::Hash128 owner;
  base::Hash128 parent;
  std::uint64_t n_state = 0;
  base::Hash128 state_end;  ///< The last bytes of the state, its hash.
  std::uint64_t hash = 0;   ///< Of the header before it, and the symbols.
};
static_assert(sizeof(Header) == 80 && std::has_unique_object_representations_v<Header>);

/// The parts of a file's name.
struct Name {
  base::Hash128 owner;
  base::Hash128 own;
};
/// Nothing for other files.
std::optional<Name> read_name(std::string_view name) {
  if (name.size() != 2 * kHexDigits + 1 + kExtension.size() || name[kHexDigits] != '-' ||
      !name.ends_with(kExtension))
    return std::nullopt;
  const auto owner = base::from_hex(name.substr(0, kHexDigits));
  const auto own = base::from_hex(name.substr(kHexDigits + 1, kHexDigits));
  if (!owner || !own) return std::nullopt;
  return Name{*owner, *own};
}

std::uint64_t head_hash(const Header& header, std::span<const Symbol> symbols) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&header, 1));
  return base::hash64(std::as_bytes(symbols),
                      base::hash64(bytes.first(sizeof(Header) - sizeof(header.hash))));
}

base::Hash128 end_of_state(std::span<const std::byte> state) {
  base::Hash128 end;
  if (state.size() >= kEndBytes) std::memcpy(&end, state.last(kEndBytes).data(), kEndBytes);
  return end;
}

[[noreturn]] void throw_damaged(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kInvalidFile, path.string() + " is damaged (" + what + ") and was removed");
}

struct Head {
  Header header;
  Block block;
  std::size_t n_bytes = 0;  // Of header and symbols.
};

/// Throws Error kInvalidFile for damaged files, kUnsupported for states larger than `max_state`, and kIo.
Head read_head(const base::OpenFile& file, const base::Hash128& owner, const base::Hash128& own,
               std::uint64_t max_state) {
  Head head;
  Header& header = head.header;
  const auto damaged = [&](const char* what) { throw_damaged(file.path(), what); };
  if (file.read_at(0, std::as_writable_bytes(std::span(&header, 1))) < sizeof(Header)) damaged("it is cut");
  if (header.magic != Header().magic || header.version != kVersion) damaged("it has another format");
  if (header.n_symbols < 1 || header.n_symbols > kMaxSymbols) damaged("its counts are too large");
  head.n_bytes = sizeof(Header) + header.n_symbols * sizeof(Symbol);
  if (file.size() < head.n_bytes || file.size() - head.n_bytes != header.n_state) damaged("it is cut");
  std::vector<Symbol>& symbols = head.block.symbols;
  symbols.resize(header.n_symbols);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(symbols));
  if (file.read_at(sizeof(Header), bytes) < bytes.size()) damaged("it is cut");
  head.block.parent = header.parent;
  if (header.hash != head_hash(header, symbols)) damaged("its header has a wrong checksum");
  if (header.owner != owner || block_hash(header.parent, symbols) != own)
    damaged("it has another file's name");
  if (header.n_state > max_state)
    throw Error(ErrorCode::kUnsupported, file.path().string() + " has more tokens than this context");
  return head;
}

}  // namespace

BlockFiles::BlockFiles(fs::path folder, std::uint64_t max_bytes, const base::Hash128& owner,
                       std::uint64_t max_state)
    : folder_(std::move(folder)), max_bytes_(max_bytes), owner_(owner), max_state_(max_state) {}

fs::path BlockFiles::path_of(const base::Hash128& own) const {
  return folder_ / (base::to_hex(owner_) + "-" + base::to_hex(own) + std::string(kExtension));
}

std::vector<base::CachedFile> BlockFiles::all_files() {
  std::vector<base::CachedFile> files = base::cached_files(folder_, kExtension);
  std::erase_if(files,
                [](const base::CachedFile& file) { return !read_name(file.path.filename().string()); });
  n_bytes_ = 0;
  for (const base::CachedFile& file : files) n_bytes_ += file.bytes;
  return files;
}

BlockFiles::Listing BlockFiles::list() {
  base::make_private_folder(folder_);
  Listing listing;
  std::error_code error;
  const auto time = fs::last_write_time(folder_, error);
  // Changes within the clock's resolution of the listing have the same time, so a recent one proves nothing.
  if (!error && listed_at_ == time && fs::file_time_type::clock::now() - time > std::chrono::seconds(2))
    return listing;
  const auto names = base::names_in(folder_);
  if (!names) throw Error(ErrorCode::kIo, "cannot read the folder " + folder_.string());
  if (!listed_at_) (void)all_files();  // Removes what killed writers have left.
  // Only new files are opened, and asked for their sizes.
  std::map<std::string, std::uint64_t> files;
  for (const std::string& name : *names) {
    const std::optional<Name> parts = read_name(name);
    if (!parts) continue;
    if (const auto known = known_.find(name); known != known_.end()) {
      files.insert(*known);
      continue;
    }
    const std::uint64_t n_bytes = fs::file_size(folder_ / name, error);
    files[name] = error ? 0 : n_bytes;
    if (parts->owner != owner_) continue;
    try {
      const base::OpenFile open(folder_ / name);
      Head head = read_head(open, owner_, parts->own, max_state_);
      listing.added.push_back({parts->own, std::move(head.block), head.header.n_state});
    } catch (const Error& failure) {
      if (failure.code() == ErrorCode::kUnsupported) continue;
      if (failure.code() != ErrorCode::kNotFound) listing.failures.emplace_back(failure.what());
      if (failure.code() == ErrorCode::kInvalidFile) drop(folder_ / name);
      if (failure.code() != ErrorCode::kIo) files.erase(name);
    }
  }
  for (const auto& [name, bytes] : known_)
    if (const std::optional<Name> parts = read_name(name); parts->owner == owner_ && !files.contains(name))
      listing.removed.push_back(parts->own);
  n_bytes_ = 0;
  for (const auto& [name, bytes] : files) n_bytes_ += bytes;
  known_ = std::move(files);
  listed_at_ = error ? std::optional<fs::file_time_type>() : time;
  return listing;
}

BlockFiles::Written BlockFiles::make_room(std::uint64_t n_bytes) {
  if (n_bytes > max_bytes_) return Written::kTooLarge;
  const auto disk_has_room = [&](std::uint64_t freed) {
    std::error_code error;
    const fs::space_info disk = fs::space(folder_, error);
    if (error) return true;  // Writing shows it.
    return static_cast<double>(disk.available) + static_cast<double>(freed) - static_cast<double>(n_bytes) >=
           kFree * static_cast<double>(disk.capacity);
  };
  if (n_bytes_ + n_bytes > max_bytes_ || !disk_has_room(0)) {
    const std::vector<base::CachedFile> files = all_files();
    if (!disk_has_room(n_bytes_)) return Written::kNoSpace;  // No file is removed for nothing.
    for (const base::CachedFile& file : files) {
      if (n_bytes_ + n_bytes <= max_bytes_ && disk_has_room(0)) break;
      drop(file.path);
      n_bytes_ -= std::min(n_bytes_, file.bytes);
    }
  }
  return disk_has_room(0) ? Written::kYes : Written::kNoSpace;
}

BlockFiles::Written BlockFiles::write(const Block& block, const base::Hash128& own,
                                      std::span<const std::byte> state, int depth) {
  base::make_private_folder(folder_);
  Header header;
  header.n_symbols = static_cast<std::uint32_t>(block.symbols.size());
  header.owner = owner_;
  header.parent = block.parent;
  header.n_state = state.size();
  header.state_end = end_of_state(state);
  header.hash = head_hash(header, block.symbols);
  const std::uint64_t n_bytes = sizeof(Header) + std::span(block.symbols).size_bytes() + state.size();
  if (const Written room = make_room(n_bytes); room != Written::kYes) return room;
  const fs::path path = path_of(own);
  base::AtomicFile file(path, 0600);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(block.symbols)));
  file.write(state);
  file.commit();
  n_bytes_ += n_bytes;
  known_[path.filename()] = n_bytes;
  touch(own, depth);
  return Written::kYes;
}

std::vector<std::byte> BlockFiles::read(const Block& block, const base::Hash128& own) {
  const fs::path path = path_of(own);
  try {
    const base::OpenFile file(path);
    const Head head = read_head(file, owner_, own, max_state_);
    if (head.block.symbols != block.symbols) throw_damaged(path, "it has other tokens");
    std::vector<std::byte> state(to_size(head.header.n_state));
    if (file.read_at(head.n_bytes, state) < state.size()) throw_damaged(path, "it is cut");
    if (end_of_state(state) != head.header.state_end) throw_damaged(path, "its end is another file's");
    return state;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return {};
    if (error.code() == ErrorCode::kInvalidFile) remove(own);
    throw;
  }
}

void BlockFiles::touch(const base::Hash128& own, int depth) {
  std::error_code ignored;
  const auto time = fs::file_time_type::clock::now() - std::chrono::milliseconds(depth);
  fs::last_write_time(path_of(own), time, ignored);
}

void BlockFiles::remove(const base::Hash128& own) {
  const fs::path path = path_of(own);
  std::error_code ignored;
  const std::uint64_t bytes = fs::file_size(path, ignored);
  if (!ignored) n_bytes_ -= std::min(n_bytes_, bytes);
  known_.erase(path.filename().string());
  drop(path);
}

void BlockFiles::drop(const fs::path& path) noexcept {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace weft::engine
