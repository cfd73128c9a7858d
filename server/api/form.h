#pragma once
// Requests whose body is a form (multipart/form-data) with a file, such as audio. The body is read piece by
// piece, so it may be larger than other bodies.
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "files/multipart.h"
#include "http/http_server.h"
#include "json.h"

namespace weft::server {

struct Form {
  /// The other parts. Each is a string, but "temperature" is a number and "stream" a boolean where they look
  /// like one. Parts "NAME[]" are the elements of an array NAME.
  Json fields = Json::object();
  std::optional<std::string> file = std::nullopt;  ///< The content of the part "file".
};

class FormSink final : public BodySink, private FormHandler {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{128} << 20;
  static constexpr std::size_t kMostHeld = std::size_t{1} << 30;  ///< Of all forms together; more get a 503.

  /// `held`: the bytes of all forms.
  FormSink(std::string_view boundary, std::shared_ptr<std::atomic<std::size_t>> held)
      : reader_(boundary, *this), held_(std::move(held)) {}
  ~FormSink() override { *held_ -= n_held_; }

  std::uint64_t max_bytes() const override { return kMostBytes; }
  void put(std::string piece, std::function<void()> taken) override;
  /// Once all pieces are taken. Throws ApiError for a damaged form, and for parts other than the file that
  /// are long.
  Form take();

 private:
  void begin_part(FormPart part) override;
  void add(std::string_view bytes) override;
  void end_part() override;

  MultipartReader reader_;
  const std::shared_ptr<std::atomic<std::size_t>> held_;
  std::size_t n_held_ = 0;
  Form form_;
  std::string name_, value_;  ///< Of the current part.
  std::exception_ptr error_;  ///< The rest of the body is dropped.
};

/// The form of a request, which its sink has read. Throws ApiError 400 for any other body.
Form take_form(const HttpRequest& request);

}  // namespace weft::server
