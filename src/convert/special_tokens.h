#pragma once
// The special tokens of a folder as GGUF's keys: ids, and whether prompts get BOS and EOS.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "convert/config.h"
#include "convert/token_rows.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// For folders whose files do not say it.
struct SpecialDefaults {
  std::array<std::int64_t, 3> ids = {-1, -1, -1};  ///< bos, eos, padding: SentencePiece's word.
  bool fairseq = false;                            ///< XLM-R's file of SentencePiece.
};

/// Sets the keys of special tokens. Appends sentences for the user to `notes`.
void add_special_tokens(const TokenizerFolder& folder, const TokenRows& rows, const Config& config,
                        const SpecialDefaults& defaults, GgufWriter& file, std::vector<std::string>& notes);

}  // namespace weft::convert_impl
