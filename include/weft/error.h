// Since 0.1
#pragma once
// Errors of weft. Errors from outside (a file, a request, memory, a device) throw Error. Its message has the
// expected and the actual value, and how to solve the problem. Expected outcomes (a full cache) are return
// values. Nothing in weft aborts on input. If the host lacks memory for small objects, std::bad_alloc is
// thrown.
#include <stdexcept>
#include <string>

#pragma GCC visibility push(default)

namespace weft {

enum class ErrorCode {
  kInvalidArgument,  ///< The caller asked for something impossible.
  kInvalidFile,      ///< A file's content is damaged or contradicts itself.
  kUnsupported,      ///< Valid, but weft cannot do it.
  kNotFound,         ///< A file, device or name does not exist.
  kIo,               ///< Reading or writing failed.
  kOutOfMemory,      ///< Memory of the host or of a device is exhausted.
  kDevice,           ///< A device failed.
  kCancelled,        ///< The caller asked to stop.
  kOverloaded,       ///< Too much is waiting already: try again later.
  kUnavailable,      ///< It is being shut down, or waits for other devices.
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace weft

#pragma GCC visibility pop
