#include "encoders/fit.h"

#include <algorithm>

#include "weft/error.h"
#include "weft/media.h"

namespace weft::encoders {

bool has_encoder(const gguf::File& file, std::string_view modality) {
  return file.get_string("general.architecture").value_or("") == "clip" &&
         file.get_bool("clip.has_" + std::string(modality) + "_encoder").value_or(false);
}

std::string_view projector_of(const gguf::File& file, std::string_view modality) {
  const std::string own = "clip." + std::string(modality) + ".projector_type";
  return file.get_string(file.find(own) != nullptr ? own : "clip.projector_type").value_or("");
}

void check_fits(const Fit& fit, std::string_view architecture, int n_embd_input) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument, "the " + fit.modality + " encoder" +
                                                 (fit.name.empty() ? "" : " of \"" + fit.name + "\"") +
                                                 " is for another model: " + why);
  };
  if (std::find(fit.text_models.begin(), fit.text_models.end(), architecture) == fit.text_models.end()) {
    std::string known;
    for (const std::string& one : fit.text_models) known += (known.empty() ? "" : " or ") + one;
    refuse("its projector " + fit.projector + " fits text models of " + known + ", not " +
           std::string(architecture));
  }
  if (fit.n_embd != n_embd_input)
    refuse("its embeddings have " + std::to_string(fit.n_embd) +
           " dimensions, and those of the text model have " + std::to_string(n_embd_input));
}

}  // namespace weft::encoders

namespace weft {

MediaKinds media_kinds(const std::filesystem::path& path) {
  const gguf::File file = gguf::File::open(path);
  const MediaKinds kinds = {encoders::has_encoder(file, "vision"), encoders::has_encoder(file, "audio")};
  if (!kinds.images && !kinds.audio)
    throw Error(ErrorCode::kUnsupported, path.string() +
                                             " has no image or audio encoder; give the model's mmproj file, "
                                             "which 'weft convert --mmproj' or llama.cpp's converter writes");
  return kinds;
}

}  // namespace weft
