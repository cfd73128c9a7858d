#pragma once
// A mapped file's bytes on large pages: streams through a file's own pages, of 4 KiB each, are a quarter to a
// third slower.
//
// Weights lie on large pages, small ones too (WeightMemory cuts them from blocks), in turns on all nodes of
// memory. What is mapped from the cache of packed weights starts on the file's small pages, and half a second
// later a thread puts large ones in their place while others read (base/large_pages.h): the start stays
// instant, and streams win a quarter to a third after a few seconds. (At the lowest priority that thread got
// nothing beside a model that decodes.)
#include "base/file_watch.h"
#include "base/late_thread.h"

namespace weft::base {

/// Copies what is mapped into large pages of the process's own, part by part, and puts each part in the
/// file's place: addresses and bytes stay the same, so other threads may read all the while. The watch is
/// told: what becomes of the file concerns these parts no more. Does nothing where the system has no large
/// pages or too little memory, and leaves files alone that are smaller than one. Stops where the file has
/// changed.
class LargePages {
 public:
  LargePages() = default;
  explicit LargePages(std::shared_ptr<FileWatch> watch);

  /// Blocks until all is done, without the delay.
  void wait() { thread_.wait(); }

 private:
  LateThread thread_;
};

}  // namespace weft::base
