#pragma once
// systemd's protocols for services: passed sockets and notifications. Without systemd they return nothing and
// do nothing. See sd_listen_fds(3), sd_notify(3).
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

struct PassedSocket {
  int descriptor = -1;
  std::string name;  ///< FileDescriptorName= of the unit, else "unknown".
};

/// Returns the sockets that this process was started with (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES); the
/// caller owns them. Sets close-on-exec and removes the variables, so child processes and a second call get
/// none. Call it before starting threads. Throws Error kInvalidArgument if a descriptor is not a listening
/// stream socket, or a variable is invalid.
std::vector<PassedSocket> take_listening_sockets();

/// Reports the service's state to the manager (Type=notify). Errors are ignored. ready() and stopping() wait
/// up to a second for a busy manager; the others do not wait. May be called from any thread.
class ServiceNotifier {
 public:
  /// Connects to $NOTIFY_SOCKET, if set.
  ServiceNotifier();
  /// Connects to `address`: a path, "@NAME" for an abstract socket, or empty for no connection.
  explicit ServiceNotifier(std::string_view address);
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  bool connected() const { return descriptor_ >= 0; }
  void ready(std::string_view status);
  void status(std::string_view text);  ///< Sends the first line of `text`.
  void stopping(std::string_view status);
  /// Extends the unit's timeout for starting or stopping by `time` from now on.
  void extend_timeout(std::chrono::milliseconds time);

 private:
  void send(std::string_view message, bool wait);

  int descriptor_ = -1;
};

}  // namespace weft::cli
