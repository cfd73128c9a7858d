#pragma once
// multipart/form-data (RFC 7578), read piece by piece with bounded memory and in linear time.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft::server {

/// The boundary in a Content-Type. Nullopt unless the type is multipart/form-data with a boundary of 1 to 70
/// characters.
std::optional<std::string> boundary_of(std::string_view content_type);

/// The head of a part.
struct FormPart {
  std::string name = {};
  std::optional<std::string> filename = std::nullopt;  ///< Any string: never use it as a path.
};

/// Receives the parts of a form in their order. It may throw to end the reading.
class FormHandler {
 public:
  virtual ~FormHandler() = default;
  virtual void begin_part(FormPart part) = 0;
  virtual void add(std::string_view bytes) = 0;  ///< The next bytes of the part's content; any number.
  virtual void end_part() = 0;
};

/// Used by one thread at a time. After an exception it must not be used again.
class MultipartReader {
 public:
  static constexpr std::size_t kMostHeadBytes = 16 << 10;  ///< Of the headers of a part.
  static constexpr int kMostParts = 64;

  /// The handler must outlive it.
  MultipartReader(std::string_view boundary, FormHandler& handler);
  /// The next bytes of the body. Throws ApiError 400, and what the handler throws.
  void read(std::string_view bytes);
  /// The body has ended. Throws ApiError 400 if its final boundary is missing.
  void finish() const;

 private:
  enum class State {
    kPreamble,  ///< Before the first boundary.
    kBoundary,  ///< After a boundary: the end of its line follows, or "--".
    kHead,      ///< In the headers of a part.
    kContent,
    kEpilogue,  ///< After the final boundary.
  };
  bool step();
  bool read_content();
  bool read_boundary_end();
  bool read_head();

  const std::string delimiter_;  ///< With the line break before it.
  FormHandler& handler_;
  std::string unread_ = "\r\n";  ///< The first boundary need not follow a line break.
  std::size_t n_read_ = 0;       ///< Of unread_.
  State state_ = State::kPreamble;
  int n_parts_ = 0;
};

}  // namespace weft::server
