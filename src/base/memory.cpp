#include "base/memory.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "weft/error.h"

namespace weft::base {

void* reserve(std::size_t bytes, std::size_t alignment) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
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
    const std::size_t word = static_cast<std::size_t>(node) / kBits;
    mask.resize(std::max(mask.size(), word + 1));
    mask[word] |= 1ul << (static_cast<std::size_t>(node) % kBits);
  }
  // The system takes one bit less than it is told.
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

MachineMemory machine_memory() {
  MachineMemory memory;
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  std::size_t kib = 0;
  while (info >> key >> kib) {
    std::getline(info, unit);
    if (key == "MemTotal:") memory.total = kib * 1024;
    if (key == "MemAvailable:") memory.available = kib * 1024;
  }
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::size_t limit = 0;
  if (limit_file >> limit && limit < memory.total) {
    memory.total = limit;
    std::ifstream used_file("/sys/fs/cgroup/memory.current");
    std::size_t used = 0;
    if (used_file >> used) memory.available = std::min(memory.available, limit > used ? limit - used : 0);
  }
  return memory;
}

}  // namespace weft::base
