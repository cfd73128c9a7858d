#include "http/request_parser.h"

namespace weft::server {
namespace {

std::string bytes_text(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

Refusal body_too_large(std::uint64_t body_bytes) {
  return {413, "the request body has more than " + bytes_text(body_bytes)};
}

Refusal refusal_of(const error_code& error, const HttpParams& params, std::uint64_t body_bytes) {
  if (error == http::error::header_limit)
    return {431, "the request headers have more than " + bytes_text(params.header_bytes)};
  if (error == http::error::body_limit) return body_too_large(body_bytes);
  if (error == boost::system::errc::not_enough_memory)
    return {503, "too many large requests at the same time; try again later"};
  if (error == http::error::bad_version)
    return {505, "malformed request: the version must be HTTP/1.1 or HTTP/1.0"};
  return {400, "malformed request: " + error.message()};
}

std::optional<Refusal> check_head(const http::request_header<>& head, const std::optional<Target>& target) {
  const bool old_client = head.version() < 11;
  if (!target) return Refusal{400, "malformed request: the target is not a path, or has an invalid escape"};
  const std::size_t n_hosts = head.count(http::field::host);
  if (n_hosts > 1 || (n_hosts == 0 && !old_client))
    return Refusal{400, "malformed request: there must be one Host header"};
  if (head.count(http::field::origin) > 1)
    return Refusal{400, "malformed request: more than one Origin header"};
  const std::string_view length(head[http::field::content_length].data(),
                                head[http::field::content_length].size());
  if (head.count(http::field::content_length) > 1 || length.find(',') != length.npos)
    return Refusal{400, "malformed request: more than one Content-Length"};
  if (head.count(http::field::transfer_encoding) > 0) {
    if (old_client || head.count(http::field::content_length) > 0)
      return Refusal{400,
                     "malformed request: Transfer-Encoding with HTTP/1.0, or together with Content-Length"};
    if (head.count(http::field::transfer_encoding) > 1 ||
        !same_word(head[http::field::transfer_encoding], "chunked"))
      return Refusal{501, "the only supported Transfer-Encoding is chunked"};
  }
  if (head.count(http::field::content_encoding) > 0 &&
      !same_word(head[http::field::content_encoding], "identity"))
    return Refusal{415, "Content-Encoding is not supported; send the body without it"};
  if (head.count(http::field::expect) > 0 && !same_word(head[http::field::expect], "100-continue"))
    return Refusal{417, "the only supported Expect is 100-continue"};
  return std::nullopt;
}

}  // namespace weft::server
