#pragma once
// A client that sends bytes as a test has them, and reads what comes back.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace weft::server {

class RawClient {
 public:
  /// To 127.0.0.1, from the address `from` of this machine. With `receive_bytes` the kernel holds little for
  /// a client that does not read.
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
  /// False where the server has closed.
  bool send(std::string_view bytes);
  void end_sending();
  /// Closes; with `reset` so that the server's side sees an error instead of an end.
  void close(bool reset = false);

  struct Answer {
    int status = 0;                              ///< 0: none came.
    std::map<std::string, std::string> headers;  ///< Names in lower case.
    std::string body;
    bool complete = false;  ///< Its end came as its head had promised.
  };
  Answer read_answer(bool head_only = false);
  /// Reads until there are so many bytes, or the end; they stay for read_answer().
  std::string_view peek(std::size_t bytes);
  /// What comes until the text `end`, or the end.
  std::string read_until(std::string_view end);
  /// Whether the server has closed and sent nothing more.
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
