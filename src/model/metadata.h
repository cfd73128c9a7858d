#pragma once
// The metadata of a model's file, read with bounds.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf.h"

namespace weft::model {

// Bounds of what any model can sensibly ask for: far above today's largest, far below what could overflow.
inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxWidth = 1 << 20;
inline constexpr std::int64_t kMaxFfWidth = 16 * kMaxWidth;
inline constexpr std::int64_t kMaxHeads = 1 << 14;
inline constexpr std::int64_t kMaxHeadDim = 1024;
inline constexpr std::int64_t kMaxRank = 1 << 20;  ///< Of low-rank products.
inline constexpr std::int64_t kMaxExperts = 4096;
inline constexpr std::int64_t kMaxContext = 1 << 28;
inline constexpr std::int64_t kMaxVocabulary = 1 << 24;
inline constexpr std::int64_t kMaxConvTaps = 64;
inline constexpr std::int64_t kMaxSsmState = 4096;
inline constexpr double kMinFactor = 1e-6, kMaxFactor = 1e6;

/// Reads an architecture's keys ("llama.block_count") with bounds. Errors name the key, its value and the
/// expected one. A value that would give another model is refused; a wrong value without effect costs a note
/// (HParams::notes).
class Metadata {
 public:
  Metadata(const gguf::File& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }
  int require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  int get_int(std::string_view key, std::int64_t min, std::int64_t max, int otherwise) const;
  /// A count for each of n layers, given once for all or as an array.
  std::vector<int> get_per_layer(std::string_view key, int n_layers, std::int64_t min, std::int64_t max,
                                 int otherwise) const;
  /// The same where the counts must be equal.
  int get_uniform(std::string_view key, int n_layers, std::int64_t min, std::int64_t max,
                  int otherwise) const;
  /// The same, where non-zero counts must be equal; 0 if all are 0.
  int get_uniform_or_none(std::string_view key, int n_layers, std::int64_t max, int otherwise) const;
  /// A required array of `least` to `most` numbers.
  std::vector<int> get_ints(std::string_view key, std::size_t least, std::size_t most, std::int64_t min,
                            std::int64_t max) const;
  float require_float(std::string_view key, double min, double max) const;
  float get_float(std::string_view key, double min, double max, float otherwise) const;
  /// Any integer; nullopt: the key is missing.
  std::optional<std::int64_t> find_int(std::string_view key) const { return file_.get_int(full(key)); }
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  /// One for each of n layers, given once for all or as an array. Refuses a missing key.
  std::vector<float> get_floats(std::string_view key, int n_layers, double min, double max) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  /// One for each of n layers; nullopt where the key is not an array.
  std::optional<std::vector<bool>> get_bools(std::string_view key, int n_layers) const;
  std::string get_string(std::string_view key, std::string_view otherwise) const;
  /// Null if the file has no such tensor.
  const gguf::TensorInfo* find_tensor(std::string_view name) const { return file_.find_tensor(name); }
  bool has_tensor(std::string_view name) const { return find_tensor(name) != nullptr; }

  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const;
  /// For HParams::notes.
  std::string about(std::string_view key, const std::string& what) const {
    return "metadata key " + full(key) + ": " + what;
  }

 private:
  std::string full(std::string_view key) const { return architecture_ + "." + std::string(key); }

  const gguf::File& file_;
  std::string architecture_;
};

}  // namespace weft::model
