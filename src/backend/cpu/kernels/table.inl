// The table of one instruction set, with all kernels. Needs kernels.h, vec_<isa>.h, matmul_vec_<isa>.h and
// WEFT_CPU_ISA.

// clang-format off: some build on those before.
#include "backend/cpu/kernels/products.inl"
#include "backend/cpu/kernels/screen.inl"
#include "backend/cpu/kernels/attention.inl"
#include "backend/cpu/kernels/ragged.inl"
#include "backend/cpu/kernels/recurrent.inl"
#include "backend/cpu/kernels/elementwise.inl"
#include "backend/cpu/kernels/cells.inl"
#include "backend/cpu/kernels/product.inl"
#include "backend/cpu/kernels/windows.inl"
#include "backend/cpu/kernels/peak.inl"
#include "backend/cpu/kernels/pair_peak.inl"
// clang-format on

namespace weft::cpu::WEFT_CPU_ISA {

#define WEFT_STRING_OF(name) #name
#define WEFT_STRING(name) WEFT_STRING_OF(name)

extern const Kernels kTable;
const Kernels kTable = {
    .name = WEFT_STRING(WEFT_CPU_ISA),
    .matmul = matmul,
    .screen = screen,
    .find_candidates = find_candidates,
    .sift_candidates = sift_candidates,
    .quantise_row = quantise_row,
    .quantise_rows = quantise_rows,
    .norm_row = norm_row,
    .add_row = add_row,
    .mul_row = mul_row,
    .scale_row = scale_row,
    .axpy_row = axpy_row,
    .softcap_row = softcap_row,
    .activation_row = activation_row,
    .glu_row = glu_row,
    .best_row = best_row,
    .log_sum_parts = log_sum_parts,
    .merge_log_sums = merge_log_sums,
    .softmax_row = softmax_row,
    .rope_head = rope_head,
    .hadamard_row = hadamard_row,
    .store_k = store_k,
    .store_v = store_v,
    .load_k = load_k,
    .copy_k = copy_k,
    .copy_v = copy_v,
    .attention = attention,
    .attention_partials = attention_partials,
    .attention_merge = attention_merge,
    .ragged_attention = ragged_attention,
    .conv_row = conv_row,
    .scan_row = scan_row,
    .delta_row = delta_row,
    .cells = cells,
    .unary_row = unary_row,
    .clamp_row = clamp_row,
    .binary_row = binary_row,
    .compare_floats = compare_row<float>,
    .compare_ints = compare_row<std::int32_t>,
    .where_row = where_row,
    .sum_row = sum_row,
    .max_row = max_row,
    .min_row = min_row,
    .copy_block = copy_block,
    .product = product,
    .convolve = convolve,
    .convolve_lanes = kWindowLanes,
    .convolve_few = convolve_few,
    .window_rows = window_rows,
    .pool_windows = pool_windows,
    .gather_row = gather_row,
    .lerp_row = lerp_row,
    .unpack_halves = unpack_halves,
    .dot_peak = dot_peak,
    .dot_peak_multiply_adds = kDotPeakMultiplyAdds,
    .fma_peak = fma_peak,
    .fma_peak_multiply_adds = kFmaPeakMultiplyAdds,
    .pair_peak = pair_peak,
    .pair_peak_multiply_adds = kPairPeakMultiplyAdds,
    .read_memory = read_memory,
};

#undef WEFT_STRING
#undef WEFT_STRING_OF

}  // namespace weft::cpu::WEFT_CPU_ISA
