#pragma once
// Models of whisper.cpp in its own container (`ggml-base.en.bin`): magic, hyperparameters, mel filters,
// vocabulary and tensors, one after another. The file is untrusted: every count, size and name is checked,
// and memory is bounded by the size of the file.
#include <cstdint>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "weft/weights.h"

namespace weft {

/// The first bytes of such a file.
inline constexpr std::uint32_t kGgmlMagic = 0x67676d6c;

struct GgmlFile {
  // Hyperparameters, in the file's order.
  std::int32_t n_vocab = 0;  ///< Rows of the decoder's embeddings. `tokens` lacks the special ones.
  std::int32_t n_audio_ctx = 0, n_audio_state = 0, n_audio_head = 0, n_audio_layer = 0;
  std::int32_t n_text_ctx = 0, n_text_state = 0, n_text_head = 0, n_text_layer = 0;
  std::int32_t n_mels = 0;
  std::int32_t file_type = 0;
  std::vector<std::string> tokens;  ///< Their bytes; position = id.
  std::vector<WeightFile::Tensor> tensors;
};

/// Reads all but the tensors' bytes. Throws Error kInvalidFile that names the tensor, kUnsupported for
/// tensors of an unknown type, kIo.
GgmlFile read_ggml(const base::MappedFile& mapped);

}  // namespace weft
