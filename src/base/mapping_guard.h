#pragma once
// Keeps a process alive that reads a mapped file whose pages are gone: the file was cut, or its disk failed.
// The system sends SIGBUS to a thread that touches such a page, and by default ends the process.
//
// The first guard installs a handler, once per process. Where a thread touches a lost page of a guarded
// range, the handler maps zeros over the whole range and notes the loss. The thread continues with zeros, so
// readers ask lost() after each use and drop their results (base/file_watch.h).
//
// Every other SIGBUS goes to the handler that was installed before, else to the system's default action.
// A program that installs a handler later gets the signal first and must hand it on. That includes handlers
// that restore the previous one and raise the signal again, as Python's faulthandler does.
#include <cstddef>
#include <memory>
#include <span>

namespace weft::base {

/// False: guards made from now on install no handler (guard_mapped_files in weft/weights.h). Any thread.
void allow_mapping_guards(bool allowed);

class MappingGuard {
 public:
  /// The range begins at a page boundary and stays mapped until the guard is gone.
  explicit MappingGuard(std::span<const std::byte> range);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  /// Whether a thread touched a lost page: the range holds zeros since. Any thread.
  bool lost() const;

  struct Slot;

 private:
  Slot* slot_;
};

}  // namespace weft::base
