#pragma once
// The web page as bytes of the program: HTML, styles, scripts and the picture of the tab, made from ui/ when
// weft is built (embed.py). Nothing is read from disk when it is served, and nothing of it changes while weft
// runs, so all of this may be used from any thread.
#include <span>
#include <string_view>

namespace weft::server {

struct WebFile {
  std::string_view path;          ///< What it is asked for by: "/" for the page itself, else "/ui/...".
  std::string_view content_type;  ///< With its charset.
  std::string_view bytes;
  std::string_view gzip;  ///< The same bytes for clients that accept gzip.
  std::string_view etag;  ///< Quoted, as the header has it. Equal bytes have equal tags.
};

/// Sorted by path.
std::span<const WebFile> web_files();

/// The file of a path, or null.
const WebFile* find_web_file(std::string_view path);

/// The value of Content-Security-Policy that the page needs and that its files are written for: scripts,
/// styles and connections of this server only, no inline code, no frames, no HTML made from text.
std::string_view web_content_policy();

}  // namespace weft::server
