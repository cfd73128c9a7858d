#include "address.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

namespace weft::fetch {
namespace {

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Url parsed(const std::string& text) {
  Url url(curl_url(), curl_url_cleanup);
  if (url != nullptr && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) url.reset();
  return url;
}

/// Empty: there is none.
std::string part_of(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (url == nullptr || curl_url_get(url.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, curl_free);
  return text;
}

}  // namespace

std::string without_user(std::string_view url) {
  const std::size_t mark = url.find("://");
  const std::size_t begin = mark == url.npos ? 0 : mark + 3;
  const std::size_t user = url.substr(0, url.find_first_of("/?#", begin)).rfind('@');
  const std::size_t rest = user == url.npos || user < begin ? begin : user + 1;
  return std::string(url.substr(0, begin)) + std::string(url.substr(rest));
}

std::string shown_address(std::string_view url) {
  return without_user(url.substr(0, url.find_first_of("?#")));
}

std::string host_of(std::string_view url) {
  const std::string shown = shown_address(url);
  const std::size_t begin = shown.find("://") == shown.npos ? 0 : shown.find("://") + 3;
  return shown.substr(begin, shown.find('/', begin) - begin);
}

std::string resolved(const std::string& base, const std::string& link) {
  const Url url = parsed(base);
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, link.c_str(), 0) != CURLUE_OK) return {};
  return part_of(url, CURLUPART_URL);
}

bool same_origin(const std::string& one, const std::string& other) {
  const Url first = parsed(one), second = parsed(other);
  if (first == nullptr || second == nullptr) return false;
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT})
    if (part_of(first, part) != part_of(second, part)) return false;
  return true;
}

std::string escaped(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-_.~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace weft::fetch
