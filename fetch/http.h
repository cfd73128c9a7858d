#pragma once
// GET over HTTP and HTTPS: small responses as a whole, large files in parallel parts.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::fetch {

struct Request {
  std::string url = {};
  std::string token = {};  ///< Sent as a bearer token, to the host of `url` only; may be empty.
  std::string etag = {};   ///< For a file in parts: a different ETag is an error. May be empty.
  std::int64_t size = -1;  ///< The same for its size; -1: not known.
};

struct Response {
  long status = 0;
  std::string body = {};
  std::map<std::string, std::string> headers = {};  ///< Headers of the last response; names in lower case.
};

/// Called several times a second during a transfer; returning false or throwing ends it.
using KeepGoing = std::function<bool()>;

struct RetryParams {
  int n_tries = 5;                                ///< Failed tries in a row, for each part of a file.
  std::chrono::milliseconds first_wait{500};      ///< Doubles with each try.
  std::chrono::milliseconds longest_wait{60000};  ///< The longest accepted Retry-After.
};

/// Follows redirects. Repeats the request after a 429 or 503 response, other server errors (5xx) and broken
/// connections. Throws Error kIo that names the host if that does not help or the body is larger than
/// `max_bytes`, and kCancelled.
Response get(const Request& request, std::size_t max_bytes, const KeepGoing& keep_going,
             const RetryParams& retry = {});

/// A requested part of a file.
struct Range {
  std::int64_t begin = 0, end = 0;
};

/// Receives a file's bytes. Called by the thread that waits for the transfer.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called for the bytes of a part, in order.
  virtual void write(std::int64_t offset, const char* data, std::size_t n) = 0;
  virtual void done(const Range& range) = 0;  ///< All of the part was written.
};

struct Probe {
  bool ranges = false;       ///< The server supports ranges.
  std::int64_t size = -1;    ///< Size of the whole file; -1: unknown.
  std::string etag = {};     ///< Without quotes; changes with the file.
  bool strong_etag = false;  ///< Equal ones mean equal bytes.
};
/// Requests the file's first byte. Throws Error as get, kNotFound and kInvalidArgument (credentials, a web
/// page instead of a file) too.
Probe probe(const Request& request, const KeepGoing& keep_going, const RetryParams& retry = {});

/// Downloads these parts of a file, `n_connections` at a time. A broken connection resumes where it was. With
/// `whole` the request has no range, and there is one part from 0. Throws Error as get, and kIo if the
/// response does not match the request.
void get_ranges(const Request& request, std::vector<Range> ranges, bool whole, int n_connections, Sink& sink,
                const KeepGoing& keep_going, const RetryParams& retry = {});

/// Reports an error status with a message for users. Throws Error kNotFound, kInvalidArgument or kIo.
[[noreturn]] void refuse_status(const Request& request, long status);

}  // namespace weft::fetch
