#pragma once
// The matrices that an adapter's pairs must fit.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "convert/config.h"
#include "convert/family.h"
#include "convert/folder_weights.h"
#include "convert/place.h"

namespace weft::convert_impl {

/// The base model's matrices: their shapes if the folder has weights, otherwise only the number of layers and
/// the model's width.
class AdapterBase {
 public:
  /// `weights`: the base model's, or null where only its config.json is there.
  AdapterBase(const FolderWeights* weights, const Config& config, const Family& family);

  /// Throws Error kInvalidFile where the base model has no such matrix, or one of another shape. `a` is
  /// {rank, n_in}, `b` {n_out, rank}. The message names tensor and matrix with both shapes.
  void check_pair(const std::string& matrix, const Place& place, const Source& a, const Source& b) const;

 private:
  using Key = std::tuple<std::string, std::int64_t, std::string, std::int64_t>;
  static Key key_of(const Place& place) { return {place.block, place.layer, place.name, place.expert}; }

  std::map<Key, std::vector<std::int64_t>> shapes_;  // {n_out, n_in}; empty of other ranks.
  std::optional<std::int64_t> n_layers_, width_;
};

}  // namespace weft::convert_impl
