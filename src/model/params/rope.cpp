#include "model/params/rope.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::model {

ops::Rope read_rope(const Metadata& metadata, int head_dim, int n_ctx_train) {
  ops::Rope rope;
  rope.head_dim = head_dim;
  rope.n_rot = metadata.get_int("rope.dimension_count", 2, head_dim, head_dim);
  if (rope.n_rot % 2 != 0)
    metadata.refuse("rope.dimension_count", "found an odd number, expected an even one");
  rope.freq_base = metadata.get_float("rope.freq_base", 1.001, 1e12, 10000.0f);
  rope.n_ctx_orig = metadata.get_int("rope.scaling.original_context_length", 0, kMaxContext, 0);
  if (rope.n_ctx_orig == 0) rope.n_ctx_orig = n_ctx_train;

  // Files older than the scaling.* keys give the linear factor alone.
  std::string scaling = metadata.get_string("rope.scaling.type", "linear");
  if (scaling.empty()) scaling = "linear";
  if (scaling == "default") scaling = "none";
  float factor = metadata.get_float("rope.scaling.factor", 0.0, 1e6, 0.0f);
  if (factor == 0.0f) factor = metadata.get_float("rope.scale_linear", 0.0, 1e6, 0.0f);
  if (factor == 0.0f) factor = 1.0f;
  // "none" ignores a factor, as llama.cpp does. "dynamic" changes nothing up to the trained length. The other
  // types have tensors with factors.
  if (scaling == "linear" || scaling == "yarn") {
    rope.freq_scale = 1.0f / factor;
  } else if (scaling != "none" && scaling != "dynamic" && scaling != "longrope" && scaling != "su" &&
             scaling != "llama3") {
    metadata.refuse("rope.scaling.type",
                    "found \"" + scaling + "\", expected none, linear, yarn, longrope, llama3 or dynamic");
  }
  if (scaling == "yarn") {
    rope.ext_factor = metadata.get_float("rope.scaling.yarn_ext_factor", 0.0, 1e3, 1.0f);
    rope.beta_fast = metadata.get_float("rope.scaling.yarn_beta_fast", 0.001, 1e6, 32.0f);
    rope.beta_slow = metadata.get_float("rope.scaling.yarn_beta_slow", 0.001, 1e6, 1.0f);
  }
  rope.attn_factor = metadata.get_float("rope.scaling.attn_factor", 0.001, 1e3, 1.0f);
  if (rope.n_ctx_orig == 0 && (scaling == "yarn" || metadata.has_tensor("rope_factors_long.weight")))
    metadata.refuse("rope.scaling.original_context_length",
                    "missing, and so is a positive context_length, but this model's scaling depends on it; "
                    "'weft quantize --override-kv' adds a key");
  return rope;
}

RopeAxes read_axes(const Metadata& metadata, int n_rot) {
  constexpr std::string_view kKey = "rope.dimension_sections";
  // Three axes. Files have a fourth one, which is 0.
  const std::vector<int> sections = metadata.get_ints(kKey, 3, 4, 0, n_rot / 2);
  RopeAxes axes;
  std::copy_n(sections.begin(), 3, axes.sections.begin());
  if (std::accumulate(sections.begin(), sections.end(), 0) != n_rot / 2 ||
      (sections.size() > 3 && sections[3] != 0))
    metadata.refuse(kKey,
                    "expected three numbers of pairs, which are " + std::to_string(n_rot / 2) + " together");
  return axes;
}

std::size_t RopeAxes::of_pair(int pair) const {
  if (!interleaved) return pair < sections[0] ? 0 : pair < sections[0] + sections[1] ? 1 : 2;
  const auto axis = to_size(pair % 3);
  return pair < 3 * sections[axis] ? axis : 0;
}

}  // namespace weft::model
