#pragma once
// The parts of a loaded model.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "exec/device_set.h"
#include "gguf/gguf.h"
#include "model/family.h"
#include "weft/backend/device.h"
#include "weft/model.h"

namespace weft::engine {

/// The file's description.
struct ModelFile {
  std::filesystem::path path;
  gguf::File file;
  model::ModelDescription description;
  ModelInfo info;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
  std::vector<std::string> notes;  // Model::notes.
  base::Hash128 fingerprint = {};  // See model_fingerprint.
};

/// The weights, and the devices that they are on.
struct PlacedWeights {
  exec::DeviceSet devices;
  std::string isa;                 // The instruction set that CPUs were asked to use. Empty: their best.
  std::vector<double> row_shares;  // The devices' shares of matrices that are cut by rows.
  std::vector<int> device_of;  // By node of the model's graph, without rotations of caches (ops::Hadamard).
  /// Generated weights that no file stores in this form, for tensors that read them in place
  /// (DeviceTensor::reads_source).
  std::vector<std::vector<std::byte>> made_weights;
  // By device, and by the name of the graph's value.
  std::vector<std::map<std::string, std::unique_ptr<DeviceTensor>>> weights;
  std::int64_t weight_bytes = 0;  // As stored on the devices.
  bool weights_mapped = false;    // All of them.
};

/// The weights of the last load (Model::reload), destroyed first. All other fields are immutable.
struct ModelImpl : ModelFile, PlacedWeights {};

/// Whether it computes on CPUs alone, of this process and of others.
inline bool are_cpus(const ModelImpl& model) {
  return std::all_of(model.devices.devices.begin(), model.devices.devices.end(),
                     [](const auto& device) { return device->info().n_threads > 0; });
}

/// Throws Error kDevice if there are none because the last reload() failed.
void check_has_weights(const Model& model);

/// The adapters and vectors to add to the file's model. Throws Error (model/additions.h).
model::Additions load_additions(const ModelParams& params, const gguf::File& file,
                                const model::HParams& hparams);

/// The ModelInfo of the file and its description; the caller adds weight_bytes.
ModelInfo model_info(const gguf::File& file, const model::ModelDescription& description);

/// A hash that differs between models whose K and V have different meanings. It covers sizes, all tensors'
/// names, types and shapes, samples of their bytes, and control vectors. Adapters are not in it; each
/// sequence has its own.
base::Hash128 model_fingerprint(const gguf::File& file, const model::ModelDescription& description);

}  // namespace weft::engine
