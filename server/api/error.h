#pragma once
// An error for a client: a status and the API's error object.
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "http/http_server.h"
#include "json.h"

namespace weft::server {

// Codes of errors 503 of a busy server.
/// Too many requests are being received.
inline constexpr const char* kOverloaded = "overloaded";
/// Models in use leave no memory for the model of a request in the background.
inline constexpr const char* kNoRoom = "no_room";

struct ApiError : std::runtime_error {
  ApiError(int status_in, std::string type_in, std::string code_in, std::string param_in,
           const std::string& message)
      : std::runtime_error(message),
        status(status_in),
        type(std::move(type_in)),
        code(std::move(code_in)),
        param(std::move(param_in)) {}

  int status;
  std::string type;   ///< OpenAI's: "invalid_request_error", ...
  std::string code;   ///< "unknown_parameter", ...; empty: null.
  std::string param;  ///< The field, "messages[0].content"; empty: null.
  double retry_after_ms = 0.0;
  bool is_permanent = false;  ///< Clients that repeat errors 5xx should not repeat this one.
  /// If the prompt is too long: its tokens, the allowed tokens, and the context size. Otherwise 0.
  std::size_t n_prompt = 0, n_most = 0, n_ctx = 0;
};

/// 400. `param` is the field that is wrong, or empty.
ApiError bad_request(std::string param, const std::string& message);

/// 400, context_length_exceeded, with the counts.
ApiError prompt_too_long(std::string param, const std::string& message, std::size_t n_prompt,
                         std::size_t n_most, std::size_t n_ctx);

/// 503, with a time to retry.
ApiError unavailable(std::string code, const std::string& message, double retry_after_ms = 1000.0);

/// 500: the model computed values that are not numbers. `message` names it.
ApiError not_numbers(const std::string& message);

/// The error of a failed request. If it is internal, the client learns only that the server failed; `what`
/// has the message for the log.
ApiError to_api_error(const std::exception_ptr& error);

/// The API whose error objects a client expects.
enum class ErrorShape : std::uint8_t { kOpenAi, kAnthropic, kOllama };
Json error_json(const ApiError& error, ErrorShape shape);
/// With headers for the time to retry.
HttpResponse error_response(const ApiError& error, ErrorShape shape);

}  // namespace weft::server
