#include "base/memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/control_groups.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

/// Lines of a name and a number; the rest of a line is ignored.
std::map<std::string, std::size_t> read_table(const fs::path& path) {
  std::map<std::string, std::size_t> table;
  std::ifstream file(path);
  std::string name, rest;
  for (std::size_t number = 0; file >> name >> number; std::getline(file, rest)) table[name] = number;
  return table;
}

std::optional<std::size_t> value_of(const std::map<std::string, std::size_t>& table,
                                    const std::string& name) {
  const auto found = table.find(name);
  return found != table.end() ? std::optional(found->second) : std::nullopt;
}

/// "max", a missing file and no number at all are none.
std::optional<std::size_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

struct Limit {
  std::size_t bytes = 0;
  std::size_t used = 0;  // Without what the system gives up when memory is short.
};

/// Reads a control group that limits memory; nothing for other groups.
std::optional<Limit> read_group(const fs::path& folder) {
  std::optional<std::size_t> limit;
  // Version 2 has two limits (beyond the first processes are slowed down), version 1 one.
  for (const char* name : {"memory.high", "memory.max", "memory.limit_in_bytes"})
    if (const auto found = read_number(folder / name)) limit = std::min(limit.value_or(*found), *found);
  if (!limit) return std::nullopt;
  auto used = read_number(folder / "memory.current");
  if (!used) used = read_number(folder / "memory.usage_in_bytes");
  // Of the group and those below it; in version 1 that has names of its own.
  const auto statistics = read_table(folder / "memory.stat");
  const std::string all = statistics.contains("total_inactive_file") ? "total_" : "";
  std::size_t reclaimable = 0;
  for (const char* name : {"inactive_file", "active_file", "slab_reclaimable"})
    reclaimable += value_of(statistics, all + name).value_or(0);
  return Limit{*limit, used.value_or(0) - std::min(used.value_or(0), reclaimable)};
}

/// Of the process's addresses (RLIMIT_AS); nothing without a limit.
std::optional<Limit> read_address_limit(const fs::path& root) {
  constexpr std::string_view kName = "Max address space";
  std::ifstream file(root / "proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kName)) continue;
    std::size_t bytes = 0;
    if (!(std::istringstream(line.substr(kName.size())) >> bytes)) return std::nullopt;  // "unlimited"
    const auto page = to_size(::sysconf(_SC_PAGESIZE));
    return Limit{bytes, read_number(root / "proc/self/statm").value_or(0) * page};
  }
  return std::nullopt;
}

}  // namespace

void* reserve(std::size_t bytes, std::size_t alignment) {
  const auto page = to_size(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* const mapped =
      ::mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(mapped) % alignment) % alignment;
  if (before > 0) ::munmap(begin, before);
  if (before < alignment) ::munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

bool spread_over_nodes(std::span<std::byte> memory, std::span<const int> nodes) {
  if (nodes.size() < 2 || memory.empty()) return true;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask;
  for (const int node : nodes) {
    const std::size_t word = to_size(node) / kBits;
    mask.resize(std::max(mask.size(), word + 1));
    mask[word] |= 1ul << (to_size(node) % kBits);
  }
  // The system uses one bit less than the given number.
  return ::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_INTERLEAVE, mask.data(),
                   mask.size() * kBits + 1, 0) == 0;
}

Memory::Memory(std::size_t bytes, bool large_pages) : size_(bytes) {
  if (bytes == 0) return;
  const bool large = large_pages && bytes >= kLargePage;
  void* const place = large ? reserve(bytes, kLargePage) : nullptr;
  void* const mapped =
      ::mmap(place, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place != nullptr ? MAP_FIXED : 0), -1, 0);
  if (mapped == MAP_FAILED) {
    if (place != nullptr) ::munmap(place, bytes);
    throw Error(ErrorCode::kOutOfMemory, "the system has no " + std::to_string(bytes) +
                                             " bytes of memory; use a smaller model, context or cache type");
  }
  if (large) ::madvise(mapped, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(mapped);
}

bool Memory::move_to(std::byte* target) {
  if (::mremap(data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED) return false;
  data_ = nullptr;
  size_ = 0;
  return true;
}

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MachineMemory machine_memory(const fs::path& root) {
  const std::map<std::string, std::size_t> info = read_table(root / "proc/meminfo");
  const std::size_t total = value_of(info, "MemTotal:").value_or(0);
  const std::size_t available =
      value_of(info, "MemAvailable:").value_or(total) + value_of(info, "SwapFree:").value_or(0);
  MachineMemory memory = {.total = total * 1024, .available = std::min(available, total) * 1024};
  const auto bound = [&](const Limit& limit, const char* name) {
    memory.total = std::min(memory.total, limit.bytes);
    const std::size_t left = limit.bytes - std::min(limit.bytes, limit.used);
    if (left >= memory.available) return;
    memory.available = left;
    memory.limit = name;
  };
  for (const fs::path& group : control_groups(root, "memory"))
    if (const std::optional<Limit> limit = read_group(group)) bound(*limit, "container limit");
  if (const std::optional<Limit> limit = read_address_limit(root)) bound(*limit, "ulimit -v");
  return memory;
}

}  // namespace weft::base
