#pragma once
// Prompts and inputs as clients send them: strings, token ids, and arrays of either.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "weft/embedded_part.h"
#include "weft/tokenizer.h"

namespace weft::server {

struct Prompt {
  std::string text;  ///< Empty where ids were sent.
  std::vector<Token> tokens;
  std::vector<EmbeddedPart> parts = {};  ///< Its images and audio.
};

/// Reads a prompt with images or audio: `text` has a marker for each element of `data`.
using ReadMediaPrompt =
    std::function<Prompt(const std::string& text, const Json& data, const std::string& path)>;

/// `"text"`, `[1, 2, 3]`, `["a", "b"]`, `[[1, 2], [3]]`; llama.cpp's mixed `["text", 5, "more"]` is one
/// prompt. llama.cpp's {"prompt_string": "text", "multimodal_data": ["base64"]} needs `read_media`. `options`
/// apply to strings. A string that begins with BOS gets no second one. Throws ApiError for missing prompts,
/// too many of them, and ids outside the vocabulary.
std::vector<Prompt> read_prompts(Fields& fields, std::string_view name, const Tokenizer& tokenizer,
                                 std::size_t at_most, const Tokenizer::EncodeOptions& options,
                                 const ReadMediaPrompt& read_media = nullptr);
/// One array of ids.
std::vector<Token> read_ids(const Json& array, const std::string& path, const Tokenizer& tokenizer);

}  // namespace weft::server
