// Since 0.1
#pragma once
// Threads of the host that plans share (CompileOptions::pool). Opaque: only weft's own CPU runs tasks on
// them. A backend of your own starts its own threads, and ignores these.

#pragma GCC visibility push(default)

namespace weft {

class HostThreads {
 public:
  HostThreads() = default;
  virtual ~HostThreads() = default;
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;
};

}  // namespace weft

#pragma GCC visibility pop
