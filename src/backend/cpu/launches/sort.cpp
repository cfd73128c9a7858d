#include "backend/cpu/launches/sort.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kSortLeastElements = 2048;
/// Lines of up to kInsertion elements are sorted by insertion, longer ones by digits. Digits have 8 bits, or
/// 11 if four passes cost more than three over tables that large.
constexpr std::int64_t kInsertion = 40;
constexpr std::int64_t kWideDigits = 4096;

/// A number that goes before others as the element does.
std::uint32_t key_of(std::uint32_t bits, bool ints, bool descending) {
  constexpr std::uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u;
  std::uint32_t key = 0;
  if (ints) {
    key = bits ^ kSign;
  } else if ((bits & ~kSign) > kInfinity) {
    key = ~0u;
  } else if ((bits & ~kSign) == 0) {
    key = kSign;  // Both zeros.
  } else {
    key = (bits & kSign) != 0 ? ~bits : bits ^ kSign;
  }
  return descending ? ~key : key;
}

/// Entries are keys with their places below: all differ, so any sort is a stable one.
void sort_by_insertion(std::uint64_t* entries, std::int64_t n) {
  for (std::int64_t i = 1; i < n; ++i) {
    const std::uint64_t entry = entries[i];
    std::int64_t to = i;
    for (; to > 0 && entries[to - 1] > entry; --to) entries[to] = entries[to - 1];
    entries[to] = entry;
  }
}

/// By the keys' digits, the last one first. Returns where the sorted entries are: in `entries` or `other`.
template <int kBits>
std::uint64_t* sort_by_digits(std::uint64_t* entries, std::uint64_t* other, std::int64_t n) {
  constexpr int kPasses = (32 + kBits - 1) / kBits;
  constexpr std::size_t kDigits = std::size_t{1} << kBits;
  std::uint32_t counts[kPasses][kDigits] = {};
  const auto digit = [](std::uint64_t entry, int pass) {
    return to_size(entry >> (32 + pass * kBits)) & (kDigits - 1);
  };
  for (std::int64_t i = 0; i < n; ++i)
    for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][digit(entries[i], pass)];
  for (int pass = 0; pass < kPasses; ++pass) {
    std::uint32_t* const places = counts[pass];
    if (places[digit(entries[0], pass)] == static_cast<std::uint32_t>(n)) continue;
    std::uint32_t place = 0;
    for (std::size_t d = 0; d < kDigits; ++d) place += std::exchange(places[d], place);
    for (std::int64_t i = 0; i < n; ++i) other[places[digit(entries[i], pass)]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

}  // namespace

ArgsortLaunch::ArgsortLaunch(const Graph& graph, const Node& node)
    : op_(*get_op<ops::Argsort>(node)),
      input_(node.inputs[0]),
      output_(node.output),
      ints_(graph.value(input_).dtype == DType::kI32) {
  const Shape& shape = graph.value(input_).shape;
  size_dim_ = shape[op_.axis];
  n_lines_dim_ = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != op_.axis) n_lines_dim_ = n_lines_dim_ * shape[i];
    if (i > op_.axis) stride_dim_ = stride_dim_ * shape[i];
  }
  most_ = size_dim_.value(graph.bounds());
}

void ArgsortLaunch::bind(const Addresses& addresses) {
  x_ = addresses.plain<const std::uint32_t>(input_);
  out_ = addresses.plain<std::int32_t>(output_);
}

std::int32_t ArgsortLaunch::prepare(const StepInfo& step) {
  n_lines_ = n_lines_dim_.value(step.symbols);
  size_ = size_dim_.value(step.symbols);
  stride_ = stride_dim_.value(step.symbols);
  shares_.set(size_ > 0 ? n_lines_ : 0, kSortLeastElements / std::max<std::int64_t>(size_, 1),
              step.n_threads);
  return shares_.n_tasks;
}

std::size_t ArgsortLaunch::scratch_bytes() const { return 2 * to_size(most_) * sizeof(std::uint64_t); }

void ArgsortLaunch::run(std::int32_t task, const TaskContext& context) {
  const std::int64_t end = std::min((task + 1) * shares_.per_task, n_lines_);
  for (std::int64_t line = task * shares_.per_task; line < end; ++line)
    sort_line(line / stride_ * stride_ * size_ + line % stride_,
              reinterpret_cast<std::uint64_t*>(context.scratch));
}

void ArgsortLaunch::sort_line(std::int64_t first, std::uint64_t* entries) const {
  for (std::int64_t i = 0; i < size_; ++i)
    entries[i] = std::uint64_t{key_of(x_[first + i * stride_], ints_, op_.descending)} << 32 |
                 static_cast<std::uint64_t>(i);
  if (size_ <= kInsertion) {
    sort_by_insertion(entries, size_);
  } else if (size_ < kWideDigits) {
    entries = sort_by_digits<8>(entries, entries + size_, size_);
  } else {
    entries = sort_by_digits<11>(entries, entries + size_, size_);
  }
  for (std::int64_t i = 0; i < size_; ++i)
    out_[first + i * stride_] = static_cast<std::int32_t>(entries[i] & 0xffffffffu);
}

}  // namespace weft::cpu
