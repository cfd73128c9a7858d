#pragma once
// A mapped file's bytes on large pages: streams through a file's own pages, of 4 KiB each, are a quarter
// slower.
#include <cstddef>
#include <span>
#include <thread>

namespace weft::base {

/// Copies what is mapped into large pages of the process's own, part by part, and puts each part in the
/// file's place: addresses and bytes stay the same, so others may read all the while. In a thread that others
/// go before. Does nothing where the system has no large pages or too little memory.
class LargePages {
 public:
  LargePages() = default;
  /// `mapped` begins at a multiple of kLargePage (MappedFile does) and outlives the object.
  explicit LargePages(std::span<const std::byte> mapped);

  /// Blocks until all is done.
  void wait();

 private:
  std::jthread thread_;
};

}  // namespace weft::base
