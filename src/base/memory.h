#pragma once
// Large blocks of memory from the system: zeroed, page aligned, taken from the machine only as they are
// touched.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::base {

inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// Addresses for `bytes` bytes from a multiple of `alignment` on, to be mapped over; null where there are
/// none.
void* reserve(std::size_t bytes, std::size_t alignment);

/// Spreads untouched pages of memory over the given NUMA nodes in turns, for data that all threads read
/// alike. Each node then serves a part with its own bandwidth. False where the system cannot; with one node
/// there is nothing to do.
bool spread_over_nodes(std::span<std::byte> memory, std::span<const int> nodes);

class Memory {
 public:
  Memory() = default;
  /// Throws Error kOutOfMemory, with the number of bytes. 0 bytes gives an empty block.
  /// Large pages make streams through memory faster and the first touch of each place dearer: zeroing 2 MiB.
  /// A block that takes one of them or more begins at its boundary.
  explicit Memory(std::size_t bytes, bool large_pages = true);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;

  /// Replaces the pages mapped at `target`, a page boundary, by the block's pages, atomically for all
  /// readers. The pages stay there, and the block is empty. Returns false and changes nothing where the
  /// system cannot.
  bool move_to(std::byte* target);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Bytes of memory of this machine: in all, and what the process can still get. The limits of the process's
/// control groups and of its addresses (RLIMIT_AS) count. Pages of files and free swap count as
/// available, as the system gives them up for others or moves others there. Mapped files count against the limit of addresses alone.
struct MachineMemory {
  std::size_t total = 0;
  std::size_t available = 0;
  const char* limit = "memory of the machine";  ///< What bounds `available`, for messages.
};
/// Read from /proc and /sys, whose place is a parameter so that tests can show another machine.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

}  // namespace weft::base
