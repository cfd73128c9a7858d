#!/usr/bin/env python3
"""Writes tests/data/numpy/cases.txt: ops over values of any rank as NumPy computes them.

    pip install numpy && scripts/make_numpy_vectors.py > tests/data/numpy/cases.txt

A case is a line "case NAME PARAMETER ...", one line "in TYPE SIZE ... : ELEMENT ..." for each operand, and one "out"
line in the same form. Floats have enough digits to be unique.
"""
import numpy as np

rng = np.random.default_rng(7)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -3.5], dtype=np.float32)


def floats(*shape, edges=False):
    values = rng.uniform(-3, 3, shape).astype(np.float32)
    if edges:
        where = rng.random(shape) < 0.3
        values = np.where(where, rng.choice(EDGES, shape), values).astype(np.float32)
    return values


def line(kind, value):
    value = np.asarray(value)
    if value.dtype == np.float32:
        elements = [np.format_float_positional(v, trim="-") if 1e-4 < abs(v) < 1e7 else str(v) for v in value.ravel()]
        dtype = "f32"
    else:
        elements = [str(int(v)) for v in value.ravel()]
        dtype = "i32"
    print(kind, dtype, *value.shape, ":", *elements)


def case(name, parameters, operands, result):
    print("case", name, *parameters)
    for operand in operands:
        line("in", operand)
    if result.dtype != np.float32:
        result = result.astype(np.int32)
    line("out", result)


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "sqrt": np.sqrt, "rsqrt": lambda x: np.float32(1) / np.sqrt(x),
    "reciprocal": np.reciprocal, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "sigmoid": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)), "floor": np.floor, "ceil": np.ceil, "round": np.round,
}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum,
    "pow": np.power, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "var": np.var}
PAIRS = [((3, 7), (3, 7)), ((4, 1, 5), (3, 1)), ((6,), (2, 1)), ((), (3,)), ((2, 3, 1, 2), (3, 2, 1))]


def main():
    for name, f in UNARY.items():
        for shape in [(3, 9), ()]:
            x = floats(*shape, edges=True)
            case(name, [], [x], f(x))
    x = floats(4, 6, edges=True)
    case("clamp", [-1, 2], [x], np.clip(x, np.float32(-1), np.float32(2)))
    for name, f in BINARY.items():
        for a_shape, b_shape in PAIRS:
            a, b = floats(*a_shape, edges=True), floats(*b_shape, edges=True)
            case(name, [], [a, b], f(a, b))
    for c_shape, a_shape, b_shape in [((3, 5), (3, 5), (3, 5)), ((4, 1), (6,), (1,)), ((2, 1, 3), (4, 1), ())]:
        c, a, b = rng.integers(0, 2, c_shape).astype(np.int32), floats(*a_shape, edges=True), floats(*b_shape, edges=True)
        case("where", [], [c, a, b], np.where(c != 0, a, b))
    for name, f in REDUCE.items():
        for axes in [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]:
            for edges in (False, True):
                x = floats(3, 2, 4, edges=edges and name in ("max", "min"))
                for keep in (0, 1):
                    case(name, [keep, *axes], [x], f(x, axis=axes, keepdims=bool(keep)))
    for axis in (0, 1, 2):
        for edges in (False, True):
            x = floats(3, 2, 4, edges=edges)
            x[1] = np.round(x[1])
            case("argmax", [axis], [x], np.argmax(x, axis=axis))
    for a_shape, b_shape in [((5, 7), (7, 3)), ((2, 1, 4, 6), (3, 6, 5)), ((3, 4, 2), (2, 9)), ((1, 20), (20, 1))]:
        a, b = floats(*a_shape), floats(*b_shape)
        case("matmul", [], [a, b], a @ b)
        case("matmul_nt", [], [a, np.swapaxes(b, -1, -2)], a @ b)
        case("matmul_tn", [], [np.swapaxes(a, -1, -2), b], a @ b)
    x = floats(3, 4, 5)
    for axes in [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)]:
        case("permute", axes, [x], np.transpose(x, axes))
    for axis, begin, end, step in [(0, 1, 3, 1), (1, 0, -1, 2), (2, -3, 5, 1), (2, 0, 5, 3), (1, 2, 2, 1)]:
        index = [slice(None)] * 3
        index[axis] = slice(begin, end, step)
        case("slice", [axis, begin, end, step], [x], x[tuple(index)])
    for shape in [(60,), (12, 5), (3, 2, 2, 5), (5, 12)]:
        case("reshape", shape, [x], np.reshape(x, shape))
        turned = np.reshape(np.transpose(x, (2, 0, 1)), shape)
        case("permute_reshape", shape, [x], turned)
    case("broadcast_to", (2, 3, 4, 5), [x], np.broadcast_to(x, (2, 3, 4, 5)))
    for axis in (0, 1, 2):
        shapes = [[3, 4, 5], [3, 4, 5], [3, 4, 5]]
        shapes[1][axis], shapes[2][axis] = 1, 2
        parts = [floats(*shape) for shape in shapes]
        case("concat", [axis], parts, np.concatenate(parts, axis))
        widths = [(0, 0)] * 3
        widths[axis] = (2, 1)
        case("pad", [axis, 2, 1], [x], np.pad(x, widths))


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
