#pragma once
// The files of a hub's model, by the model's name.
#include <string>
#include <vector>

#include "download.h"
#include "model_name.h"

namespace weft::fetch {

/// Addresses and tokens of hubs. From the environment: HF_ENDPOINT, HF_TOKEN, MODELSCOPE_ENDPOINT,
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
  std::vector<RemoteFile> parts;   ///< All parts of a split model, in order.
  std::vector<RemoteFile> vision;  ///< The mmproj file in the same repository, or nothing.
};

/// Asks the hub for the model's files. The tag chooses among several types; without a tag it is Q4_K_M, or
/// the nearest type. Throws Error as get; kNotFound for a missing repository, tag or file, with a list of the
/// available ones; kUnsupported for a repository without GGUF files.
RemoteModel find_remote(const ModelName& name, const Hosts& hosts, const KeepGoing& keep_going,
                        const RetryParams& retry = {});

/// Chooses the files of a name: by its `file`, or its `tag`, or the best type. Paths of GGUF files are like
/// "Model-Q4_K_M.gguf", "Q8_0/Model-Q8_0-00001-of-00003.gguf", "mmproj-F16.gguf". Throws Error as
/// find_remote.
RemoteModel choose(std::vector<RemoteFile> files, const ModelName& name);

}  // namespace weft::fetch
