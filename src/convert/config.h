#pragma once
// Reads the JSON files of a folder, with limits on their size and depth, and the fields of config.json.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::convert_impl {

using Json = nlohmann::json;
using Names = std::vector<const char*>;

/// The required type of a file.
enum class Shape { kObject, kList };

/// Throws Error kNotFound, kIo, and kInvalidFile that names the file.
Json read_json(const std::filesystem::path& path, Shape shape = Shape::kObject);
/// The same; an empty object where there is no such file.
Json read_json_if_there(const std::filesystem::path& path);
/// Returns a member, or null if it is missing or null or `json` is not an object.
const Json* find(const Json& json, const char* name);
/// Returns a member that is a string.
std::optional<std::string> find_text(const Json& json, const char* name);

/// config.json. Multimodal models nest the language model's fields in an object. They take precedence over
/// the outer ones.
class Config {
 public:
  /// Throws Error kInvalidFile. `defaults` is JSON with the values of fields that the file lacks.
  Config(Json json, std::string_view defaults);

  const Json* find(const Names& names) const;  ///< The first that is there, or null.
  /// Throw Error kInvalidFile where a value has another type, or is negative where a whole number is wanted.
  std::optional<std::int64_t> get_int(const Names& names) const;
  std::int64_t require_int(const Names& names) const;
  std::optional<double> get_float(const Names& names) const;
  bool get_bool(const char* name, bool otherwise) const;

  /// The object of rope's parameters (of full attention, where there are several); empty where there is none.
  const Json& rope() const { return rope_; }
  double rope_float(const char* name, double otherwise) const;
  std::string rope_type() const;  ///< "default" if the file has none.
  std::int64_t head_dim() const;
  /// The number of a head's elements that rope rotates.
  std::int64_t rope_dim() const;
  /// Whether the model has rope. Some classes have models without it.
  bool turns() const;

 private:
  Json json_, rope_ = Json::object();
};

}  // namespace weft::convert_impl
