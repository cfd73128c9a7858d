#pragma once
// Moves a mapped file's bytes to large pages: reading through the file's own pages, of 4 KiB each, is a
// quarter to a third slower.
//
// All weights are on large pages, small ones too (WeightMemory cuts them from blocks), spread over all NUMA
// nodes. Weights that are mapped from the cache of packed weights start on the file's small pages. Half a
// second later a thread replaces these with large ones while others read. So the start stays instant, and
// steps get a quarter to a third faster after a few seconds. (At the lowest priority that thread got no time
// next to a decoding model.)
#include "base/file_watch.h"
#include "base/late_thread.h"

namespace weft::base {

/// Copies the mapped bytes part by part into large pages of the process and maps these in the file's place.
/// Addresses and bytes stay the same, so other threads may read at any time. The watch then no longer checks
/// these parts (FileWatch::set_own). Does nothing where the system has no large pages or too little memory,
/// or the file is smaller than a large page. Stops where the file has changed.
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
