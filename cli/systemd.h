#pragma once
// What a service tells systemd, and the sockets that it gets from it. Without systemd there are none, and
// what is told goes nowhere. The protocols: sd_listen_fds(3), sd_notify(3).
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

struct PassedSocket {
  int descriptor = -1;
  std::string name;  ///< FileDescriptorName= of the unit, else "unknown".
};

/// The sockets that this process was started with (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES), which are now the
/// caller's. Closed in processes that this one starts; the variables are removed for these, too, so that a
/// second call finds nothing. Call it before there are threads. Throws Error kInvalidArgument where a
/// descriptor is no stream socket that listens, or the variables make no sense.
std::vector<PassedSocket> take_listening_sockets();

/// Tells the manager what the service is about to do (Type=notify). What cannot be delivered is dropped, as
/// no service should fail for that: ready() and stopping() wait a second for a manager that is busy, the
/// others do not wait. May be called from any thread.
class ServiceNotifier {
 public:
  /// Where NOTIFY_SOCKET says, if it is set.
  ServiceNotifier();
  /// To that address: a path, or "@NAME" for an abstract one; empty: nowhere.
  explicit ServiceNotifier(std::string_view address);
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  bool connected() const { return descriptor_ >= 0; }
  void ready(std::string_view status);
  void status(std::string_view text);  ///< One line; what lies behind a newline is left out.
  void stopping(std::string_view status);
  /// Starting or stopping takes this much longer than the unit allows, from now on.
  void extend_timeout(std::chrono::milliseconds time);

 private:
  void send(std::string_view message, bool wait);

  int descriptor_ = -1;
};

}  // namespace weft::cli
