#pragma once
// A trace of steps and requests in Chrome's format, to be looked at with Perfetto or chrome://tracing.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

#include "api/generation.h"
#include "weft/batcher.h"

namespace weft::server {

/// Any number of threads. The file is valid at any time: Chrome's array may lack its end.
class Trace {
 public:
  /// Throws Error kIo.
  explicit Trace(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void step(const std::string& model, const StepRecord& record);
  /// A request and, within it, its queue, its prompt and its answer. Names as OpenTelemetry's conventions for
  /// generative AI have them.
  void request(const std::string& id, const std::string& path, const std::string& model,
               std::chrono::steady_clock::time_point begin, const Outcome& outcome);

 private:
  void write(const std::string& event);
  double us(std::chrono::steady_clock::time_point time) const;

  std::mutex mutex_;
  std::FILE* file_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int n_requests_ = 0;
};

}  // namespace weft::server
