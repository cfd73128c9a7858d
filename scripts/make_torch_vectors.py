#!/usr/bin/env python3
"""Writes tests/data/torch/cases.txt: ops over windows of images as PyTorch computes them.

    pip install torch numpy && scripts/make_torch_vectors.py > tests/data/torch/cases.txt

The file is written as make_numpy_vectors.py says. Parameters come in the order of the C++ functions, numbers for a
height and a width as two.
"""
import numpy as np
import torch
import torch.nn.functional as F

from make_numpy_vectors import floats, line


def case(name, parameters, operands, result):
    print("case", name, *[int(p) for p in parameters])
    for operand in operands:
        line("in", operand.numpy())
    line("out", result.numpy())


def tensor(*shape, edges=False):
    return torch.from_numpy(np.asarray(floats(*shape, edges=edges)))


def convolutions():
    for x_shape, w_shape, stride, padding, dilation, groups in [
        ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((1, 4, 6, 5), (6, 2, 3, 2), (2, 1), (1, 0), (1, 2), 2),
        ((1, 5, 7, 6), (5, 1, 3, 3), (2, 2), (1, 1), (1, 1), 5),
        ((1, 3, 3, 4), (17, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
        ((2, 2, 1, 12), (3, 2, 1, 4), (1, 3), (0, 2), (1, 1), 1),
    ]:
        x, w, b = tensor(*x_shape), tensor(*w_shape), tensor(w_shape[0])
        y = F.conv2d(x, w, b, stride, padding, dilation, groups)
        case("conv2d", [*stride, *padding, *dilation, groups], [x, w, b], y)
    x, w, b = tensor(1, 2, 4, 5, edges=True), tensor(3, 2, 3, 3), tensor(3)
    case("conv2d", [1, 1, 0, 0, 1, 1, 1], [x, w, b], F.conv2d(x, w, b))
    for x_shape, w_shape, stride, padding, output_padding, dilation, groups in [
        ((2, 3, 3, 4), (3, 2, 3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
        ((1, 4, 3, 3), (4, 2, 2, 4), (1, 3), (0, 1), (0, 2), (1, 1), 2),
        ((1, 2, 3, 3), (2, 3, 3, 2), (3, 2), (2, 0), (1, 0), (2, 1), 1),
    ]:
        x, w, b = tensor(*x_shape), tensor(*w_shape), tensor(w_shape[1] * groups)
        y = F.conv_transpose2d(x, w, b, stride, padding, output_padding, groups, dilation)
        case("conv_transpose2d", [*stride, *padding, *output_padding, *dilation, groups], [x, w, b], y)


def pools():
    for kernel, stride, padding in [((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 3), (1, 1)), ((4, 3), (3, 2), (2, 1))]:
        for edges in (False, True):
            x = tensor(2, 2, 5, 6, edges=edges)
            numbers = [*kernel, *stride, *padding]
            case("max_pool2d", numbers, [x], F.max_pool2d(x, kernel, stride, padding))
            for counted in (False, True):
                y = F.avg_pool2d(x, kernel, stride, padding, count_include_pad=counted)
                case("avg_pool2d", [*numbers, counted], [x], y)


def sizes():
    for size in [(6, 8), (5, 3), (1, 1), (3, 4)]:
        for edges in (False, True):
            x = tensor(1, 2, 3, 4, edges=edges)
            case("resize_nearest", size, [x], F.interpolate(x, size, mode="nearest"))
            for corners in (False, True):
                y = F.interpolate(x, size, mode="bilinear", align_corners=corners)
                case("resize_bilinear", [*size, corners], [x], y)
    x = tensor(1, 2, 3, 2)
    case("upsample_nearest", (2, 3), [x], F.interpolate(x, scale_factor=(2.0, 3.0), mode="nearest"))
    case("upsample_bilinear", (2, 3, 0), [x], F.interpolate(x, scale_factor=(2.0, 3.0), mode="bilinear"))


def norms():
    x, mean, var, w, b = tensor(2, 4, 3, 2), tensor(4), tensor(4) ** 2, tensor(4), tensor(4)
    case("batch_norm", [], [x, mean, var, w, b], F.batch_norm(x, mean, var, w, b))
    for groups in (1, 2, 4):
        case("group_norm", [groups], [x, w, b], F.group_norm(x, groups, w, b))


if __name__ == "__main__":
    convolutions()
    pools()
    sizes()
    norms()
