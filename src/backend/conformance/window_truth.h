#pragma once
// The definitions of ops over windows of images (see truth.h). An empty bias is left out.
#include "backend/conformance/general_truth.h"

namespace weft::conformance {

Tensor conv2d(const ops::Conv2d& op, const Tensor& x, const Tensor& weight, const Values& bias);
/// Every element of x adds its multiple of the kernel.
Tensor conv_transpose2d(const ops::ConvTranspose2d& op, const Tensor& x, const Tensor& weight,
                        const Values& bias);
Tensor pool2d(const ops::Pool2d& op, const Tensor& x);
/// To a size of numbers.
Tensor resize2d(const ops::Resize2d& op, const Tensor& x);

}  // namespace weft::conformance
