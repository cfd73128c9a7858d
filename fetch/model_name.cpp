#include "model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "address.h"
#include "base/hash.h"
#include "weft/error.h"

namespace weft::fetch {
namespace {

constexpr std::size_t kMaxName = 512, kMaxAddress = 8192;  // Signed addresses are long.
constexpr std::size_t kHashDigits = 12;

/// A prefix of a hub's names. If it begins with a host, "https://" may precede it.
struct Prefix {
  std::string_view text;
  Hub hub;
  bool is_host = true;
};
constexpr std::array<Prefix, 10> kPrefixes = {{{"huggingface.co/", Hub::kHuggingFace},
                                               {"hf.co/", Hub::kHuggingFace},
                                               {"www.modelscope.cn/models/", Hub::kModelScope},
                                               {"modelscope.cn/models/", Hub::kModelScope},
                                               {"www.modelscope.cn/", Hub::kModelScope},
                                               {"modelscope.cn/", Hub::kModelScope},
                                               {"registry.ollama.ai/", Hub::kOllama},
                                               {"ollama.com/", Hub::kOllama},
                                               {"ollama://", Hub::kOllama, false},
                                               {"ollama:", Hub::kOllama, false}}};

/// The format of a hub's file URLs: USER/REPO, one of `pages`, a branch, the file. Some pages return a
/// description of the file instead of the file.
struct FileAddresses {
  Hub hub;
  std::string_view host;
  std::array<std::string_view, 3> pages;
  std::string_view branch;  // That which names of models mean.
};
constexpr std::array<FileAddresses, 2> kFileAddresses = {
    {{Hub::kHuggingFace, "https://huggingface.co/", {"/resolve/", "/blob/", "/raw/"}, "main"},
     {Hub::kModelScope, "https://modelscope.cn/models/", {"/resolve/", "/file/view/", "/file/"}, "master"}}};

std::string_view without_scheme(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (text.starts_with(scheme)) return text.substr(scheme.size());
  return text;
}

const Prefix* prefix_of(std::string_view text) {
  const std::string_view rest = without_scheme(text);
  const bool is_address = rest.size() != text.size();
  const auto* const found = std::find_if(kPrefixes.begin(), kPrefixes.end(), [&](const Prefix& p) {
    return rest.starts_with(p.text) && (p.is_host || !is_address);
  });
  return found != kPrefixes.end() ? found : nullptr;
}

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '+' || c == '=' || c == '@' || c == ',' || c == ' ' || c == '(' || c == ')';
}

std::string hash_of(std::string_view text) {
  return fmt::format("{:016x}", base::hash64(std::as_bytes(std::span(text)))).substr(0, kHashDigits);
}

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not a model name; valid are USER/REPO or USER/REPO:Q4_K_M (Hugging Face), "
                          "ollama:NAME:TAG, modelscope.cn/USER/REPO, and URLs https://.../FILE.gguf",
                          shown_address(text).substr(0, kMaxName)));
}

ModelName parse_url(std::string_view text) {
  const std::string_view path = text.substr(0, text.find_first_of("?#"));
  const std::string file = unescaped(path.substr(path.rfind('/') + 1));
  if (!file.ends_with(".gguf") || !is_plain_path(file) || file.find('/') != file.npos ||
      host_of(text).empty() || text.find_first_of(" \t\r\n") != text.npos)
    refuse(text);
  return {.hub = Hub::kUrl, .repo = std::string(text), .file = file};
}

/// The file that an address below the hub's host means, if it is one: "USER/REPO/blob/main/FILE.gguf".
std::optional<ModelName> parse_file_address(Hub hub, std::string_view path) {
  for (const FileAddresses& known : kFileAddresses) {
    const std::size_t user = path.find('/');
    const std::size_t page = user == path.npos ? path.npos : path.find('/', user + 1);
    if (known.hub != hub || page == path.npos) continue;
    for (const std::string_view text : known.pages) {
      if (!path.substr(page).starts_with(text)) continue;
      const std::string_view repo = path.substr(0, page);
      const std::string_view rest = path.substr(page + text.size());  // "BRANCH/FILE"
      const std::size_t slash = rest.find('/');
      if (slash == rest.npos || !rest.ends_with(".gguf") || !is_plain_path(repo)) return std::nullopt;
      const std::string file = unescaped(rest.substr(slash + 1));
      if (rest.substr(0, slash) != known.branch || !is_plain_path(file))
        return parse_url(fmt::format("{}{}/resolve/{}", known.host, repo, rest));
      return ModelName{.hub = hub, .repo = std::string(repo), .file = file};
    }
  }
  return std::nullopt;
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
  return without_scheme(text).size() != text.size() || prefix_of(text) != nullptr;
}

ModelName parse_model_name(std::string_view text) {
  ModelName name;
  std::string_view rest = without_scheme(text);
  const bool is_address = rest.size() != text.size();
  if (text.size() > (is_address ? kMaxAddress : kMaxName)) refuse(text);
  const Prefix* const prefix = prefix_of(text);
  if (is_address && prefix == nullptr) return parse_url(text);
  if (prefix != nullptr) {
    name.hub = prefix->hub;
    rest.remove_prefix(prefix->text.size());
    if (prefix->is_host) rest = rest.substr(0, rest.find_first_of("?#"));
    if (auto file = parse_file_address(name.hub, rest)) return *std::move(file);
    if (is_address && rest.ends_with(".gguf") && rest.find(':') == rest.npos) return parse_url(text);
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
  if (hub == Hub::kUrl) return shown_address(repo);
  std::string text = hub == Hub::kOllama ? "ollama:" : hub == Hub::kModelScope ? "modelscope.cn/" : "";
  text += hub == Hub::kOllama && repo.starts_with("library/") ? repo.substr(repo.find('/') + 1) : repo;
  const std::string& which = tag.empty() ? file : tag;
  return which.empty() ? text : text + ":" + which;
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
  // The host and path, if they are valid as folders, with a hash if the rest of the URL differs.
  const std::string address = shown_address(repo);
  const std::string_view path = without_scheme(address);
  std::string folder;
  for (const char c : path.substr(0, path.rfind('/'))) folder += is_plain_character(c) || c == '/' ? c : '_';
  if (!is_plain_path(folder)) folder = "elsewhere";
  const std::string whole = without_user(repo);
  return whole == "https://" + folder + "/" + file ? folder : folder + "-" + hash_of(whole);
}

std::string ModelName::key() const {
  std::string key = !file.empty() ? file : tag.empty() ? std::string("default") : tag;
  if (key.find('/') == key.npos) return key;
  const std::string hash = hash_of(key);
  std::replace(key.begin(), key.end(), '/', '_');
  return key + "-" + hash;
}

}  // namespace weft::fetch
