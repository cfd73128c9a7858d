#pragma once
// What hubs have: the files of a model, by its name.
#include <string>
#include <vector>

#include "download.h"
#include "model_name.h"

namespace weft::fetch {

/// Where hubs are, and who asks. From the environment: HF_ENDPOINT, HF_TOKEN, MODELSCOPE_ENDPOINT,
/// OLLAMA_REGISTRY.
struct Hosts {
  std::string hugging_face = "https://huggingface.co";
  std::string hugging_face_token = {};
  std::string model_scope = "https://modelscope.cn";
  std::string ollama = "https://registry.ollama.ai";

  static Hosts from_environment();
};

/// The files that make up a model.
struct RemoteModel {
  std::vector<RemoteFile> parts;   ///< Of a split model all, the first one first.
  std::vector<RemoteFile> vision;  ///< An mmproj file that stands beside it, or nothing.
};

/// Asks the hub. Of several types the tag chooses; without one it is Q4_K_M, else what is nearest to it.
/// Throws Error as get; kNotFound for a repository, tag or file that is not there, with those that are;
/// kUnsupported for one without GGUF files.
RemoteModel find_remote(const ModelName& name, const Hosts& hosts, const KeepGoing& keep_going,
                        const RetryParams& retry = {});

/// The files among these that a name means: its `file`, else its `tag`, else the best type. Paths of GGUF
/// files are like "Model-Q4_K_M.gguf", "Q8_0/Model-Q8_0-00001-of-00003.gguf", "mmproj-F16.gguf". Throws Error
/// as find_remote.
RemoteModel choose(std::vector<RemoteFile> files, const ModelName& name);

}  // namespace weft::fetch
