#pragma once
// GET over HTTP and HTTPS: small answers as a whole, and large files in parts side by side.
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
  std::string etag = {};   ///< Of a file that is got in parts: another one is an error. May be empty.
  std::int64_t size = -1;  ///< The same of its size; -1: not known.
};

struct Answer {
  long status = 0;
  std::string body = {};
  std::map<std::string, std::string> headers = {};  ///< Of the last answer; names in lower case.
};

/// What is asked while a transfer runs, several times a second; false ends it, and so does what it throws.
using KeepGoing = std::function<bool()>;

struct RetryParams {
  int n_tries = 5;                                ///< In a row that bring nothing, of each part of a file.
  std::chrono::milliseconds first_wait{500};      ///< Doubles with each.
  std::chrono::milliseconds longest_wait{60000};  ///< What a server may ask for with Retry-After.
};

/// Follows redirects. Answers that ask to come back later (429, 503), other errors of servers (5xx) and
/// connections that break are tried again. Throws Error kIo that names the host where that does not help or
/// the body is larger than `max_bytes`, kCancelled.
Answer get(const Request& request, std::size_t max_bytes, const KeepGoing& keep_going,
           const RetryParams& retry = {});

/// A part of a file that was asked for.
struct Range {
  std::int64_t begin = 0, end = 0;
};

/// Where a file's bytes go. Called by the thread that waits for the transfer.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Bytes of a part, one behind the other.
  virtual void write(std::int64_t offset, const char* data, std::size_t n) = 0;
  virtual void done(const Range& range) = 0;  ///< All of the part was written.
};

struct Probe {
  bool ranges = false;       ///< Parts of the file can be asked for.
  std::int64_t size = -1;    ///< Of the whole; -1: not told.
  std::string etag = {};     ///< Without quotes; what it was when it changes.
  bool strong_etag = false;  ///< Equal ones mean equal bytes.
};
/// Asks for the file's first byte. Throws Error as get, kNotFound and kInvalidArgument (credentials, a web
/// page instead of a file) too.
Probe probe(const Request& request, const KeepGoing& keep_going, const RetryParams& retry = {});

/// Gets these parts of a file, `n_connections` at a time. A connection that breaks goes on where it was. With
/// `whole` the file is asked for without a range, and there is one part from 0. Throws Error as get; kIo
/// where the answer is not what was asked for.
void get_ranges(const Request& request, std::vector<Range> ranges, bool whole, int n_connections, Sink& sink,
                const KeepGoing& keep_going, const RetryParams& retry = {});

/// What is wrong with an answer, for people. Throws Error kNotFound, kInvalidArgument or kIo.
[[noreturn]] void refuse_status(const Request& request, long status);

}  // namespace weft::fetch
