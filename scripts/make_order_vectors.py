#!/usr/bin/env python3
"""Writes tests/data/torch/order.txt: ops that count, move and order, attention and recurrent cells as PyTorch computes
them, in the format of make_numpy_vectors.py.

    pip install torch numpy && scripts/make_order_vectors.py > tests/data/torch/order.txt
"""
import numpy as np
import torch
import torch.nn.functional as F

from make_numpy_vectors import case as numpy_case
from make_numpy_vectors import floats as numpy_floats

rng = np.random.default_rng(11)


def case(name, parameters, operands, result):
    def plain(x):
        x = x.detach().numpy()
        return x if x.dtype == np.float32 else x.astype(np.int32)

    numpy_case(name, parameters, [plain(x) for x in operands], plain(result))


def floats(*shape, edges=False):
    return torch.from_numpy(numpy_floats(*shape, edges=edges))


def ints(low, high, *shape):
    return torch.from_numpy(rng.integers(low, high, shape))


def counting():
    for begin, end, step in [(0, 7, 1), (-3, 11, 4), (5, -6, -2), (3, 3, 1)]:
        # Beside a value, of whose graph it is.
        case("arange", [begin, end, step], [torch.zeros(1)], torch.arange(begin, end, step))
    x = torch.tensor([[0.0, -0.0, 1.9, -1.9, 2.5], [100000.75, -7.0, 3e8, -2147483648.0, 0.5]])
    case("cast_int", [], [x], x.int())
    a, b = ints(-9, 10, 4, 5), ints(-4, 5, 5)
    b[b == 0] = 3
    case("floor_divide", [], [a, b], torch.div(a, b, rounding_mode="floor"))
    case("remainder", [], [a, b], torch.remainder(a, b))
    for name, f in [("int_add", torch.add), ("int_sub", torch.sub), ("int_mul", torch.mul), ("int_max", torch.maximum),
                    ("int_min", torch.minimum), ("logical_and", torch.logical_and), ("logical_or", torch.logical_or)]:
        case(name, [], [a, b], f(a, b))
    case("logical_not", [], [a], torch.logical_not(a))
    case("int_scalar", [], [a], 3 - a * 2)
    case("int_where", [], [(a > 0).int(), a, b], torch.where(a > 0, a, b))
    x = floats(3, 7, edges=True)
    for name, f in [("isnan", torch.isnan), ("isinf", torch.isinf), ("isfinite", torch.isfinite), ("erf", torch.erf),
                    ("expm1", torch.expm1), ("log1p", torch.log1p)]:
        case(name, [], [x], f(x))
    small = floats(3, 7) * 1e-3
    for name, f in [("erf", torch.erf), ("expm1", torch.expm1), ("log1p", torch.log1p)]:
        case(name, [], [small], f(small))
    for axis in (0, 1, 2):
        x = floats(3, 2, 4)
        edges = floats(3, 2, 4, edges=True)
        case("prod", [axis], [x], torch.prod(x, axis))
        case("logsumexp", [axis], [edges], torch.logsumexp(edges, axis))
        case("logsumexp", [axis], [torch.full((3, 2, 4), -np.inf)], torch.logsumexp(torch.full((3, 2, 4), -np.inf), axis))
        case("argmin", [axis], [edges], torch.argmin(edges, axis))
        bits = ints(0, 2, 3, 2, 4)
        case("any", [axis], [bits], torch.any(bits != 0, axis))
        case("all", [axis], [bits], torch.all(bits != 0, axis))


def moving():
    x = floats(3, 4, 5)
    for axes in [(0,), (2,), (0, 2), (0, 1, 2)]:
        case("flip", axes, [x], torch.flip(x, axes))
        case("flip_cumsum", [axes[0]], [x], torch.flip(torch.cumsum(torch.flip(x, axes[:1]), axes[0]), axes[:1]))
    for axis in (0, 1, 3):
        case("stack", [axis], [x, x * 2], torch.stack([x, x * 2], axis))
    case("split", [1], [x], torch.split(x, [1, 3], 1)[1])
    for axis in (0, 1, 2):
        case("repeat", [3, axis], [x], torch.repeat_interleave(x, 3, axis))
        times = [1, 1, 1]
        times[axis] = 3
        case("tile", [3, axis], [x], x.repeat(times))
    for diagonal in (-2, 0, 1, 9):
        case("tril", [diagonal], [x], torch.tril(x, diagonal))
        case("triu", [diagonal], [x], torch.triu(x, diagonal))
        whole = ints(-9, 9, 4, 6)
        case("tril", [diagonal], [whole], torch.tril(whole, diagonal))
    i = ints(0, 6, 4, 3)
    case("one_hot", [6], [i], F.one_hot(i, 6).float())
    for axis in (0, 1, 2):
        shape = [3, 4, 5]
        size, shape[axis] = shape[axis], 6
        i, source = ints(0, size, *shape), floats(*shape)
        case("take_along_axis", [axis], [x, i], torch.gather(x, axis, i))
        case("scatter_add", [axis], [x, i, source], torch.scatter_add(x, axis, i, source))
        rows = ints(0, size, 6)
        case("take", [axis], [x, rows], torch.index_select(x, axis, rows))
        case("index_add", [axis], [x, rows, source], torch.index_add(x, axis, rows, source))
        own = torch.from_numpy(rng.permutation(size)[:2])
        shape[axis] = 2
        source = floats(*shape)
        case("set_rows", [axis], [x, own, source], torch.index_copy(x, axis, own, source))
        i = torch.argsort(floats(3, 4, 5), axis).narrow(axis, 0, 2).contiguous()
        case("scatter", [axis], [x, i, source], torch.scatter(x, axis, i, source))
    i = ints(0, 5, 2, 3)
    flat = floats(5, 4)
    case("take", [0], [flat, i], flat[i])


def ordering():
    for shape in [(3, 5, 4), (1, 9, 1), (2, 0, 3)]:
        for axis in (0, 1, 2):
            x, whole = floats(*shape), ints(-5, 5, *shape)
            case("cumsum", [axis], [x], torch.cumsum(x, axis))
            case("cumsum", [axis], [whole], torch.cumsum(whole, axis))
            edges = floats(*shape, edges=True)
            for descending in (0, 1):
                order = torch.sort(edges, dim=axis, descending=bool(descending), stable=True)
                case("argsort", [axis, descending], [edges], order.indices)
                case("sort", [axis, descending], [edges], order.values)
                case("argsort", [axis, descending], [whole],
                     torch.sort(whole, dim=axis, descending=bool(descending), stable=True).indices)


def sequences():
    for axis in (0, 1, 2):
        x = floats(3, 5, 4)
        case("softmax", [axis], [x], torch.softmax(x, axis))
    for b, h, g, m, n, d, e in [(2, 3, 3, 5, 7, 8, 8), (1, 4, 2, 9, 9, 5, 3), (1, 2, 1, 1, 70, 4, 3)]:
        q, k, v = floats(b, h, m, d), floats(b, g, n, d), floats(b, g, n, e)
        wide = [x.repeat_interleave(h // g, 1) for x in (k, v)]
        case("attention", [0], [q, k, v], F.scaled_dot_product_attention(q, *wide))
        case("attention", [1], [q, k, v], F.scaled_dot_product_attention(q, *wide, is_causal=True))
        bias = floats(h, m, n)
        case("attention", [0], [q, k, v, bias], F.scaled_dot_product_attention(q, *wide, attn_mask=bias))
        mask = ints(0, 2, m, n)
        mask[:, 0] = 1
        case("attention", [0], [q, k, v, mask], F.scaled_dot_product_attention(q, *wide, attn_mask=mask != 0))
        scores = torch.where(mask != 0, q @ wide[0].transpose(-1, -2) / d**0.5, torch.tensor(-np.inf))
        case("attention_parts", [], [q, wide[0], wide[1], mask], torch.softmax(scores, -1) @ wide[1])
    for t, b, i, h in [(5, 3, 4, 6), (1, 1, 3, 5), (3, 2, 3, 17)]:
        x, h0, c0 = floats(t, b, i), floats(1, b, h), floats(1, b, h)
        with torch.no_grad():
            cell = torch.nn.LSTM(i, h)
            parts = x @ cell.weight_ih_l0.T + cell.bias_ih_l0 + cell.bias_hh_l0
            y, (hn, cn) = cell(x, (h0, c0))
            for which, result in list(enumerate((y, hn[0], cn[0])))[:1 if h > 16 else 3]:
                case("lstm", [which], [parts, cell.weight_hh_l0, h0[0], c0[0]], result)
            if h < 16:
                case("lstm", [0], [parts, cell.weight_hh_l0], cell(x)[0])
            cell = torch.nn.GRU(i, h)
            own = torch.cat([cell.bias_hh_l0[:2 * h], torch.zeros(h)])
            parts = x @ cell.weight_ih_l0.T + cell.bias_ih_l0 + own
            y, hn = cell(x, h0)
            for which, result in list(enumerate((y, hn[0])))[:1 if h > 16 else 2]:
                case("gru", [which], [parts, cell.weight_hh_l0, h0[0], cell.bias_hh_l0[2 * h:]], result)


if __name__ == "__main__":
    torch.manual_seed(3)
    counting()
    moving()
    ordering()
    sequences()
