#include "api/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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

using EncodeOptions = Tokenizer::EncodeOptions;

Prompt from_text(std::string text, const Tokenizer& tokenizer, const EncodeOptions& options) {
  Prompt prompt;
  prompt.tokens = tokens_of_text(tokenizer, text, options);
  if (options.add_special && options.parse_special && prompt.tokens.size() > 1 &&
      prompt.tokens[0] == tokenizer.bos() && prompt.tokens[1] == tokenizer.bos())
    prompt.tokens.erase(prompt.tokens.begin());
  prompt.text = std::move(text);
  return prompt;
}

// Strings and ids in one prompt.
Prompt from_mixed(const Json& array, const std::string& path, const Tokenizer& tokenizer,
                  const EncodeOptions& options) {
  Prompt prompt;
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (array[i].is_string()) {
      const std::vector<Token> part = tokenizer.encode(
          array[i].get<std::string>(), {.add_special = options.add_special && prompt.tokens.empty(),
                                        .parse_special = options.parse_special});
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

namespace {

/// The images and audio of a prompt in llama.cpp's form; null: none.
const Json* media_of(const Json& prompt) {
  if (!prompt.is_object()) return nullptr;
  const auto media = prompt.find("multimodal_data");
  return media == prompt.end() || media->is_null() || media->empty() ? nullptr : &*media;
}

/// A prompt as llama.cpp's server also takes it: {"content": ...} or {"prompt_string": "..."}.
const Json& unwrapped(const Json& value, const std::string& path) {
  if (!value.is_object()) return value;
  for (const char* name : {"content", "prompt_string"})
    if (const auto found = value.find(name); found != value.end()) return *found;
  throw bad_request(path, fmt::format("'{}' has neither 'content' nor 'prompt_string'", path));
}

/// The joined strings of parts [{"type": "text", "text": "..."}]. Nothing for another value.
std::optional<std::string> text_of_parts(const Json& value) {
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::string all;
  for (const Json& part : value) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text") return std::nullopt;
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) return std::nullopt;
    all += text->get_ref<const std::string&>();
  }
  return all;
}

Prompt read_prompt(const Json& wrapped, const std::string& path, const Tokenizer& tokenizer,
                   const EncodeOptions& options, const ReadMediaPrompt& read_media) {
  const Json& entry = unwrapped(wrapped, path);
  if (const Json* const media = media_of(wrapped)) {
    const std::string data_path = path + ".multimodal_data";
    if (!read_media)
      throw bad_request(data_path,
                        fmt::format("'{}' is read by /completion and /v1/completions only", data_path));
    if (!entry.is_string())
      throw bad_request(path, fmt::format("'{}' needs a 'prompt_string' with a marker for each element of "
                                          "'multimodal_data'",
                                          path));
    return read_media(entry.get<std::string>(), *media, data_path);
  }
  if (auto text = text_of_parts(entry)) return from_text(*std::move(text), tokenizer, options);
  if (entry.is_string()) return from_text(entry.get<std::string>(), tokenizer, options);
  if (!entry.is_array())
    throw bad_request(path, fmt::format("'{}' must be a string or an array of token ids", path));
  const bool mixed = std::any_of(entry.begin(), entry.end(), [](const Json& e) { return e.is_string(); });
  return mixed ? from_mixed(entry, path, tokenizer, options) : Prompt{"", read_ids(entry, path, tokenizer)};
}

}  // namespace

std::vector<Prompt> read_prompts(Fields& fields, std::string_view name, const Tokenizer& tokenizer,
                                 std::size_t at_most, const EncodeOptions& options,
                                 const ReadMediaPrompt& read_media) {
  const Json* found = fields.find(name);
  const std::string path = fields.path_of(name);
  if (found == nullptr) throw bad_request(path, fmt::format("'{}' is missing", path));
  const Json& value = unwrapped(*found, path);
  if (value.is_string() || media_of(*found) != nullptr)
    return {read_prompt(*found, path, tokenizer, options, read_media)};
  if (found->is_object())
    if (auto text = text_of_parts(value)) return {from_text(*std::move(text), tokenizer, options)};
  if (!value.is_array() || value.empty())
    throw bad_request(path, fmt::format("'{}' must be a string, or an array of strings or token ids", path));
  if (std::any_of(value.begin(), value.end(), [](const Json& entry) { return entry.is_number(); }))
    return {read_prompt(value, path, tokenizer, options, read_media)};
  if (value.size() > at_most)
    throw bad_request(path,
                      fmt::format("'{}' may have at most {} entries, not {}", path, at_most, value.size()));
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < value.size(); ++i)
    prompts.push_back(read_prompt(value[i], element(path, i), tokenizer, options, read_media));
  return prompts;
}

}  // namespace weft::server
