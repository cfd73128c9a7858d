#include "model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "weft/error.h"

namespace weft::fetch {
namespace {

constexpr std::size_t kMaxName = 512;

struct Prefix {
  std::string_view text;
  Hub hub;
};
constexpr std::array<Prefix, 12> kPrefixes = {{{"https://huggingface.co/", Hub::kHuggingFace},
                                               {"https://hf.co/", Hub::kHuggingFace},
                                               {"huggingface.co/", Hub::kHuggingFace},
                                               {"hf.co/", Hub::kHuggingFace},
                                               {"https://www.modelscope.cn/models/", Hub::kModelScope},
                                               {"https://modelscope.cn/models/", Hub::kModelScope},
                                               {"modelscope.cn/", Hub::kModelScope},
                                               {"https://ollama.com/", Hub::kOllama},
                                               {"registry.ollama.ai/", Hub::kOllama},
                                               {"ollama.com/", Hub::kOllama},
                                               {"ollama://", Hub::kOllama},
                                               {"ollama:", Hub::kOllama}}};

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '+' || c == '=' || c == '@' || c == ',' || c == ' ' || c == '(' || c == ')';
}

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is no model's name; names are USER/REPO or USER/REPO:Q4_K_M (Hugging Face), "
                          "ollama:NAME:TAG, modelscope.cn/USER/REPO, or an address https://.../FILE.gguf",
                          text.substr(0, kMaxName)));
}

ModelName parse_url(std::string_view text) {
  const std::string_view path = text.substr(0, text.find_first_of("?#"));
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (!file.ends_with(".gguf") || !is_plain_path(file) || text.find_first_of(" \t\r\n") != text.npos)
    refuse(text);
  return {.hub = Hub::kUrl, .repo = std::string(text), .file = std::string(file)};
}

}  // namespace

bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxName) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part.front() == '.' || !std::all_of(part.begin(), part.end(), is_plain_character))
      return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool names_hub(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://") ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](const Prefix& p) { return text.starts_with(p.text); });
}

ModelName parse_model_name(std::string_view text) {
  ModelName name;
  std::string_view rest = text;
  if (text.size() > kMaxName) refuse(text);
  const auto* const prefix = std::find_if(kPrefixes.begin(), kPrefixes.end(),
                                          [&](const Prefix& p) { return text.starts_with(p.text); });
  if (prefix != kPrefixes.end()) {
    // An address of one file of a repository.
    if (prefix->text.starts_with("https://") && text.ends_with(".gguf")) return parse_url(text);
    name.hub = prefix->hub;
    rest.remove_prefix(prefix->text.size());
  } else if (text.starts_with("https://") || text.starts_with("http://")) {
    return parse_url(text);
  }
  const std::size_t colon = rest.find(':');
  if (colon != rest.npos) {
    const std::string_view tag = rest.substr(colon + 1);
    const bool is_file = tag.ends_with(".gguf");
    if (!is_plain_path(tag) || (!is_file && tag.find('/') != tag.npos)) refuse(text);
    (is_file ? name.file : name.tag) = tag;
    rest = rest.substr(0, colon);
  }
  name.repo = rest;
  const auto slashes = std::count(rest.begin(), rest.end(), '/');
  if (name.hub == Hub::kOllama && slashes == 0) name.repo = "library/" + name.repo;
  if (!is_plain_path(rest) || slashes > 1 || (slashes == 0 && name.hub != Hub::kOllama)) refuse(text);
  return name;
}

std::string ModelName::text() const {
  std::string text = hub == Hub::kOllama ? "ollama:" : hub == Hub::kModelScope ? "modelscope.cn/" : "";
  text += hub == Hub::kOllama && repo.starts_with("library/") ? repo.substr(repo.find('/') + 1) : repo;
  const std::string& which = tag.empty() ? file : tag;
  return which.empty() || hub == Hub::kUrl ? text : text + ":" + which;
}

std::string ModelName::folder() const {
  switch (hub) {
    case Hub::kHuggingFace:
      return "huggingface.co/" + repo;
    case Hub::kModelScope:
      return "modelscope.cn/" + repo;
    case Hub::kOllama:
      return "ollama.com/" + repo;
    case Hub::kUrl:
      break;
  }
  // The host and the path, as far as they may be folders.
  std::string_view path = std::string_view(repo).substr(repo.find("://") + 3);
  path = path.substr(0, path.substr(0, path.find_first_of("?#")).rfind('/'));
  std::string folder;
  for (const char c : path) folder += is_plain_character(c) || c == '/' ? c : '_';
  return is_plain_path(folder) ? folder : "elsewhere";
}

std::string ModelName::key() const {
  std::string key = !file.empty() ? file : tag.empty() ? std::string("default") : tag;
  std::replace(key.begin(), key.end(), '/', '_');
  return key;
}

}  // namespace weft::fetch
