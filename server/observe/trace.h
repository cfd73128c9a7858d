#pragma once
// A trace of steps and requests in Chrome's format, to be looked at with Perfetto or chrome://tracing.
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "api/served_request.h"
#include "base/descriptor.h"
#include "weft/batcher.h"

namespace weft::server {

/// Any number of threads. The file is valid JSON after each event, also if the process is killed. A full file
/// replaces PATH.old, and a new file begins.
class Trace {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// `warn` may be empty. It is called once when events begin to be lost. Throws Error kIo.
  explicit Trace(std::string path, Warn warn = nullptr, std::int64_t max_bytes = std::int64_t{256} << 20);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void step(const std::string& model, const StepRecord& record);
  /// A request and, within it, its times in the queue, in prefill and in decoding. Names follow
  /// OpenTelemetry's conventions for generative AI.
  void request(const std::string& id, const std::string& path, const std::string& model,
               std::chrono::steady_clock::time_point begin, const Outcome& outcome);

 private:
  void begin();  ///< A new file. Throws Error kIo.
  bool append(std::string_view text);
  void write(const std::string& event);
  double us(std::chrono::steady_clock::time_point time) const;

  const std::string path_;
  const Warn warn_;
  const std::int64_t max_bytes_;
  std::mutex mutex_;
  std::optional<base::Descriptor> file_;
  std::int64_t end_ = 0;  ///< Where the next event goes, over the array's end.
  bool loses_events_ = false;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int n_requests_ = 0;
};

}  // namespace weft::server
