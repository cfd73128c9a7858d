#include "convert/token_rows.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/to_size.h"
#include "convert/refuse.h"

namespace weft::convert_impl {

TokenizerFolder::TokenizerFolder(const std::filesystem::path& folder) : path(folder) {
  names = read_json_if_there(folder / "tokenizer_config.json");
  // Older folders name their special tokens in a file of its own.
  const Json special = read_json_if_there(folder / "special_tokens_map.json");
  for (const auto& [name, token] : special.items())
    if (find(names, name.c_str()) == nullptr) names[name] = token;
  std::error_code ignored;
  if (std::filesystem::exists(folder / "tokenizer.json", ignored))
    tokenizer = read_json(folder / "tokenizer.json");
}

std::int64_t TokenRows::id_of(const std::string& text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

std::int64_t TokenRows::id_of_name(const char* name) const {
  const Json* const token = find(folder_.names, name);
  if (token == nullptr) return -1;
  return id_of(token->is_string() ? token->get<std::string>() : find_text(*token, "content").value_or(""));
}

void TokenRows::put(std::string text, std::int64_t id, std::int32_t kind) {
  if (id < 0) refuse("tokenizer.json: the token '" + text.substr(0, 60) + "' has a negative id");
  // The model has no row of embeddings for this token.
  if (to_size(id) >= size()) {
    beyond_.insert(std::move(text));
    return;
  }
  const auto at = to_size(id);
  ids_[text] = id;
  tokens[at] = std::move(text);
  kinds[at] = kind;
}

void TokenRows::read_added() {
  const Json* const added = find(folder_.tokenizer, "added_tokens");
  if (added != nullptr && added->is_array())
    for (const Json& token : *added) {
      const Json* const id = find(token, "id");
      if (id == nullptr || !id->is_number_integer())
        refuse("tokenizer.json: an added token has no id or no content");
      put_added(token, id->get<std::int64_t>(), "tokenizer.json");
    }
  const bool says_all = added != nullptr;
  if (const Json* const by_id = find(folder_.names, "added_tokens_decoder");
      by_id != nullptr && by_id->is_object())
    for (const auto& [number, token] : by_id->items()) {
      std::int64_t id = -1;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
      if (error != std::errc() || end != number.data() + number.size())
        refuse("tokenizer_config.json: an added token has no id");
      if (!says_all || is_free(id)) put_added(token, id, "tokenizer_config.json");
    }
  const Json beside = read_json_if_there(folder_.path / "added_tokens.json");
  for (const auto& [text, id] : beside.items()) {
    if (!id.is_number_integer()) refuse("added_tokens.json: a token's id is not an integer");
    const auto number = id.get<std::int64_t>();
    const bool beyond = static_cast<std::uint64_t>(number) >= size();
    if (beyond || (is_free(number) && !ids_.contains(text)))
      put(text, number, is_named(text) ? kControl : kUserDefined);
  }
  for (std::size_t i = 0; i < size(); ++i)
    if (tokens[i].empty() && kinds[i] == kUnused) tokens[i] = "[PAD" + std::to_string(i) + "]";
}

void TokenRows::put_added(const Json& token, std::int64_t id, const char* file) {
  const auto text = find_text(token, "content");
  if (!text) refuse(std::string(file) + ": an added token has no id or no content");
  const auto flag = [&](const char* name, bool otherwise) {
    const Json* const value = find(token, name);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
  };
  const bool special = flag("special", false);
  put(*text, id, special ? kControl : kUserDefined);
  if (static_cast<std::uint64_t>(id) >= size()) return;
  for (auto& [name, ids] : flags_)
    if (flag(name, std::string_view(name) == "normalized" && !special))
      ids.push_back(static_cast<std::int32_t>(id));
}

bool TokenRows::is_free(std::int64_t id) const {
  const auto at = static_cast<std::uint64_t>(id);
  return at < size() && kinds[at] == kUnused;
}

bool TokenRows::is_named(const std::string& text) const {
  const auto is = [&](const Json& token) { return token == text || find_text(token, "content") == text; };
  for (const auto& [name, token] : folder_.names.items())
    if (name.ends_with("_token") && is(token)) return true;
  const Json* const others = find(folder_.names, "additional_special_tokens");
  return others != nullptr && others->is_array() && std::any_of(others->begin(), others->end(), is);
}

void TokenRows::write_flags(GgufWriter& file) const {
  if (find(folder_.tokenizer, "model") == nullptr && find(folder_.names, "added_tokens_decoder") == nullptr)
    return;
  for (const auto& [name, ids] : flags_) file.set("weft.tokenizer." + std::string(name), ids);
}

void TokenRows::put_piece(std::string text, std::int64_t id, std::int32_t kind, float score) {
  if (to_size(id) < size()) scores[to_size(id)] = score;
  put(std::move(text), id, kind);
}

void TokenRows::mark_unknown(std::size_t id) {
  kinds[id] = kUnknown;
  unknown_ = static_cast<std::int64_t>(id);
}

}  // namespace weft::convert_impl
