#include "engine/states/format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/to_size.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "states are written as they lie in memory");

constexpr std::array<char, 8> kMagic = {'w', 'e', 'f', 't', 's', 't', 'a', 't'};

struct Header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t whole;
  std::uint64_t head_bytes;   // Up to the head's checksum.
  std::uint64_t total_bytes;  // Of the state.
  base::Hash128 model;
  std::int32_t n_layers;
  std::int32_t n_embd;
  std::int32_t n_vocab;
  std::uint32_t n_caches;
  std::uint32_t n_pages;
  std::uint32_t n_texts;
  std::uint64_t n_extents;
  std::uint64_t n_adapters;
};
struct CacheRecord {
  std::uint32_t dtype;
  std::uint32_t role;
  std::int32_t n_heads;
  std::int32_t head_dim;
  std::uint64_t turning;
  friend bool operator==(const CacheRecord&, const CacheRecord&) = default;
};
struct TextRecord {
  std::int32_t seq;
  std::uint32_t n_extents;
  std::uint32_t n_adapters;
};
struct AdapterRecord {
  base::Hash128 adapter;
  float scale;
  std::uint32_t zero;
};
struct SourceRecord {
  std::uint32_t number;
  std::uint32_t size;
};
constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);

std::span<const std::byte> bytes_of(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

CacheRecord record_of(const StateOwner::Cache& cache) {
  return {static_cast<std::uint32_t>(cache.dtype), static_cast<std::uint32_t>(cache.role), cache.n_heads,
          cache.head_dim, cache.turning};
}

std::uint64_t head_bytes(const StateOwner& owner, std::uint64_t n_pages, std::uint64_t n_texts,
                         std::uint64_t n_extents, std::uint64_t n_adapters) {
  return sizeof(Header) + owner.caches.size() * sizeof(CacheRecord) + n_pages * 2 * sizeof(std::uint64_t) +
         n_texts * (sizeof(TextRecord) + (owner.reads_sources ? sizeof(SourceRecord) : 0)) +
         n_extents * sizeof(Extent) + n_adapters * sizeof(AdapterRecord);
}

/// The number of a cache's rows in a state.
struct RowCounts {
  std::uint64_t n_cells = 0;
  std::uint64_t n_kept = 0;   // Cells among them in caches with a window.
  std::uint64_t n_texts = 0;  // That are not empty.
  std::uint64_t n_source = 0;

  RowCounts(std::uint64_t cells, std::uint64_t texts, std::uint64_t source)
      : n_cells(cells), n_kept(cells), n_texts(texts), n_source(source) {}
  explicit RowCounts(const State& state) : n_cells(static_cast<std::uint64_t>(state.snapshot.n_cells())) {
    for (const std::uint64_t mask : state.kept) n_kept += static_cast<std::uint64_t>(std::popcount(mask));
    for (const kv::Snapshot::Text& text : state.snapshot.texts) n_texts += text.extents.empty() ? 0u : 1u;
    for (const std::uint32_t size : state.source_sizes()) n_source += size;
  }
  std::uint64_t bytes(const StateOwner::Cache& cache) const {
    return (cache.of_sources                  ? n_source
            : cache.role == CacheRole::kSlots ? n_texts
            : cache.windowed                  ? n_kept
                                              : n_cells) *
           cache.row_bytes();
  }
};

/// The bytes of a state after its head and the head's checksum.
std::uint64_t tail_bytes(const StateOwner& owner, const RowCounts& counts) {
  std::uint64_t n = kChecksumBytes + sizeof(base::Hash128);
  for (const StateOwner::Cache& cache : owner.caches) n += counts.bytes(cache) + kChecksumBytes;
  return n;
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorCode::kInvalidFile, "the state is damaged: " + what + "; nothing was restored");
}

/// Takes values from the front of bytes whose length was checked before.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take_bytes(std::uint64_t n) {
    if (n > rest_.size()) damaged("it ends early");
    const std::span<const std::byte> taken = rest_.first(to_size(n));
    rest_ = rest_.subspan(to_size(n));
    return taken;
  }

 private:
  std::span<const std::byte> rest_;
};

void check_model(const StateOwner& owner, const Header& header) {
  if (header.model == owner.model) return;
  const auto sizes = [](std::int32_t n_layers, std::int32_t n_embd, std::int32_t n_vocab) {
    return std::to_string(n_layers) + " layers of width " + std::to_string(n_embd) + ", " +
           std::to_string(n_vocab) + " tokens";
  };
  const std::string theirs = sizes(header.n_layers, header.n_embd, header.n_vocab),
                    ours = sizes(owner.n_layers, owner.n_embd, owner.n_vocab);
  throw Error(ErrorCode::kInvalidArgument, "the state was saved with another model (" +
                                               (theirs == ours ? "of the same size, with other weights)"
                                                               : theirs + ") than this one (" + ours + ")") +
                                               "; restore it with the same file");
}

std::string type_name(std::uint32_t id) {
  const auto dtype = dtype_from_id(id);
  return dtype ? std::string(info(*dtype).name) : "type " + std::to_string(id);
}

void check_cache(const StateOwner::Cache& cache, const CacheRecord& record) {
  const CacheRecord expected = record_of(cache);
  if (record == expected) return;
  CacheRecord other = expected;
  other.dtype = record.dtype;
  other.turning = record.turning;  // It may depend on the type: quantized caches rotate keys.
  if (record == other && record.dtype != expected.dtype)
    throw Error(ErrorCode::kInvalidArgument,
                "the state's " + cache.name + " is of " + type_name(record.dtype) + ", this context's of " +
                    type_name(expected.dtype) + "; restore it into a context with the same cache types");
  if (record == other)
    throw Error(ErrorCode::kInvalidArgument,
                "the state's keys have other RoPE frequencies than this context, since the model chooses "
                "them by the context's length; restore the state into a context of the original length");
  damaged(cache.name + " has another shape than the model's");
}

/// Sources are numbered in the order in which sequences name them, and have one size each.
void read_sources(const Header& header, Reader& reader, State& state) {
  std::vector<std::uint32_t> sizes;
  std::uint64_t n_rows = 0;
  for (std::uint32_t i = 0; i < header.n_texts; ++i) {
    const auto record = reader.take<SourceRecord>();
    state.sources.push_back({record.number, record.size});
    if (record.size == 0) {
      if (record.number != 0) damaged("a source has a number and no tokens");
      if (!state.snapshot.texts[i].extents.empty()) damaged("a text has no source");
      continue;
    }
    if (record.number == sizes.size()) {
      sizes.push_back(record.size);
      n_rows += record.size;
    }
    if (record.number >= sizes.size() || sizes[record.number] != record.size)
      damaged("its sources contradict each other");
  }
  if (n_rows > header.total_bytes) damaged("its sources are longer than it");
}

void read_snapshot(const Header& header, Reader& reader, State& state) {
  kv::Snapshot& snapshot = state.snapshot;
  snapshot.pages.resize(header.n_pages);
  state.kept.resize(header.n_pages);
  for (std::size_t p = 0; p < header.n_pages; ++p) {
    snapshot.pages[p] = reader.take<std::uint64_t>();
    state.kept[p] = reader.take<std::uint64_t>();
    if ((state.kept[p] & ~snapshot.pages[p]) != 0) damaged("a window has cells that are not in use");
  }
  std::uint64_t n_extents = 0, n_adapters = 0;
  std::vector<std::uint32_t> counts, adapter_counts;
  for (std::uint32_t i = 0; i < header.n_texts; ++i) {
    const auto text = reader.take<TextRecord>();
    if (text.seq < 0 || (i > 0 && text.seq <= snapshot.texts.back().seq))
      damaged("its sequences are in no order");
    snapshot.texts.push_back({text.seq, {}});
    counts.push_back(text.n_extents);
    n_extents += text.n_extents;
    static_assert(kMaxTextAdapters == Context::kMaxAdapters);
    if (text.n_adapters > kMaxTextAdapters) damaged("a text has too many adapters");
    adapter_counts.push_back(text.n_adapters);
    n_adapters += text.n_adapters;
  }
  if (n_extents != header.n_extents || n_adapters != header.n_adapters)
    damaged("its sequences do not agree with what it has of them");
  for (std::uint32_t i = 0; i < header.n_texts; ++i)
    for (std::uint32_t e = 0; e < counts[i]; ++e) snapshot.texts[i].extents.push_back(reader.take<Extent>());
  for (const std::uint32_t n : adapter_counts) {
    auto& adapters = state.adapters.emplace_back();
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto record = reader.take<AdapterRecord>();
      if (!std::isfinite(record.scale)) damaged("the scale of an adapter is no number");
      adapters.push_back({record.adapter, record.scale});
    }
  }
  if (!snapshot.well_formed()) damaged("its extents contradict each other");
}

}  // namespace

std::uint64_t max_state_bytes(const StateOwner& owner, std::uint64_t n_cells, std::uint64_t n_texts,
                              std::uint64_t n_extents, std::uint64_t n_source) {
  return head_bytes(owner, n_cells, n_texts, n_extents, n_texts * kMaxTextAdapters) +
         tail_bytes(owner, {n_cells, n_texts, n_source});
}

std::vector<std::uint32_t> State::source_sizes() const {
  std::vector<std::uint32_t> sizes;
  for (const TextSource& source : sources)
    if (source.size > 0 && source.number == sizes.size()) sizes.push_back(source.size);
  return sizes;
}

void write_state(const StateOwner& owner, const State& state,
                 const std::function<std::span<const std::byte>(std::size_t)>& rows_of,
                 const std::function<void(std::span<const std::byte>)>& sink) {
  const kv::Snapshot& snapshot = state.snapshot;
  base::Hasher hash;
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.add(bytes);
    sink(bytes);
  };

  std::uint64_t n_extents = 0;
  for (const auto& text : snapshot.texts) n_extents += text.extents.size();
  std::uint64_t n_adapters = 0;
  for (const auto& adapters : state.adapters) n_adapters += adapters.size();
  const std::uint64_t n_head =
      head_bytes(owner, snapshot.pages.size(), snapshot.texts.size(), n_extents, n_adapters);
  const Header header = {
      .magic = kMagic,
      .version = kStateVersion,
      .whole = state.whole ? 1u : 0u,
      .head_bytes = n_head,
      .total_bytes = n_head + tail_bytes(owner, RowCounts(state)),
      .model = owner.model,
      .n_layers = owner.n_layers,
      .n_embd = owner.n_embd,
      .n_vocab = owner.n_vocab,
      .n_caches = static_cast<std::uint32_t>(owner.caches.size()),
      .n_pages = static_cast<std::uint32_t>(snapshot.pages.size()),
      .n_texts = static_cast<std::uint32_t>(snapshot.texts.size()),
      .n_extents = n_extents,
      .n_adapters = n_adapters,
  };
  std::vector<std::byte> head;
  head.reserve(to_size(n_head));
  const auto add = [&](std::span<const std::byte> bytes) {
    head.insert(head.end(), bytes.begin(), bytes.end());
  };
  add(bytes_of(header));
  for (const StateOwner::Cache& cache : owner.caches) add(bytes_of(record_of(cache)));
  for (std::size_t p = 0; p < snapshot.pages.size(); ++p) {
    add(bytes_of(snapshot.pages[p]));
    add(bytes_of(state.kept[p]));
  }
  for (std::size_t i = 0; i < snapshot.texts.size(); ++i)
    add(bytes_of(TextRecord{snapshot.texts[i].seq,
                            static_cast<std::uint32_t>(snapshot.texts[i].extents.size()),
                            static_cast<std::uint32_t>(state.adapters[i].size())}));
  for (const auto& text : snapshot.texts) add(std::as_bytes(std::span(text.extents)));
  for (const auto& adapters : state.adapters)
    for (const TextAdapter& adapter : adapters)
      add(bytes_of(AdapterRecord{adapter.adapter, adapter.scale, 0}));
  for (const TextSource& source : state.sources) add(bytes_of(SourceRecord{source.number, source.size}));
  write(head);
  write(bytes_of(base::hash64(head)));

  for (std::size_t i = 0; i < owner.caches.size(); ++i) {
    const std::span<const std::byte> rows = rows_of(i);
    write(rows);
    write(bytes_of(base::hash64(rows, i)));
  }
  sink(bytes_of(hash.result()));
}

State read_state(const StateOwner& owner, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) damaged("it has " + std::to_string(bytes.size()) + " bytes");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic)
    throw Error(ErrorCode::kInvalidFile, "these bytes are not a state that weft saved");
  if (header.version != kStateVersion)
    throw Error(ErrorCode::kUnsupported, "the state has version " + std::to_string(header.version) +
                                             ", this weft reads version " + std::to_string(kStateVersion));
  if (header.total_bytes != bytes.size())
    damaged("it has " + std::to_string(bytes.size()) + " of " + std::to_string(header.total_bytes) +
            " bytes");
  if (header.head_bytes < sizeof(Header) || header.head_bytes > bytes.size()) damaged("its head has no end");

  Reader reader(bytes);
  const std::span<const std::byte> head = reader.take_bytes(header.head_bytes);
  if (reader.take<std::uint64_t>() != base::hash64(head)) damaged("the checksum of its head is wrong");
  check_model(owner, header);
  if (header.n_caches != owner.caches.size()) damaged("it has another number of caches than the model");
  // Only these counts could overflow here.
  if (header.n_extents > bytes.size() || header.n_adapters > bytes.size() || header.whole > 1 ||
      header.head_bytes !=
          head_bytes(owner, header.n_pages, header.n_texts, header.n_extents, header.n_adapters))
    damaged("its counts contradict its size");

  Reader tables(head.subspan(sizeof(Header)));
  for (const StateOwner::Cache& cache : owner.caches) check_cache(cache, tables.take<CacheRecord>());
  State state;
  state.whole = header.whole != 0;
  read_snapshot(header, tables, state);
  if (owner.reads_sources) read_sources(header, tables, state);
  const bool has_windows = std::any_of(owner.caches.begin(), owner.caches.end(),
                                       [](const StateOwner::Cache& cache) { return cache.windowed; });
  if (!has_windows && state.kept != state.snapshot.pages)
    throw Error(ErrorCode::kInvalidArgument,
                "the state has only the windows of sliding-window layers, but this context keeps all tokens; "
                "restore it into a context without window_rewind = -1");
  const RowCounts counts(state);
  if (bytes.size() != header.head_bytes + tail_bytes(owner, counts))
    damaged("its cells do not agree with its size");
  for (std::size_t i = 0; i < owner.caches.size(); ++i) {
    state.rows.push_back(reader.take_bytes(counts.bytes(owner.caches[i])));
    if (reader.take<std::uint64_t>() != base::hash64(state.rows.back(), i))
      damaged("the checksum of " + owner.caches[i].name + " is wrong");
  }
  base::Hasher hash;
  hash.add(bytes.first(bytes.size() - sizeof(base::Hash128)));
  if (!(reader.take<base::Hash128>() == hash.result())) damaged("its checksum is wrong");
  return state;
}

}  // namespace weft::engine
