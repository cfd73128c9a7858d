"""Rows of ops over sequences: softmax along any axis, attention, recurrent cells."""
import math

import torch
import torch.nn.functional as F

from rows import SUMS, Noise, Row

CELL = Noise(result=6e-7, operands=8e-7, absolute=2e-7)  # 1 - a sigmoid is as exact as 1 is.


def draw_softmax(g):
    x = g.value(min_rank=1)
    rank = len(g.shape(x))
    return [x], {"axis": g.rng.randrange(-rank, rank)}


def softmax(p, x):
    """Zeros for a row of only -infinity, as masks make them; torch gives NaN."""
    axis = p["axis"]
    if x.shape[axis] == 0:
        return x.clone()
    return torch.where((x == -math.inf).all(axis, keepdim=True), 0.0, torch.softmax(x, axis))


def draw_attention(g):
    rank = g.rng.choice([2, 3, 4, 4])
    heads = 1 if rank == 2 else g.rng.choice([1, 2, 3, 4, 6])
    groups = g.rng.choice([n for n in (1, 2, 3, 6) if heads % n == 0])
    texts = g.rng.choice([1, 2, 3]) if rank == 4 else 1
    m, n = g.rng.choice([1, 1, 2, 5, 17, 20]), g.rng.choice([1, 3, 8, 17, 33, 70])
    d, e = g.rng.choice([1, 4, 5, 8, 16, 20]), g.rng.choice([1, 3, 4, 8, 16])
    shapes = [[texts, heads, m, d], [texts, groups, n, d], [texts, groups, n, e]]
    g.constant |= {heads, groups}
    q, k, v = (g.permuted(shape[4 - rank:]) for shape in shapes)
    p = {"causal": g.rng.random() < 0.3, "scale": g.rng.choice([0.0, 0.0, 0.125, 1.5]),
         "softcap": g.rng.choice([0.0, 0.0, 5.0]), "bias": "", "sinks": False}
    scores = [1 if g.rng.random() < 0.25 else size for size in [texts, heads, m, n]][g.rng.randrange(4):]
    more = []
    if g.rng.random() < 0.25:
        p["bias"] = "f32"
        bias = g.leaf(scores, "f32", plain=True)
        if g.rng.random() < 0.4:  # A mask as other programs have it.
            seen = g.leaf(scores, "i32", low=0, high=2)
            bias = g.apply("where", [seen, bias], {"number": -math.inf})
        more.append(bias)
    elif g.rng.random() < 0.3:
        p["bias"] = "i32"
        more.append(g.leaf(scores, "i32", low=-1, high=2))
    if g.rng.random() < 0.2:
        p["sinks"] = True
        more.append(g.vector(heads))
    return [q, k, v, *more], p


def attention(p, q, k, v, *more):
    """Where torch has all of it, its attention; its parts elsewhere."""
    rank = q.dim()
    q, k, v = (x.reshape([1] * (4 - rank) + list(x.shape)) for x in (q, k, v))
    m, n, heads, scale = q.shape[2], k.shape[2], q.shape[1], p["scale"] or q.shape[3] ** -0.5
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    bias = more[0] if p["bias"] else torch.zeros(1, dtype=q.dtype)
    if p["bias"] == "i32":
        bias = torch.zeros(bias.shape, dtype=q.dtype).masked_fill(bias == 0, -math.inf)
    bias = bias.to(q.dtype).broadcast_to([q.shape[0], heads, m, n])
    if p["causal"]:
        bias = bias.masked_fill(~torch.ones(m, n, dtype=torch.bool).tril(), -math.inf)
    if p["softcap"] == 0.0 and not p["sinks"]:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        y = y.masked_fill((bias == -math.inf).all(-1, keepdim=True), 0.0)
    else:
        scores = q @ k.transpose(2, 3) * scale
        if p["softcap"] > 0.0:
            scores = p["softcap"] * torch.tanh(scores / p["softcap"])
        scores = scores + bias
        if p["sinks"]:
            scores = torch.cat([scores, more[-1].to(q.dtype).reshape(1, -1, 1, 1).expand(q.shape[0], heads, m, 1)], 3)
        y = softmax({"axis": -1}, scores)[..., :n] @ v
    return y.reshape(y.shape[4 - rank:])


def draw_cell(n_gates):
    def draw(g):
        t, b, h = g.rng.choice([1, 2, 3, 7]), g.rng.choice([1, 2, 3, 9]), g.rng.choice([1, 2, 5, 8, 16, 17])
        if g.rng.random() < 0.5:
            x = g.leaf([t, b, n_gates * h], "f32", plain=True)
        else:
            inputs = g.rng.randint(1, 9)
            rows = g.apply("linear", [g.leaf([t * b, inputs], "f32", plain=True),
                                      g.leaf([n_gates * h, inputs], "f32", kind="weight", plain=True),
                                      g.leaf([n_gates * h], "f32", kind="weight", plain=True)], {})
            x = g.apply("reshape", [rows], {"shape": [t, b, n_gates * h]})
        p = {"which": g.rng.randrange(3 if n_gates == 4 else 2), "h0": False, "last": False}
        more = []
        if g.rng.random() < 0.6:
            p["h0"] = True
            more.append(g.leaf([b, h], "f32", plain=True))
        if g.rng.random() < 0.6:
            p["last"] = True
            more.append(g.leaf([b, h], "f32", plain=True) if n_gates == 4 else g.vector(h))
        return [x, g.leaf([n_gates * h, h], "f32", kind="weight", plain=True), *more], p
    return draw


def states(p, x, weight, more):
    """What torch starts with, and the last of the operands, or None."""
    h0 = more[0] if p["h0"] else torch.zeros(x.shape[1], weight.shape[1])
    return h0.to(x.dtype)[None], more[-1].to(x.dtype) if p["last"] else None


def run_cell(cell, x, weight, bias, start):
    """A cell of torch's that takes its gates' inputs as they are."""
    own = torch.eye(x.shape[2], dtype=x.dtype)
    return cell(x, start, [own, weight.to(x.dtype), torch.zeros_like(bias), bias], True, 1, 0.0, False, False, False)


def lstm(p, x, weight, *more):
    h0, c0 = states(p, x, weight, more)
    start = (h0, torch.zeros_like(h0) if c0 is None else c0[None])
    y, h, c = run_cell(torch.lstm, x, weight, torch.zeros(x.shape[2], dtype=x.dtype), start)
    return [y, h[0], c[0]][p["which"]]


def gru(p, x, weight, *more):
    h0, last = states(p, x, weight, more)
    size = weight.shape[1]
    bias = torch.zeros(3 * size, dtype=x.dtype)
    if last is not None:
        bias[2 * size:] = last
    y, h = run_cell(torch.gru, x, weight, bias, h0)
    return [y, h[0]][p["which"]]


TABLE = [
    Row("softmax_axis", draw_softmax, softmax, SUMS),
    Row("attention", draw_attention, attention, SUMS, weight=5),
    Row("lstm", draw_cell(4), lstm, CELL, weight=2, least=True),
    Row("gru", draw_cell(3), gru, CELL, weight=2, least=True),
]
