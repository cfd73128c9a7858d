#pragma once
// A client that sends the bytes of a test, and reads responses.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace weft::server {

class RawClient {
 public:
  /// Connects to 127.0.0.1, from the address `from` of this machine. `receive_bytes` limits the
  /// kernel's receive buffer, for clients that do not read.
  explicit RawClient(std::uint16_t port, int receive_bytes = 0, const char* from = nullptr);
  explicit RawClient(const std::string& unix_path);
  /// A socket that is not connected yet.
  RawClient();
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connect(std::uint16_t port);
  bool connected() const { return socket_ >= 0; }
  /// False if the server has closed.
  bool send(std::string_view bytes);
  void end_sending();
  /// Closes the socket. With `reset` the server sees an error instead of an end.
  void close(bool reset = false);

  struct Response {
    int status = 0;                              ///< 0: no response came.
    std::map<std::string, std::string> headers;  ///< Names in lower case.
    std::string body;
    bool complete = false;  ///< The body ended as its head announced.
  };
  Response read_response(bool head_only = false);
  /// Reads until `bytes` bytes have come, or the end; they stay for read_response().
  std::string_view peek(std::size_t bytes);
  /// The bytes up to the string `end`, or to the end of the connection.
  std::string read_until(std::string_view end);
  /// Whether the server has closed without further bytes.
  bool at_end();

 private:
  bool fill();
  std::string take(std::size_t bytes);

  int socket_ = -1;
  std::string received_;
};

/// "GET /path HTTP/1.1" with a Host and these headers ("Name: value\r\n" each).
std::string get(std::string_view path, std::string_view headers = "");
std::string post(std::string_view path, std::string_view body, std::string_view headers = "");

}  // namespace weft::server
