#pragma once
#include <weft/error.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace gpt2 {

[[noreturn]] inline void refuse(const std::filesystem::path& file, const std::string& reason) {
  throw weft::Error(weft::ErrorCode::kInvalidFile, file.string() + ": " + reason);
}

/// Throws weft::Error kNotFound, and kInvalidFile if the file is not a JSON object.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw weft::Error(weft::ErrorCode::kNotFound, path.string() + ": cannot be opened");
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) refuse(path, "is no JSON object");
  return json;
}

}  // namespace gpt2
