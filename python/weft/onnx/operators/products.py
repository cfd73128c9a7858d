"""Products of matrices, and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import UnsupportedError
from ..build import Node, Tensor, type_name
from ..known import product, sizes
from .common import BOOL, Value
from .moves import padded


def factor(at: Node, x: Any) -> Value:
    """A factor of a product of two values."""
    return at.builder.fixed_input(x) if isinstance(x, np.ndarray) else at.value(x)


def rows_times(v: Value, weight: Value, bias: Value | None = None) -> Value:
    """linear over the last axis of a value with any number of axes."""
    if v.ndim == 2:
        return ops.linear(v, weight, bias)
    rows = ops.reshape(v, (product(v.shape[:-1]), v.shape[-1]))
    return ops.reshape(ops.linear(rows, weight, bias), (*v.shape[:-1], weight.shape[0]))


def matmul(at: Node, a: Any, b: Any) -> Any:
    if at.is_whole(a):
        raise UnsupportedError(f"weft does not have it for {type_name(at.type(a))}")
    kind = at.type(a)
    v = factor(at, a)
    is_row, is_column = v.ndim == 1, len(b.shape) == 1
    if is_row:
        v = ops.unsqueeze(v, 0)
    if isinstance(b, np.ndarray) and b.ndim == 2:
        made = rows_times(v, at.weight(at.builder.transposed(b)))
    else:
        w = factor(at, b)
        made = ops.matmul(v, ops.unsqueeze(w, 1) if is_column else w)
    if is_column:
        made = ops.squeeze(made, -1)
    if is_row:
        made = ops.squeeze(made, -1 if is_column else -2)
    return Tensor(made, kind)


def gemm(at: Node, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
         broadcast: int = 0) -> Any:  # fmt: skip
    v = factor(at, a)
    if v.dtype != "f32":
        raise UnsupportedError(f"weft does not have it for {type_name(at.type(a))}")
    if transA:
        v = ops.transpose(v)
    bias = None
    if isinstance(b, np.ndarray):
        # A row of numbers for all rows is the layer's own.
        if isinstance(c, np.ndarray) and c.shape == (b.shape[0 if transB else 1],) and alpha == beta == 1.0:
            bias, c = at.value(c), None
        made = ops.linear(v, at.weight(b if transB else at.builder.transposed(b)), bias)
    else:
        made = ops.matmul(v, ops.transpose(at.value(b)) if transB else at.value(b))
    if alpha != 1.0:
        made = made * alpha
    if c is not None:
        made = made + (at.value(c) if beta == 1.0 else at.value(c) * beta)
    return Tensor(made, at.type(a))


def einsum(at: Node, *all: Any, equation: str) -> Any:
    terms, _, result = equation.replace(" ", "").partition("->")
    inputs = terms.split(",")
    if "..." in equation or len(inputs) > 2 or any(len(set(one)) < len(one) for one in [*inputs, result]):
        raise UnsupportedError(f"weft does not have the equation {equation!r}")
    if "->" not in equation:
        letters = "".join(inputs)
        result = "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    parts = []
    for place, (names, x) in enumerate(zip(inputs, all, strict=True)):
        others = result + "".join(inputs[:place] + inputs[place + 1 :])
        alone = [i for i, name in enumerate(names) if name not in others]
        v = factor(at, x)
        parts.append(("".join(name for name in names if name in others), ops.sum(v, alone, False) if alone else v))
    names, made = parts[0]
    if len(parts) == 2:
        (left, a), (right, b) = parts
        size_of = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
        batch = [name for name in left if name in right and name in result]
        rows = [name for name in left if name not in right]
        columns = [name for name in right if name not in left]
        inner = [name for name in left if name in right and name not in result]

        def matrices(v: Value, own: str, *groups: Sequence[str]) -> Value:
            v = ops.permute(v, [own.index(name) for group in groups for name in group]) if v.ndim else v
            return ops.reshape(v, [product(size_of[name] for name in group) for group in groups])

        made = ops.matmul(matrices(a, left, batch, rows, inner), matrices(b, right, batch, inner, columns))
        names = "".join([*batch, *rows, *columns])
        made = ops.reshape(made, [size_of[name] for name in names])
    return ops.permute(made, [names.index(name) for name in result]) if result else made


def attention(at: Node, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None, lengths: Any = None, *,
              is_causal: int = 0, kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
              right_window_size: int = -1, scale: float = 0.0, softcap: float = 0.0, softmax_precision: int = 1) -> Any:  # fmt: skip
    if len(at.wanted) > 3 and at.wanted[3]:
        raise UnsupportedError("weft does not give the scores of attention")
    is_flat = len(q.shape) == 3

    def heads(x: Any, n: int) -> Value:
        if not is_flat:
            return at.value(x)
        b, s, width = x.shape
        return ops.permute(ops.reshape(at.value(x), (b, s, n, width // n)), [0, 2, 1, 3])

    queries, keys, values = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    past: Any = 0
    if past_key is not None:
        past = past_key.shape[2]
        keys, values = ops.concat([at.value(past_key), keys], 2), ops.concat([at.value(past_value), values], 2)
    graph, m, n = queries.graph, queries.shape[2], keys.shape[2]
    key, seen = ops.reshape(ops.arange(graph, 0, n), (1, 1, 1, n)), None

    def see(allowed: Value) -> None:
        nonlocal seen
        seen = allowed if seen is None else ops.logical_and(seen, allowed)

    plain = is_causal and lengths is None and isinstance(past, int) and past == 0
    if left_window_size >= 0 or right_window_size >= 0 or (is_causal and not plain) or lengths is not None:
        place = ops.reshape(ops.arange(graph, past, past + m), (1, 1, m, 1))
        if lengths is not None:
            held = ops.reshape(at.value(lengths), (lengths.shape[0], 1, 1, 1))
            see(ops.less(key, held))
            if past_key is None:
                place = place + (held - m if isinstance(m, int) else held - at.value(sizes([m])))
        if is_causal:
            see(ops.less_equal(key, place))
            plain = False
        if left_window_size >= 0:
            see(ops.greater_equal(key, place - left_window_size))
        if right_window_size >= 0:
            see(ops.less_equal(key, place + right_window_size))
    bias = None
    if mask is not None:
        bias = at.value(mask)
        if bias.shape[-1] != n:
            bias = padded(bias, bias.ndim - 1, 0, n - bias.shape[-1], 0 if at.type(mask) == BOOL else -math.inf)
        if at.type(mask) == BOOL:
            see(bias)
            bias = None
    if seen is not None:
        bias = seen if bias is None else ops.where(seen, bias, -math.inf)
    made = ops.scaled_dot_product_attention(queries, keys, values, bias, bool(plain), scale, softcap)
    if is_flat:
        made = ops.permute(made, [0, 2, 1, 3])
        made = ops.reshape(made, (made.shape[0], made.shape[1], made.shape[2] * made.shape[3]))
    return [made, keys, values][: at.n_outputs]
