#include "convert/modules.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "convert/config.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr std::size_t kMostProducts = 2;

[[noreturn]] void refuse_modules(const std::string& what) {
  throw Error(ErrorCode::kUnsupported,
              "the embeddings use " + what.substr(0, 120) +
                  ", which weft does not support; known are mean, cls and last-token pooling, followed by up "
                  "to two dense layers without bias or activation");
}

/// Older files have a truth value for each way, newer ones its name.
std::uint32_t pooling_of(const Json& json) {
  struct Way {
    const char *flag, *name;
    std::uint32_t number;
  };
  constexpr std::array<Way, 3> kWays = {{{"pooling_mode_mean_tokens", "mean", 1},
                                         {"pooling_mode_cls_token", "cls", 2},
                                         {"pooling_mode_lasttoken", "lasttoken", 3}}};
  if (const auto name = find_text(json, "pooling_mode")) {
    for (const Way& way : kWays)
      if (*name == way.name) return way.number;
    refuse_modules("the pooling '" + *name + "'");
  }
  std::vector<std::string> on;
  if (json.is_object())
    for (const auto& [key, value] : json.items())
      if (key.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>()) on.push_back(key);
  if (on.size() == 1)
    for (const Way& way : kWays)
      if (on.front() == way.flag) return way.number;
  std::string all;
  for (const std::string& key : on) all += (all.empty() ? "" : " and ") + key;
  refuse_modules(on.empty() ? "a pooling that the configuration does not name" : all);
}

void check_product(const Json& json) {
  const Json* const bias = find(json, "bias");
  const std::string active = find_text(json, "activation_function").value_or("Tanh");
  if (bias == nullptr || !bias->is_boolean() || bias->get<bool>())
    refuse_modules("a dense layer with a bias");
  if (!active.ends_with(".Identity")) refuse_modules("a dense layer with the activation " + active);
}

}  // namespace

Modules read_modules(const std::filesystem::path& folder) {
  Modules result;
  std::error_code ignored;
  const auto read_pooling = [&](const std::filesystem::path& path) {
    const std::filesystem::path file = path / "config.json";
    if (std::filesystem::exists(file, ignored)) result.pooling = pooling_of(read_json(file));
  };
  const std::filesystem::path list = folder / "modules.json";
  if (!std::filesystem::exists(list, ignored)) {
    read_pooling(folder / "1_Pooling");
    return result;
  }
  const auto bad = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidFile, list.string() + ": " + why);
  };
  const Json modules = read_json(list, Shape::kList);
  for (const Json& module : modules) {
    const std::string type = find_text(module, "type").value_or("");
    const std::string kind = type.substr(type.rfind('.') + 1);  // The last part of a Python name.
    const std::string path = find_text(module, "path").value_or("");
    // The path is untrusted: it must be in the folder itself.
    if (path == "." || path.find_first_of(std::string("/\\\0", 3)) != path.npos || path.starts_with(".."))
      bad("names the folder '" + path.substr(0, 80) + "', expected one inside its own folder");
    if (kind == "Pooling") read_pooling(folder / path);
    if (kind == "Dense") {
      check_product(read_json(folder / path / "config.json"));
      result.dense.push_back(folder / path / "model.safetensors");
    }
    constexpr std::array kKnown = {"Transformer", "Pooling", "Dense", "Normalize"};
    if (std::find(kKnown.begin(), kKnown.end(), kind) == kKnown.end()) refuse_modules("a module " + type);
  }
  if (result.dense.size() > kMostProducts) refuse_modules(std::to_string(result.dense.size()) + " products");
  return result;
}

}  // namespace weft::convert_impl
