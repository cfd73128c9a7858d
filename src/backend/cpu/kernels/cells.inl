#pragma once
// A time of a recurrent cell. Units are in lanes of vectors. Each is a chain of multiply-adds over the
// outputs of the time before, in order, independent of the other lanes. Needs elementwise.inl.
#include "backend/cpu/kernels/elementwise.inl"

namespace weft::cpu::WEFT_CPU_ISA {

/// Rows whose sums, of all gates, stay in registers together with the weights.
inline constexpr int kCellRows = kRegisters >= 32 ? 6 : 2;

/// The sums of a vector of units for kRows rows: [gate][row].
template <int kGates, int kRows>
static inline void cell_sums(const CellArgs& args, const float* weight, const float* from,
                             F32 (&sums)[4][kRows]) {
#pragma GCC unroll 4
  for (int gate = 0; gate < kGates; ++gate)
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) sums[gate][row] = zero();
  if (from == nullptr) return;
  for (std::int64_t k = 0; k < args.n_hidden; ++k) {
    F32 w[kGates];
#pragma GCC unroll 4
    for (int gate = 0; gate < kGates; ++gate) w[gate] = load(weight + (k * kGates + gate) * kCellUnits);
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const F32 h = broadcast(from[row * args.n_hidden + k]);
#pragma GCC unroll 4
      for (int gate = 0; gate < kGates; ++gate) sums[gate][row] = fma(h, w[gate], sums[gate][row]);
    }
  }
}

/// Units i and the following of kRows rows from `row` on.
template <bool kGru, int kRows, class At>
static inline void cell_rows(const CellArgs& args, std::int64_t row, std::int64_t i, At at) {
  constexpr int kGates = kGru ? 3 : 4;
  F32 sums[4][kRows];
  const float* const from = args.h_from == nullptr ? nullptr : args.h_from + row * args.n_hidden;
  cell_sums<kGates, kRows>(args, args.weight + i, from, sums);
  for (int r = 0; r < kRows; ++r, ++row) {
    const float* const x = args.x + row * args.x_stride + i;
    const std::int64_t own = row * args.n_hidden + args.unit + i;
    const auto gate = [&](int g) { return load(x + g * args.n_hidden, at) + sums[g][r]; };
    if constexpr (kGru) {
      const F32 reset = unary<UnaryKind::kSigmoid>(gate(0)), keep = unary<UnaryKind::kSigmoid>(gate(1));
      const F32 rest = args.bias == nullptr ? sums[2][r] : sums[2][r] + load(args.bias + i, at);
      const F32 made = tanh(fma(reset, rest, load(x + 2 * args.n_hidden, at)));
      const F32 before = args.h_from == nullptr ? zero() : load(args.h_from + own, at);
      store(args.h_to + own, fma(keep, before - made, made), at);
    } else {
      const F32 in = unary<UnaryKind::kSigmoid>(gate(0)), forget = unary<UnaryKind::kSigmoid>(gate(1));
      const F32 made = tanh(gate(2)), out = unary<UnaryKind::kSigmoid>(gate(3));
      const F32 before = args.c_from == nullptr ? zero() : load(args.c_from + own, at);
      const F32 cell = fma(forget, before, in * made);
      store(args.c_to + own, cell, at);
      store(args.h_to + own, out * tanh(cell), at);
    }
  }
}

template <bool kGru>
static void cells_of(const CellArgs& args) {
  for_each_vector(args.n_units, [&](std::int64_t i, auto at) {
    std::int64_t row = 0;
    for (; row + kCellRows <= args.n_rows; row += kCellRows) cell_rows<kGru, kCellRows>(args, row, i, at);
    for (; row + 2 <= args.n_rows; row += 2) cell_rows<kGru, 2>(args, row, i, at);
    for (; row < args.n_rows; ++row) cell_rows<kGru, 1>(args, row, i, at);
  });
}

static void cells(const CellArgs& args) { args.gru ? cells_of<true>(args) : cells_of<false>(args); }

}  // namespace weft::cpu::WEFT_CPU_ISA
