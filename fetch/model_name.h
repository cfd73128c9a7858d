#pragma once
// Names of models on hubs, as people write them.
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::fetch {

enum class Hub : std::uint8_t {
  kHuggingFace,  ///< USER/REPO[:TAG] or USER/REPO:FILE.gguf, also after hf.co/ or huggingface.co/; or the
                 ///< hub's file URL, huggingface.co/USER/REPO/{blob,resolve}/main/FILE.gguf
  kModelScope,   ///< modelscope.cn/USER/REPO[:TAG], or the hub's file URL
  kOllama,       ///< ollama:NAME[:TAG], ollama.com/[library/]NAME[:TAG]
  kUrl,          ///< A file's https:// or http:// URL; for a split model any part's.
};

struct ModelName {
  Hub hub = Hub::kHuggingFace;
  std::string repo = {};  ///< "USER/REPO"; of Ollama's own models "library/NAME"; of kUrl the address.
  std::string tag = {};   ///< "Q4_K_M"; may be empty.
  std::string file = {};  ///< A file of the repository instead of a tag; may be empty.

  /// As parse_model_name accepts it; of a URL only the part that may be shown (shown_address).
  std::string text() const;
  /// The folder of its files in the model cache: "huggingface.co/USER/REPO". Other URLs have other folders,
  /// distinguished by a short hash if needed (a port, a query).
  std::string folder() const;
  /// Distinguishes models of the same folder; never empty.
  std::string key() const;
};

/// Whether `text` names its hub, so it cannot be a file's or a cached model's name.
bool names_hub(std::string_view text);

/// Throws Error kInvalidArgument that describes valid names.
ModelName parse_model_name(std::string_view text);

/// Whether every part of the path is a valid file or folder name here: letters, digits and a few marks,
/// without a leading dot.
bool is_plain_path(std::string_view path);

}  // namespace weft::fetch
