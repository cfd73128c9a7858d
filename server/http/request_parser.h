#pragma once
// Beast's parser as the server uses it: the storage of bodies, and the requests that are refused. Boost: for
// the server's own files.
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <optional>
#include <string>

#include "http/active_response.h"
#include "http/http_text.h"

namespace weft::server {

namespace http = boost::beast::http;
using boost::system::error_code;

/// A body that grows as its bytes arrive, not to the announced length, within the limit of all bodies.
struct HeldBody {
  struct value_type {
    std::string text;
    BodyShare share;
  };
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& error) {
      const std::size_t size = boost::asio::buffer_size(buffers);
      error = {};
      if (!body_.share.grow(size)) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
        return 0;
      }
      const std::size_t old_size = body_.text.size();
      body_.text.resize(old_size + size);
      return boost::asio::buffer_copy(boost::asio::buffer(body_.text.data() + old_size, size), buffers);
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};
using Parser = http::request_parser<HeldBody>;

/// Why a request is refused.
struct Refusal {
  int status;
  std::string reason;
};

/// `body_bytes`: the limit of this request's body.
Refusal refusal_of(const error_code& error, const HttpParams& params, std::uint64_t body_bytes);
Refusal body_too_large(std::uint64_t body_bytes);

/// The checks that Beast leaves to its user, above all of the body's end: a proxy that reads it differently
/// sees another request (request smuggling).
std::optional<Refusal> check_head(const http::request_header<>& head, const std::optional<Target>& target);

}  // namespace weft::server
