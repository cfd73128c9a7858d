#pragma once
// Names of models on hubs, as people write them.
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::fetch {

enum class Hub : std::uint8_t {
  kHuggingFace,  ///< USER/REPO[:TAG] or USER/REPO:FILE.gguf, also behind hf.co/ and huggingface.co/; and the
                 ///< hub's addresses of files, huggingface.co/USER/REPO/{blob,resolve}/main/FILE.gguf
  kModelScope,   ///< modelscope.cn/USER/REPO[:TAG]; addresses of files as well
  kOllama,       ///< ollama:NAME[:TAG], ollama.com/[library/]NAME[:TAG]
  kUrl,          ///< A file's https:// or http:// address. Of a split model any part's.
};

struct ModelName {
  Hub hub = Hub::kHuggingFace;
  std::string repo = {};  ///< "USER/REPO"; of Ollama's own models "library/NAME"; of kUrl the address.
  std::string tag = {};   ///< "Q4_K_M"; may be empty.
  std::string file = {};  ///< A file of the repository instead of a tag; may be empty.

  /// As parse takes it; of an address only what may be shown (shown_address).
  std::string text() const;
  /// Where its files lie below the model cache: "huggingface.co/USER/REPO". Other addresses have other ones,
  /// by a short hash where a folder's name cannot say it (a port, a query).
  std::string folder() const;
  /// What tells it from others of the same folder; never empty.
  std::string key() const;
};

/// Whether the text names its hub, and so cannot be a file's or a cached model's name.
bool names_hub(std::string_view text);

/// Throws Error kInvalidArgument that says what names look like.
ModelName parse_model_name(std::string_view text);

/// Whether every part of this path may be a file's or folder's name here: letters, digits and a few marks, no
/// part that begins with a dot.
bool is_plain_path(std::string_view path);

}  // namespace weft::fetch
