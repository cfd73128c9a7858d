#pragma once
// The variants that an op and its kernels both name.
#include <cstdint>

namespace weft {

/// Formulas: kGelu is the tanh form, kGeluErf the exact one, kGeluQuick x * sigmoid(1.702 x).
enum class Activation : std::uint8_t { kNone, kSilu, kGelu, kGeluErf, kGeluQuick, kRelu, kReluSquared };

/// kRms: x / sqrt(mean(x^2) + eps); kLayer: (x - mean) / sqrt(var + eps).
enum class NormKind : std::uint8_t { kRms, kLayer };

/// What a cache holds: devices lay keys and values out differently.
enum class CacheRole : std::uint8_t { kKeys, kValues };

}  // namespace weft
