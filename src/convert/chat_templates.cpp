#include "convert/chat_templates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "base/read_file.h"

namespace weft::convert_impl {
namespace {

constexpr std::uint64_t kMaxTemplate = 16 << 20;
constexpr std::size_t kMaxTemplates = 64;
constexpr const char* kDefault = "default";

using Templates = std::map<std::string, std::string>;

/// Reads a template without the byte order mark that some editors write.
std::string read_template(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = base::read_file(path, kMaxTemplate);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return std::string(text);
}

/// The part of a key for a name, as in other converters: letters and digits, the rest as underscores.
std::string key_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return !((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')); },
      '_');
  return name;
}

void add(const std::string& name, const std::optional<std::string>& text, Templates& all) {
  if (!name.empty() && text && all.size() < kMaxTemplates) all.emplace(key_name(name), *text);
}

/// One template, a list of {"name": ..., "template": ...}, or an object of them by name.
Templates templates_of(const Json& value) {
  Templates all;
  if (value.is_string()) add(kDefault, value.get<std::string>(), all);
  if (value.is_array())
    for (const Json& named : value)
      add(find_text(named, "name").value_or(""), find_text(named, "template"), all);
  if (value.is_object())
    for (const auto& [name, text] : value.items()) add(name, find_text(value, name.c_str()), all);
  return all;
}

Templates find_templates(const std::filesystem::path& folder, const Json& names) {
  std::error_code ignored;
  Templates all;
  if (const auto path = folder / "chat_template.jinja"; std::filesystem::exists(path, ignored))
    add(kDefault, read_template(path), all);
  else if (const Json* const value = find(names, "chat_template"))
    all = templates_of(*value);
  else if (const Json json = read_json_if_there(folder / "chat_template.json"); find(json, "chat_template"))
    all = templates_of(*find(json, "chat_template"));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "additional_chat_templates", ignored))
    if (entry.path().extension() == ".jinja")
      add(entry.path().stem().string(), read_template(entry.path()), all);
  return all;
}

}  // namespace

void add_chat_templates(const std::filesystem::path& folder, const Json& names, GgufWriter& file,
                        std::vector<std::string>& notes) {
  Templates all = find_templates(folder, names);
  if (all.empty()) return;
  if (!all.contains(kDefault)) {
    // Templates for tools and retrieval expect variables that plain chats do not have.
    const auto other = std::find_if(all.begin(), all.end(), [](const auto& named) {
      return named.first != "tool_use" && named.first != "rag";
    });
    const auto& chosen = other == all.end() ? *all.begin() : *other;
    notes.push_back("the folder's chat templates have no \"default\"; the file's is \"" + chosen.first +
                    "\"");
    all[kDefault] = std::string(chosen.second);
  }
  file.set("tokenizer.chat_template", all.at(kDefault));
  std::vector<std::string> others;
  for (const auto& [name, text] : all) {
    if (name == kDefault) continue;
    file.set("tokenizer.chat_template." + name, text);
    others.push_back(name);
  }
  if (!others.empty()) file.set("tokenizer.chat_templates", others);
}

}  // namespace weft::convert_impl
