#pragma once
// The chat templates of a folder: from chat_template.jinja with additional_chat_templates, else from
// tokenizer_config.json, else from chat_template.json.
#include <filesystem>
#include <string>
#include <vector>

#include "convert/config.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Sets tokenizer.chat_template, and for others than the default tokenizer.chat_template.NAME with the names
/// in tokenizer.chat_templates. `names` is tokenizer_config.json. Appends sentences for the user to
/// `notes`. Throws Error kInvalidFile, kIo.
void add_chat_templates(const std::filesystem::path& folder, const Json& names, GgufWriter& file,
                        std::vector<std::string>& notes);

}  // namespace weft::convert_impl
