// Elements of whole numbers (elementwise.h).
#include <limits>

#include "backend/cpu/launches/elementwise.h"

namespace weft::cpu {
namespace {

using Ints = Elements<std::int32_t>;

Ints ints(const ElementRun& run) { return {reinterpret_cast<const std::int32_t*>(run.at), run.one}; }

template <typename F>
void each(Ints a, Ints b, std::int64_t n, std::int32_t* out, F f) {
  // Separate loops for a repeated operand and for two rows, which a compiler vectorizes.
  if (a.one) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a.at[0], b.at[b.one ? 0 : i]);
  } else if (b.one) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a.at[i], b.at[0]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a.at[i], b.at[i]);
  }
}

std::uint32_t bits(std::int32_t x) { return static_cast<std::uint32_t>(x); }

/// Rounded down; by 0: 0. In 64 bits, where the least number divided by -1 is one.
std::int32_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  const std::int64_t quotient = a / b;
  return static_cast<std::int32_t>(quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
}
std::int32_t remainder(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  const std::int64_t rest = a % b;
  return static_cast<std::int32_t>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

std::int32_t whole(float x) {
  if (x != x) return 0;
  if (x >= 0x1p31f) return std::numeric_limits<std::int32_t>::max();
  if (x <= -0x1p31f) return std::numeric_limits<std::int32_t>::min();
  return static_cast<std::int32_t>(x);
}

}  // namespace

void compute_elements(const ops::IntBinary& op, const Kernels&, std::span<const ElementRun> in,
                      std::int64_t n, std::byte* out) {
  Ints a = ints(in[0]), b = in.size() > 1 ? ints(in[1]) : Ints{&op.scalar, true};
  if (op.scalar_first) std::swap(a, b);
  auto* const to = reinterpret_cast<std::int32_t*>(out);
  using I = std::int32_t;
  switch (op.kind) {
    case IntKind::kAdd:
      return each(a, b, n, to, [](I x, I y) { return static_cast<I>(bits(x) + bits(y)); });
    case IntKind::kSub:
      return each(a, b, n, to, [](I x, I y) { return static_cast<I>(bits(x) - bits(y)); });
    case IntKind::kMul:
      return each(a, b, n, to, [](I x, I y) { return static_cast<I>(bits(x) * bits(y)); });
    case IntKind::kFloorDivide:
      return each(a, b, n, to, [](I x, I y) { return floor_divide(x, y); });
    case IntKind::kRemainder:
      return each(a, b, n, to, [](I x, I y) { return remainder(x, y); });
    case IntKind::kMaximum:
      return each(a, b, n, to, [](I x, I y) { return x > y ? x : y; });
    case IntKind::kMinimum:
      return each(a, b, n, to, [](I x, I y) { return x < y ? x : y; });
    case IntKind::kAnd:
      return each(a, b, n, to, [](I x, I y) { return static_cast<I>(x != 0 && y != 0); });
    case IntKind::kOr:
      return each(a, b, n, to, [](I x, I y) { return static_cast<I>(x != 0 || y != 0); });
  }
}

void compute_elements(const ops::Cast& op, const Kernels&, std::span<const ElementRun> in, std::int64_t n,
                      std::byte* out) {
  if (op.to == DType::kI32) {
    const auto* const from = reinterpret_cast<const float*>(in[0].at);
    for (std::int64_t i = 0; i < n; ++i) reinterpret_cast<std::int32_t*>(out)[i] = whole(from[i]);
  } else {
    const auto* const from = reinterpret_cast<const std::int32_t*>(in[0].at);
    for (std::int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(out)[i] = static_cast<float>(from[i]);
  }
}

}  // namespace weft::cpu
