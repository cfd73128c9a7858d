#pragma once
// The encoders of an mmproj file, and the language models that it fits.
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace weft::encoders {

/// `modality`: "vision" or "audio".
bool has_encoder(const gguf::File& file, std::string_view modality);
/// The name of its projector: of files with both, clip.MODALITY.projector_type.
std::string_view projector_of(const gguf::File& file, std::string_view modality);

struct Fit {
  std::string modality;
  std::string name, projector;
  const std::vector<std::string>& text_models;  ///< By general.architecture.
  int n_embd = 0;
};
/// Throws Error kInvalidArgument if the file is not for this architecture or its rows do not have
/// n_embd_input values.
void check_fits(const Fit& fit, std::string_view architecture, int n_embd_input);

}  // namespace weft::encoders
