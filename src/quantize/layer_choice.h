#pragma once
// A model without some of its layers. The others are renumbered.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace weft::quantize_impl {

class LayerChoice {
 public:
  /// Without `left_out`. Throws Error kInvalidArgument for layers that the model lacks, and if none would be
  /// left. `file` must outlive it.
  LayerChoice(const gguf::File& file, std::span<const int> left_out);

  /// The new name of a tensor; nullopt if it is left out.
  std::optional<std::string> name_of(const std::string& tensor) const;
  /// The number of layers, and lists that have an entry for each.
  void write_metadata(gguf::Writer& writer) const;

 private:
  const gguf::File& file_;
  std::string architecture_;
  std::int64_t n_layers_ = 0;
  std::map<std::int64_t, std::int64_t> kept_;  // Their new numbers. Empty: nothing is left out.
};

}  // namespace weft::quantize_impl
