"""Values of the golden models that compress well: few different weights, and references without a last byte."""
import numpy as np
import torch

LEVELS = torch.tensor([-1.5, -0.875, -0.5, -0.1875, 0.1875, 0.5, 0.875, 1.5])


def coarse(weight):
    """A random weight with F16 values. Matrices have eight levels times a power of two, about 3 bits a value.

    The low byte of each level is zero in F16. Vectors, constants and weights with a mean keep their values.
    """
    spread = weight.std() if weight.dim() > 1 else torch.tensor(0.0)
    if not spread > 2 * weight.mean().abs():
        return weight.half().float()
    scale = 2.0 ** spread.log2().round()
    return LEVELS[torch.bucketize(weight / scale, (LEVELS[1:] + LEVELS[:-1]) / 2)] * scale


def reference_bytes(values):
    """Float32 with 15 bits of the fraction: the error is below 2^-16 of a value, far below the tests' limits."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    return ((bits + 0x7F + (bits >> 8 & 1)) & 0xFFFFFF00).astype("<u4").tobytes()
