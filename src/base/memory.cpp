#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "weft/error.h"

namespace weft::base {

Memory::Memory(std::size_t bytes, bool large_pages) : size_(bytes) {
  if (bytes == 0) return;
  void* mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory, "the system has no " + std::to_string(bytes) +
                                             " bytes of memory; use a smaller model, context or cache type");
  }
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  if (large_pages && bytes >= kHugePage) ::madvise(mapped, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(mapped);
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
