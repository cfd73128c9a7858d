#pragma once
// A mapped file's bytes on large pages: streams through a file's own pages, of 4 KiB each, are a quarter to a
// third slower.
//
// Weights lie on large pages, small ones too (WeightMemory cuts them from blocks), in turns on all nodes of
// memory. What is mapped from the cache of packed weights starts on the file's small pages, and half a second
// later a thread puts large ones in their place while others read (base/large_pages.h): the start stays
// instant, and streams win a quarter to a third after a few seconds. (At the lowest priority that thread got
// nothing beside a model that decodes.)
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>

#include "base/mapped_file.h"

namespace weft::base {

/// Copies what is mapped into large pages of the process's own, part by part, and puts each part in the
/// file's place: addresses and bytes stay the same, so others may read all the while. In a thread that begins
/// half a second later, so that a short run has its first tokens undisturbed, and that others go before;
/// where they keep all cores busy it still gets a part of one. Does nothing where the system has no large
/// pages, too little memory or no thread to spare.
class LargePages {
 public:
  LargePages() = default;
  /// The file outlives the object. What it has lost meanwhile stays as it is.
  explicit LargePages(const MappedFile& file);

  /// Blocks until all is done, without the delay.
  void wait();

 private:
  struct Start {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool now = false;
  };
  static void replace_all(const std::stop_token& stop, const MappedFile& file, std::size_t n_bytes,
                          Start& start);

  std::shared_ptr<Start> start_;
  std::jthread thread_;
};

}  // namespace weft::base
