#include "api/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/error.h"
#include "weft/embedder.h"

namespace weft::server {
namespace {

Token read_id(const Json& value, const std::string& path, const Tokenizer& tokenizer) {
  const bool fits = value.is_number_integer() &&
                    (value.is_number_unsigned() ? value.get<std::uint64_t>() < std::uint64_t{1} << 31
                                                : value.get<std::int64_t>() >= 0) &&
                    value.get<std::int64_t>() < tokenizer.n_vocab();
  if (!fits)
    throw bad_request(path,
                      fmt::format("'{}' must be a token id from 0 to {}", path, tokenizer.n_vocab() - 1));
  return value.get<Token>();
}

Prompt from_text(std::string text, const Tokenizer& tokenizer, bool adds_special) {
  Prompt prompt;
  prompt.tokens =
      adds_special ? tokens_of_text(tokenizer, text) : tokenizer.encode(text, {.add_special = false});
  prompt.text = std::move(text);
  return prompt;
}

// Texts and ids in one prompt.
Prompt from_mixed(const Json& array, const std::string& path, const Tokenizer& tokenizer, bool adds_special) {
  Prompt prompt;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (array[i].is_string()) {
      const std::vector<Token> part = tokenizer.encode(
          array[i].get<std::string>(), {.add_special = adds_special && prompt.tokens.empty()});
      prompt.tokens.insert(prompt.tokens.end(), part.begin(), part.end());
    } else {
      prompt.tokens.push_back(read_id(array[i], element(path, i), tokenizer));
    }
  }
  return prompt;
}

}  // namespace

std::vector<Token> read_ids(const Json& array, const std::string& path, const Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  tokens.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i)
    tokens.push_back(read_id(array[i], element(path, i), tokenizer));
  return tokens;
}

std::vector<Prompt> read_prompts(Fields& fields, std::string_view name, const Tokenizer& tokenizer,
                                 std::size_t at_most, bool adds_special) {
  const Json* value = fields.find(name);
  const std::string path = fields.path_of(name);
  if (value == nullptr) throw bad_request(path, fmt::format("'{}' is missing", path));
  if (value->is_string()) return {from_text(value->get<std::string>(), tokenizer, adds_special)};
  if (!value->is_array() || value->empty())
    throw bad_request(path, fmt::format("'{}' must be a string, or an array of strings or token ids", path));
  const auto is_text = [](const Json& entry) { return entry.is_string(); };
  const auto is_id = [](const Json& entry) { return entry.is_number(); };
  std::vector<Prompt> prompts;
  if (std::any_of(value->begin(), value->end(), is_id)) {
    if (std::all_of(value->begin(), value->end(), is_id)) return {{"", read_ids(*value, path, tokenizer)}};
    return {from_mixed(*value, path, tokenizer, adds_special)};
  }
  if (value->size() > at_most)
    throw bad_request(path,
                      fmt::format("'{}' may have {} entries at most, not {}", path, at_most, value->size()));
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& entry = (*value)[i];
    if (is_text(entry)) {
      prompts.push_back(from_text(entry.get<std::string>(), tokenizer, adds_special));
    } else if (entry.is_array()) {
      prompts.push_back({"", read_ids(entry, element(path, i), tokenizer)});
    } else {
      throw bad_request(element(path, i),
                        fmt::format("'{}' must be a string or an array of token ids", element(path, i)));
    }
  }
  return prompts;
}

}  // namespace weft::server
