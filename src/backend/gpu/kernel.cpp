#include "backend/gpu/kernel.h"

namespace weft::gpu {
namespace {

// In the order of Kernel.
constexpr const char* kNames[kNumKernels] = {
    "attention",
    "batch_matmul",
    "best",
    "bring_inputs",
    "delta_rule",
    "elementwise",
    "experts",
    "get_rows",
    "hadamard",
    "log_sum_exp",
    "matmul",
    "matmul_codes",
    "matmul_cooperative",
    "matmul_tiles",
    "matmul_tiles_codes",
    "merge_pages",
    "move_cells",
    "norm",
    "pad",
    "quantise",
    "ragged_attention",
    "ragged_mean",
    "reduce",
    "rope",
    "selective_scan",
    "short_conv",
    "softmax",
    "sort_experts",
    "store_cache",
    "store_turned",
    "transpose",
    "unfold",
};

}  // namespace

const char* name(Kernel kernel) { return kNames[static_cast<std::size_t>(kernel)]; }

std::optional<std::uint32_t> stored_type(DType dtype) {
  switch (dtype) {
#define STORED_TYPE(name, number) \
  case DType::name:               \
    return number;
#include "backend/gpu/stored_types.inc"
#undef STORED_TYPE
    default:
      return std::nullopt;
  }
}

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

}  // namespace weft::gpu
