#pragma once
// The web page as bytes of the program: HTML, styles, scripts and the icon, embedded from ui/ when weft is
// built (embed.py). Nothing is read from disk at run time. The bytes are constant, so any thread may use
// them.
#include <span>
#include <string_view>

namespace weft::server {

struct WebFile {
  std::string_view path;          ///< The path of its URL: "/" for the page itself, otherwise "/ui/...".
  std::string_view content_type;  ///< With its charset.
  std::string_view bytes;
  std::string_view gzip;  ///< The same bytes for clients that accept gzip.
  std::string_view etag;  ///< Quoted, as the header has it. Equal bytes have equal tags.
};

/// Sorted by path.
std::span<const WebFile> web_files();

/// The file of a path, or null.
const WebFile* find_web_file(std::string_view path);

/// The Content-Security-Policy of the page. It allows scripts, styles and connections of this server only. It
/// forbids inline code, frames and HTML made from strings.
std::string_view web_content_policy();

}  // namespace weft::server
