#pragma once
// The steps of a tokenizer.json of Hugging Face before its model: normalizers change a string, pre-tokenizers
// cut it into pieces and mark where words begin. GGUF has no keys for most of these steps. `weft convert`
// keeps them as JSON under keys of weft's own (docs/convert.md).
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// The steps of `weft.tokenizer.normalizers`. Immutable: any number of threads may use it.
class Normalizer {
 public:
  /// `steps`: a JSON list of normalizers, each as tokenizer.json writes it. "Precompiled" applies
  /// `charsmap` (charsmap.h). Throws Error kInvalidFile for damaged steps, kUnsupported for a type or an
  /// expression that weft does not apply; both name the step.
  Normalizer(std::string_view steps, std::string_view charsmap);

  /// `text` is valid UTF-8, and so is the result.
  std::string apply(std::string_view text) const;

 private:
  std::vector<std::function<std::string(std::string_view)>> steps_;
};

/// The steps of `weft.tokenizer.pre_tokenizers`. Immutable: any number of threads may use it.
class PieceCutter {
 public:
  /// A JSON list of pre-tokenizers. Throws as Normalizer does.
  explicit PieceCutter(std::string_view steps);

  /// A piece of the input. Steps that mark only the first word look at `begins_text`.
  struct Piece {
    std::string text;
    bool begins_text = false;
  };
  /// The pieces of a string that is valid UTF-8. Empty pieces are left out.
  std::vector<Piece> cut(Piece whole) const;

 private:
  std::vector<std::function<std::vector<Piece>(const Piece&)>> steps_;
};

}  // namespace weft::text
