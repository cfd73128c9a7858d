// Since 0.1
#pragma once
// Errors of weft. A wrong argument, a damaged file, a failed device or missing memory throws Error. Its
// message has the expected and the actual value, and says what to do. Expected outcomes, such as a full
// cache, are return values. No input aborts the process. If the host lacks memory for small objects,
// std::bad_alloc is thrown.
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace weft {

enum class ErrorCode {
  kInvalidArgument,  ///< A wrong argument.
  kInvalidFile,      ///< A file's content is damaged or contradicts itself.
  kUnsupported,      ///< Valid, but weft cannot do it.
  kNotFound,         ///< A file, device or name does not exist.
  kIo,               ///< Reading or writing failed.
  kOutOfMemory,      ///< Memory of the host or of a device is exhausted.
  kDevice,           ///< A device failed.
  kCancelled,        ///< The caller asked to stop.
  kOverloaded,       ///< The queue is full: try again later.
  kUnavailable,      ///< The service is shutting down, or waits for lost devices.
};
/// "invalid_argument", "invalid_file", "unsupported", "not_found", "io", "out_of_memory", "device",
/// "cancelled", "overloaded", "unavailable"
std::string_view to_string(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace weft

#pragma GCC visibility pop
