#include "hubs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "address.h"
#include "base/json.h"
#include "base/to_size.h"
#include "split_name.h"
#include "weft/error.h"

namespace weft::fetch {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxListing = std::size_t{32} << 20;
constexpr int kMaxPages = 50;
constexpr std::size_t kMostNamed = 40;
// The order of preference without a tag: small and good types first, then similar ones.
constexpr std::array<std::string_view, 14> kPreferred = {"q4_k_m", "q4_k_s", "q4_0", "iq4_nl", "iq4_xs",
                                                         "mxfp4",  "q5_k_m", "q5_0", "q6_k",   "q8_0",
                                                         "q3_k_m", "bf16",   "f16",  "f32"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  std::string text = value != nullptr && *value != '\0' ? value : otherwise;
  while (text.ends_with('/')) text.pop_back();
  if (!text.empty() && text.find("://") == text.npos && name != std::string_view("HF_TOKEN"))
    text = "https://" + text;
  return text;
}

bool is_sum(const std::string& text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c); });
}

std::string string_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>()
                                                                       : std::string();
}

std::int64_t number_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                                               : -1;
}

Json parse(const Response& answer, const std::string& url) {
  try {
    return base::parse_json<Json>(answer.body);
  } catch (const base::JsonError& error) {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the response is not JSON: {}", shown_address(url), error.what()));
  }
}

/// A file of a listing, if it may be one of a model.
void add_file(std::vector<RemoteFile>& files, const std::string& path, Request request, std::int64_t size,
              const std::string& sum) {
  if (!lower(path).ends_with(".gguf") || !is_plain_path(path)) return;
  files.push_back({path, std::move(request), size, is_sum(sum) ? lower(sum) : std::string()});
}

/// The URL of a listing's next page, from a Link header; empty: there is none.
std::string next_page(const Response& answer, const std::string& url) {
  const auto found = answer.headers.find("link");
  if (found == answer.headers.end()) return {};
  const std::string& link = found->second;
  const std::size_t rel = link.find("rel=\"next\"");
  const std::size_t end = link.rfind('>', rel), begin = link.rfind('<', end);
  if (rel == link.npos || end == link.npos || begin == link.npos) return {};
  const std::string next = resolved(url, link.substr(begin + 1, end - begin - 1));
  // The token goes to no other host.
  if (!same_origin(next, url))
    throw Error(ErrorCode::kIo, fmt::format("{}: the file list continues at {}, on another host, which weft "
                                            "does not follow; set HF_ENDPOINT to that hub",
                                            host_of(url), next.empty() ? "no address" : host_of(next)));
  return next;
}

std::vector<RemoteFile> list_hugging_face(const ModelName& name, const Hosts& hosts,
                                          const KeepGoing& keep_going, const RetryParams& retry) {
  std::vector<RemoteFile> files;
  const std::string& host = hosts.hugging_face;
  std::string url = fmt::format("{}/api/models/{}/tree/main?recursive=true", host, escaped(name.repo));
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMaxPages)
      throw Error(ErrorCode::kUnsupported, fmt::format("{} has too many files", name.repo));
    const Response answer = get({url, hosts.hugging_face_token}, kMaxListing, keep_going, retry);
    for (const Json& entry : parse(answer, url)) {
      const std::string path = string_of(entry, "path");
      const Json lfs = entry.is_object() ? entry.value("lfs", Json()) : Json();
      const std::int64_t size =
          number_of(lfs, "size") >= 0 ? number_of(lfs, "size") : number_of(entry, "size");
      add_file(files, path,
               {fmt::format("{}/{}/resolve/main/{}", host, escaped(name.repo), escaped(path)),
                hosts.hugging_face_token},
               size, string_of(lfs, "oid"));
    }
    url = next_page(answer, url);
  }
  return files;
}

std::vector<RemoteFile> list_model_scope(const ModelName& name, const Hosts& hosts,
                                         const KeepGoing& keep_going, const RetryParams& retry) {
  const std::string url = fmt::format("{}/api/v1/models/{}/repo/files?Revision=master&Recursive=true",
                                      hosts.model_scope, escaped(name.repo));
  const Json answer = parse(get({url}, kMaxListing, keep_going, retry), url);
  const Json data = answer.is_object() ? answer.value("Data", Json()) : Json();
  const Json listed = data.is_object() ? data.value("Files", Json()) : Json();
  if (!listed.is_array())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is not on ModelScope: {}", name.repo, string_of(answer, "Message")));
  std::vector<RemoteFile> files;
  for (const Json& entry : listed) {
    const std::string path = string_of(entry, "Path");
    add_file(
        files, path,
        {fmt::format("{}/models/{}/resolve/master/{}", hosts.model_scope, escaped(name.repo), escaped(path))},
        number_of(entry, "Size"), string_of(entry, "Sha256"));
  }
  return files;
}

RemoteModel find_in_ollama(const ModelName& name, const Hosts& hosts, const KeepGoing& keep_going,
                           const RetryParams& retry) {
  const std::string tag = name.tag.empty() ? "latest" : name.tag;
  const std::string base = fmt::format("{}/v2/{}", hosts.ollama, escaped(name.repo));
  const std::string url = fmt::format("{}/manifests/{}", base, escaped(tag));
  const Json manifest = parse(get({url}, kMaxListing, keep_going, retry), url);
  RemoteModel model;
  const Json layers = manifest.is_object() ? manifest.value("layers", Json()) : Json();
  for (const Json& layer : layers) {
    const std::string kind = string_of(layer, "mediaType"), digest = string_of(layer, "digest");
    const std::string sum = digest.starts_with("sha256:") ? digest.substr(7) : std::string();
    const bool is_model = kind == "application/vnd.ollama.image.model";
    if ((!is_model && kind != "application/vnd.ollama.image.projector") || !is_sum(sum)) continue;
    RemoteFile file = {fmt::format("{}{}.gguf", is_model ? "" : "mmproj-", tag),
                       {fmt::format("{}/blobs/{}", base, digest)},
                       number_of(layer, "size"),
                       lower(sum)};
    (is_model ? model.parts : model.vision).push_back(std::move(file));
  }
  if (model.parts.size() != 1)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} has no GGUF file (it may be a cloud model of Ollama)", name.text()));
  return model;
}

/// Whether `text` has `word` between marks or ends: "q4_k" is not in "model-q4_k_m".
bool has_word(std::string_view text, std::string_view word) {
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end]))) return true;
  }
  return false;
}

bool is_vision(const RemoteFile& file) {
  return lower(file.path.substr(file.path.rfind('/') + 1)).find("mmproj") != std::string::npos;
}

std::string names_of(const std::vector<RemoteFile>& files) {
  std::set<std::string> names;
  for (const RemoteFile& file : files) names.insert(split_of(file.path).stem);
  std::string text;
  std::size_t n = 0;
  for (const std::string& name : names) {
    if (++n > kMostNamed) return text + fmt::format(", and {} more", names.size() - kMostNamed);
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

Hosts Hosts::from_environment() {
  Hosts hosts;
  hosts.hugging_face = environment("HF_ENDPOINT", hosts.hugging_face);
  hosts.hugging_face_token = environment("HF_TOKEN", "");
  hosts.model_scope = environment("MODELSCOPE_ENDPOINT", hosts.model_scope);
  hosts.ollama = environment("OLLAMA_REGISTRY", hosts.ollama);
  return hosts;
}

RemoteModel choose(std::vector<RemoteFile> files, const ModelName& name) {
  std::vector<RemoteFile> models, vision;
  for (RemoteFile& file : files)
    (is_vision(file) && name.file.empty() ? vision : models).push_back(std::move(file));
  if (models.empty())
    throw Error(ErrorCode::kUnsupported, fmt::format("{} has no GGUF file; find a repository of the model "
                                                     "with '-GGUF' in its name, or convert it (weft convert)",
                                                     name.repo));
  const RemoteFile* chosen = nullptr;
  // The shorter of two matching paths wins: "Model-Q4_0.gguf" before "Model-Q4_0-imat.gguf".
  const auto consider = [&](const RemoteFile& file) {
    if (split_of(file.path).part != 0) return;
    const auto order = [](const RemoteFile& one) {
      return std::pair(one.path.size(), std::string_view(one.path));
    };
    if (chosen == nullptr || order(file) < order(*chosen)) chosen = &file;
  };
  if (!name.file.empty()) {
    const std::string wanted = all_parts(name.file).front();  // Whichever part was named.
    for (const RemoteFile& file : models)
      if (file.path == wanted || file.path.ends_with("/" + wanted)) consider(file);
  } else if (!name.tag.empty()) {
    for (const RemoteFile& file : models)
      if (has_word(lower(split_of(file.path).stem), lower(name.tag))) consider(file);
  } else {
    for (const std::string_view type : kPreferred) {
      for (const RemoteFile& file : models)
        if (has_word(lower(split_of(file.path).stem), type)) consider(file);
      if (chosen != nullptr) break;
    }
    if (chosen == nullptr)
      for (const RemoteFile& file : models) consider(file);
  }
  if (chosen == nullptr)
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} has no file for '{}'; it has: {}", name.repo,
                            name.file.empty() ? name.tag : name.file, names_of(models)));

  RemoteModel result;
  const SplitName first = split_of(chosen->path);
  std::vector<const RemoteFile*> parts(to_size(first.n_parts), nullptr);
  for (const RemoteFile& file : models) {
    const SplitName split = split_of(file.path);
    if (split.stem != first.stem || split.n_parts != first.n_parts) continue;
    const RemoteFile*& part = parts[to_size(split.part)];
    if (part == nullptr) part = &file;
  }
  for (const RemoteFile* const part : parts) {
    if (part == nullptr)
      throw Error(ErrorCode::kNotFound,
                  fmt::format("{} lacks some of the {} parts of {}", name.repo, first.n_parts, first.stem));
    result.parts.push_back(*part);
  }
  // Types in order of preference: exact, and small compared with a model.
  for (const std::string_view type : {"f16", "bf16", "q8_0", "f32", ""}) {
    const auto found = std::find_if(vision.begin(), vision.end(), [&](const RemoteFile& file) {
      return type.empty() || has_word(lower(split_of(file.path).stem), type);
    });
    if (found == vision.end()) continue;
    result.vision.push_back(*found);
    break;
  }
  return result;
}

RemoteModel find_remote(const ModelName& name, const Hosts& hosts, const KeepGoing& keep_going,
                        const RetryParams& retry) {
  switch (name.hub) {
    case Hub::kHuggingFace:
      return choose(list_hugging_face(name, hosts, keep_going, retry), name);
    case Hub::kModelScope:
      return choose(list_model_scope(name, hosts, keep_going, retry), name);
    case Hub::kOllama:
      return find_in_ollama(name, hosts, keep_going, retry);
    case Hub::kUrl:
      break;
  }
  // The hub's own addresses may want its token. All parts of a split model are in the folder of the named
  // one.
  const std::string token = name.repo.starts_with(hosts.hugging_face + "/") ? hosts.hugging_face_token : "";
  const std::size_t end = std::min(name.repo.find_first_of("?#"), name.repo.size());
  const std::size_t begin = name.repo.rfind('/', end) + 1;
  const std::vector<std::string> files = all_parts(name.file);
  const std::vector<std::string> addresses = all_parts(name.repo.substr(begin, end - begin));
  RemoteModel model;
  for (std::size_t i = 0; i < files.size(); ++i) {
    // If the name's number is escaped in the URL, the other parts' URLs are made from their names.
    const std::string& last = addresses.size() == files.size() ? addresses[i] : escaped(files[i]);
    model.parts.push_back({files[i], {name.repo.substr(0, begin) + last + name.repo.substr(end), token}});
  }
  return model;
}

}  // namespace weft::fetch
