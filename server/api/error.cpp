#include "api/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "weft/batcher.h"
#include "weft/error.h"
#include "weft/not_numbers.h"

namespace weft::server {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// Anthropic's error type for a status.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

ApiError from_error(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return bad_request("", error.what());
    case ErrorCode::kOverloaded: {
      ApiError result(429, "rate_limit_error", kOverloaded, "", error.what());
      const auto* overloaded = dynamic_cast<const OverloadedError*>(&error);
      result.retry_after_ms = overloaded != nullptr ? std::max(1.0, overloaded->retry_after_ms) : 1000.0;
      return result;
    }
    case ErrorCode::kCancelled:
      return unavailable("cancelled", "the server is shutting down");
    case ErrorCode::kUnavailable:
      return unavailable("unavailable", error.what());
    case ErrorCode::kOutOfMemory:
      return {503, "server_error", "out_of_memory", "", error.what()};
    default:
      return {500, "server_error", "internal_error", "", error.what()};
  }
}

}  // namespace

ApiError unavailable(std::string code, const std::string& message, double retry_after_ms) {
  ApiError error(503, "server_error", std::move(code), "", message);
  error.retry_after_ms = retry_after_ms;
  return error;
}

ApiError not_numbers(const std::string& message) { return {500, "server_error", "not_numbers", "", message}; }

ApiError bad_request(std::string param, const std::string& message) {
  return {400, "invalid_request_error", "", std::move(param), message};
}

ApiError prompt_too_long(std::string param, const std::string& message, std::size_t n_prompt,
                         std::size_t n_most, std::size_t n_ctx) {
  ApiError error = bad_request(std::move(param), message);
  error.code = "context_length_exceeded";
  error.n_prompt = n_prompt;
  error.n_most = n_most;
  error.n_ctx = n_ctx;
  return error;
}

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& known) {
    return known;
  } catch (const NotNumbersError& known) {
    return not_numbers(known.what());
  } catch (const Error& known) {
    return from_error(known);
  } catch (const std::bad_alloc&) {
    return {503, "server_error", "out_of_memory", "",
            "the server is out of memory for this request; try again later"};
  } catch (const std::exception& unknown) {
    return {500, "server_error", "internal_error", "", unknown.what()};
  }
}

Json error_json(const ApiError& error, ErrorShape shape) {
  // Internal errors are for the log.
  std::string message = error.code == "internal_error"
                            ? "internal server error; the access log has the reason (--access-log)"
                            : error.what();
  if (shape == ErrorShape::kAnthropic) {
    // Clients search for these words and numbers.
    if (error.n_prompt > 0)
      message = fmt::format("prompt is too long: {} tokens > {} maximum", error.n_prompt, error.n_most);
    return {{"type", "error"}, {"error", {{"type", anthropic_type(error.status)}, {"message", message}}}};
  }
  if (shape == ErrorShape::kOllama) return {{"error", message}};
  Json json = {{"message", message},
               {"type", error.type},
               {"param", text_or_null(error.param)},
               {"code", text_or_null(error.code)}};
  if (error.n_prompt > 0) {  // As llama.cpp's server has them.
    json["n_prompt_tokens"] = error.n_prompt;
    json["n_ctx"] = error.n_ctx;
  }
  return {{"error", std::move(json)}};
}

HttpResponse error_response(const ApiError& error, ErrorShape shape) {
  HttpResponse answer;
  answer.status = error.status;
  answer.body = to_text(error_json(error, shape));
  if (error.retry_after_ms > 0.0) {
    // The standard header has seconds; OpenAI's and Anthropic's clients also read milliseconds.
    answer.headers.emplace_back("Retry-After",
                                fmt::format("{:.0f}", std::ceil(error.retry_after_ms / 1000.0)));
    answer.headers.emplace_back("Retry-After-Ms", fmt::format("{:.0f}", std::ceil(error.retry_after_ms)));
  }
  // OpenAI's and Anthropic's clients read it.
  if (error.is_permanent) answer.headers.emplace_back("X-Should-Retry", "false");
  answer.is_overload = error.status == 429 || error.code == kOverloaded || error.code == kNoRoom;
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

}  // namespace weft::server
