"""THE table of ops that are held against PyTorch's: how each draws its operands and parameters, and what torch
computes.

To add an op, add a row here or in the file of its kind. Add a function of the same name in functions.cpp or that kind's
file.
"""
import torch
import torch.nn.functional as F

import op_table_order
import op_table_sequence
import op_table_windows
from rows import (CLOSE, CURVE, EXACT, MAX_RANK, ROUNDED, SUMS, Noise, Row, arithmetic, binary, comparison, largest, matrix, one,
                  over, reduction, two)


def draw_argmax(g):
    x = g.value(min_rank=1)
    axis = g.rng.randrange(len(g.shape(x)))
    if g.shape(x)[axis] == 0:
        return None
    return [x], {"axis": axis, "keep": g.rng.random() < 0.5}


def compare_operands(g):
    if g.rng.random() < 0.3 and g.find(dtype="i32") is not None:
        a = g.find(dtype="i32")
        return [a, g.partner(a, "i32")], {}
    a = g.value()
    if g.rng.random() < 0.2:
        return [a], {"number": g.number()}
    return [a, g.partner(a, "f32")], {}


def draw_where(g):
    condition = g.find(dtype="i32")
    if condition is None or g.rng.random() < 0.3:
        condition = g.leaf(g.new_shape(), "i32", low=0, high=1)
    a = g.partner(condition, "f32")
    if g.rng.random() < 0.3:
        return [condition, a], {"number": g.number()}
    shape = g.broadcast(condition, a)
    return [condition, a, g.partner_of_shape(shape, "f32")], {}


def compute_where(p, condition, a, *b):
    return torch.where(condition != 0, a, b[0] if b else torch.tensor(p["number"], dtype=torch.float32).to(a.dtype))


def softmax(p, x):
    """Zeros for a row of only -infinity, as masks make them; torch gives NaN."""
    if x.shape[-1] == 0:
        return x.clone()
    return torch.where((x == float("-inf")).all(-1, keepdim=True), 0.0, torch.softmax(x, -1))


def draw_norm(n_vectors):
    def draw(g):
        x = g.value(min_rank=1)
        width = g.shape(x)[-1]
        if width == 0:
            return None
        vectors = [g.leaf([width], "f32", kind=g.rng.choice(["weight", "input"]))
                   for _ in range(g.rng.randrange(n_vectors + 1))]
        return [x, *vectors], {"eps": g.rng.choice([1e-5, 1e-6, 0.1])}
    return draw


def layer_norm(p, x, weight=None, bias=None):
    centred = x - x.mean(-1, keepdim=True)
    y = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + p["eps"])
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(p, x, weight=None):
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + p["eps"])
    return y if weight is None else y * weight


def draw_normalize(g):
    x = g.value(min_rank=1)
    return ([x], {"eps": 1e-12}) if g.shape(x)[-1] > 0 else None


def draw_matmul(g):
    a = g.value(min_rank=2)
    shape = g.shape(a)
    k, n, batch = shape[-1], g.size(), list(shape[:-2])
    batch = [1 if g.rng.random() < 0.2 else size for size in batch[g.rng.randrange(len(batch) + 1):]]
    if g.rng.random() < 0.3:  # The other way round, as transposed operands come.
        b = g.apply("transpose", [g.leaf([*batch, n, k], "f32")], {"a": -2, "b": -1})
    else:
        b = g.exactly([*batch, k, n])
    return [a, b], {}


def draw_linear(g):
    x = matrix(g)
    inputs, outputs = g.shape(x)[1], max(1, g.size())
    if inputs == 0:
        return None
    weight = g.leaf([outputs, inputs], g.rng.choice(["f32", "f16", "bf16"]), kind="weight", plain=True)
    bias = [g.leaf([outputs], "f32", kind="weight", plain=True)] if g.rng.random() < 0.5 else []
    return [x, weight, *bias], {}


def compute_linear(p, x, weight, bias=None):
    y = x @ weight.t()
    return y if bias is None else y + bias


def draw_conv1d(g):
    x = matrix(g)
    n, inputs = g.shape(x)
    kernel, stride = g.rng.randint(1, 4), g.rng.randint(1, 3)
    padding = g.rng.randrange(kernel)
    if inputs * n == 0 or n + 2 * padding < kernel:
        return None
    outputs = g.rng.randint(1, 9)
    weight = g.leaf([outputs, kernel * inputs], "f32", kind="weight", plain=True)
    bias = [g.leaf([outputs], "f32", kind="weight", plain=True)] if g.rng.random() < 0.5 else []
    return [x, weight, *bias], {"kernel": kernel, "stride": stride, "padding": padding}


def compute_conv1d(p, x, weight, bias=None):
    kernel, inputs = p["kernel"], x.shape[1]
    taps = weight.reshape(-1, kernel, inputs).transpose(1, 2)
    return F.conv1d(x.t()[None], taps, bias, stride=p["stride"], padding=p["padding"])[0].t()


def ranges(g, n_ranges, n_rows):
    """Ranges of rows: some are empty, and some end with the last row."""
    begins = [g.rng.randrange(n_rows + 1) for _ in range(n_ranges)]
    ends = [min(begin + g.rng.randrange(n_rows + 2), n_rows) for begin in begins]
    return g.integers(begins), g.integers(ends)


def draw_attention(g):
    heads = g.rng.choice([1, 2, 3, 4, 6])
    groups = g.rng.choice([n for n in (1, 2, 3, 6) if heads % n == 0])
    d, e, m, n = g.rng.choice([1, 4, 8, 16, 20]), g.rng.choice([1, 4, 8, 16]), g.rng.randint(1, 20), g.rng.randint(1, 40)
    q = g.exactly([m, heads * d], edges=False)
    k, v = g.exactly([n, groups * d], edges=False), g.exactly([n, groups * e], edges=False)
    begins, ends = ranges(g, m, n)
    return [q, k, v, begins, ends], {"heads": heads, "groups": groups, "scale": g.rng.choice([0.0, 0.125])}


def compute_attention(p, q, k, v, begins, ends):
    heads, groups = p["heads"], p["groups"]
    d, m, n = q.shape[1] // heads, q.shape[0], k.shape[0]
    q = q.reshape(m, heads, d).transpose(0, 1)
    k = k.reshape(n, groups, -1).transpose(0, 1).repeat_interleave(heads // groups, 0)
    v = v.reshape(n, groups, -1).transpose(0, 1).repeat_interleave(heads // groups, 0)
    scores = q @ k.transpose(1, 2) * (p["scale"] or d ** -0.5)
    rows = torch.arange(n)
    seen = (rows >= begins[:, None]) & (rows < ends[:, None])
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).masked_fill(~seen, 0.0)
    return (weights @ v).transpose(0, 1).reshape(m, -1)


def draw_ragged_mean(g):
    x = matrix(g)
    if g.shape(x)[0] == 0:
        return None
    return [x, *ranges(g, g.rng.randint(1, 6), g.shape(x)[0])], {}


def compute_ragged_mean(p, x, begins, ends):
    none = torch.zeros(x.shape[1], dtype=x.dtype)
    return torch.stack([x[b:e].mean(0) if e > b else none for b, e in zip(begins.tolist(), ends.tolist())])


def draw_take(g):
    table = matrix(g)
    n = g.shape(table)[0]
    if n == 0:
        return None
    return [table, g.integers([g.rng.randrange(n) for _ in range(g.rng.randint(1, 9))])], {}


def draw_top_k(g):
    columns = g.rng.randint(1, 30)
    return [g.distinct([g.rng.randint(1, 6), columns])], {"k": g.rng.randint(1, min(columns, 8))}


def draw_reshape(g):
    x = g.value(dtype=g.any_dtype())
    rest, sizes = 1, []
    for size in g.shape(x):
        rest *= size
    if rest == 0:
        return None
    while len(sizes) < MAX_RANK - 1:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        sizes.append(g.rng.choice(divisors))
        rest //= sizes[-1]
        if g.rng.random() < 0.4:
            break
    if rest > 1 or g.rng.random() < 0.3:
        sizes.append(rest)
    g.rng.shuffle(sizes)
    return [x], {"shape": sizes}


def draw_broadcast_to(g):
    x = g.value(dtype=g.any_dtype())
    shape = [g.rng.randint(1, 5) if size == 1 else size for size in g.shape(x)]
    while len(shape) < MAX_RANK and g.rng.random() < 0.4:
        shape.insert(0, g.rng.randint(0, 3))
    return [x], {"shape": shape}


def draw_permute(g):
    x = g.value(dtype=g.any_dtype())
    axes = list(range(len(g.shape(x))))
    g.rng.shuffle(axes)
    return [x], {"axes": axes}


def draw_transpose(g):
    x = g.value(min_rank=2, dtype=g.any_dtype())
    rank = len(g.shape(x))
    return [x], {"a": g.rng.randrange(-rank, rank), "b": g.rng.randrange(-rank, rank)}


def draw_slice(g):
    x = g.value(min_rank=1, dtype=g.any_dtype())
    axis = g.rng.randrange(len(g.shape(x)))
    size = g.shape(x)[axis]
    begin = g.rng.randint(0, size)
    return [x], {"axis": axis, "begin": begin, "end": g.rng.randint(begin, size), "step": g.rng.choice([1, 1, 2, 3])}


def compute_slice(p, x):
    index = [slice(None)] * x.dim()
    index[p["axis"]] = slice(p["begin"], p["end"], p["step"])
    return x[tuple(index)]


def draw_squeeze(g):
    x = g.find(dtype=None, that=lambda shape: 1 in shape)
    if x is None:
        return None
    return [x], {"axis": g.rng.choice([a for a, size in enumerate(g.shape(x)) if size == 1])}


def draw_unsqueeze(g):
    x = g.value(max_rank=MAX_RANK - 1, dtype=g.any_dtype())
    rank = len(g.shape(x))
    return [x], {"axis": g.rng.randint(-rank - 1, rank)}


def draw_concat(g):
    x = g.value(min_rank=1)
    axis = g.rng.randrange(len(g.shape(x)))
    operands = [x]
    for _ in range(g.rng.randint(1, 2)):
        shape = list(g.shape(x))
        shape[axis] = g.size()
        operands.append(g.exactly(shape))
    return operands, {"axis": axis}


def draw_pad(g):
    x = g.value(min_rank=1)
    return [x], {"axis": g.rng.randrange(len(g.shape(x))), "before": g.rng.randint(0, 3), "after": g.rng.randint(0, 3),
                 "value": g.number()}


def compute_pad(p, x):
    widths = [0, 0] * x.dim()
    at = 2 * (x.dim() - 1 - p["axis"])
    widths[at], widths[at + 1] = p["before"], p["after"]
    return F.pad(x, widths, value=p["value"])


def draw_clamp(g):
    low = g.rng.uniform(-3, 2)
    return [g.value()], {"low": float(f"{low:.3f}"), "high": float(f"{low + g.rng.uniform(0, 2):.3f}")}


def unary(name, f, noise):
    return Row(name, one(), lambda p, x: f(x), noise)


TABLE = [
    *(unary(name, f, EXACT) for name, f in {
        "abs": torch.abs, "relu": F.relu,
    }.items()),
    Row("neg", lambda g: ([g.value(dtype=g.any_dtype())], {}), lambda p, x: torch.neg(x)),
    *(Row(name, one(), (lambda f: lambda p, x: f(x))(f), steps=True) for name, f in {
        "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    }.items()),
    *(unary(name, f, ROUNDED) for name, f in {
        "square": torch.square, "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "relu_squared": lambda x: F.relu(x) ** 2,
    }.items()),
    *(unary(name, f, CLOSE) for name, f in {
        "rsqrt": torch.rsqrt, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
        "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    }.items()),
    *(Row(name, one(), (lambda f: lambda p, x: f(x))(f), CLOSE, turns=True) for name, f in {
        "sin": torch.sin, "cos": torch.cos,
    }.items()),
    *(unary(name, f, CURVE) for name, f in {
        "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
    }.items()),
    Row("softcap", lambda g: ([g.value()], {"cap": g.rng.choice([0.5, 30.0])}), lambda p, x: p["cap"] * torch.tanh(x / p["cap"]), CLOSE),
    Row("clamp", draw_clamp, lambda p, x: torch.clamp(x, torch.tensor(p["low"]).to(x.dtype), torch.tensor(p["high"]).to(x.dtype))),

    Row("add", two(whole=0.15), arithmetic(torch.add), ROUNDED, weight=2),
    Row("sub", two(whole=0.15), arithmetic(torch.sub), ROUNDED),
    Row("mul", two(whole=0.15), arithmetic(torch.mul), ROUNDED, weight=2),
    Row("div", two(), arithmetic(torch.div), Noise(result=2.4e-7)),
    Row("maximum", two(whole=0.15), binary(torch.maximum)),
    Row("minimum", two(whole=0.15), binary(torch.minimum)),
    Row("pow", two(), binary(torch.pow), Noise(result=2e-6, operands=1e-7)),
    *(Row(f"glu_{name}", lambda g: (lambda x: ([x, g.exactly(g.shape(x))], {}))(g.value(min_rank=1)),
          (lambda f: lambda p, gate, up: f(gate) * up)(f), Noise(result=1e-6, operands=2e-7, same_place=3e-7),
          free=lambda p, gate, up: (gate < -5) & up.isinf())  # Tiny or 0: times infinity that is all or nothing.
      for name, f in {
        "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
    }.items()),
    *(Row(name, compare_operands, comparison(f), steps=True) for name, f in {
        "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
        "greater_equal": torch.ge,
    }.items()),
    Row("where", draw_where, compute_where),

    Row("sum", reduction, over(torch.sum), SUMS),
    Row("mean", reduction, over(torch.mean), SUMS),
    Row("max", reduction, largest(torch.amax)),
    Row("min", reduction, largest(torch.amin)),
    Row("var", reduction, over(lambda x, dim, keepdim: (x - x.mean(dim, keepdim=True)).square().mean(dim, keepdim=keepdim)), SUMS),
    Row("argmax", draw_argmax, lambda p, x: torch.argmax(x, p["axis"], p["keep"]).to(torch.int32), steps=True),
    Row("softmax", one(min_rank=1), softmax, SUMS),
    Row("layer_norm", draw_norm(2), layer_norm, SUMS),
    Row("rms_norm", draw_norm(1), rms_norm, SUMS),
    Row("normalize", draw_normalize,
        lambda p, x: x / torch.sqrt((x * x).sum(-1, keepdim=True)).clamp_min(p["eps"]), SUMS),

    Row("matmul", draw_matmul, lambda p, a, b: a @ b, SUMS, weight=2),
    Row("linear", draw_linear, compute_linear, SUMS, weight=2),
    Row("conv1d", draw_conv1d, compute_conv1d, SUMS, symbols=False),
    Row("ragged_attention", draw_attention, compute_attention, SUMS),
    Row("ragged_mean", draw_ragged_mean, compute_ragged_mean, SUMS),
    Row("take", draw_take, lambda p, table, rows: table[rows.long()], symbols=False),
    Row("top_k", draw_top_k, lambda p, x: torch.topk(x, p["k"]).indices.to(torch.int32), steps=True),

    Row("reshape", draw_reshape, lambda p, x: x.reshape(p["shape"]), symbols=False),
    Row("broadcast_to", draw_broadcast_to, lambda p, x: x.broadcast_to(p["shape"]), symbols=False),
    Row("permute", draw_permute, lambda p, x: x.permute(p["axes"])),
    Row("transpose", draw_transpose, lambda p, x: x.transpose(p["a"], p["b"])),
    Row("slice", draw_slice, compute_slice, symbols=False),
    Row("squeeze", draw_squeeze, lambda p, x: x.squeeze(p["axis"])),
    Row("unsqueeze", draw_unsqueeze, lambda p, x: x.unsqueeze(p["axis"])),
    Row("concat", draw_concat, lambda p, *x: torch.cat(x, p["axis"]), grows=True),
    Row("pad", draw_pad, compute_pad, grows=True),

    *op_table_order.TABLE,
    *op_table_sequence.TABLE,
    *op_table_windows.TABLE,
]
ROWS = {row.name: row for row in TABLE}
VIEWS = ["permute", "transpose", "slice", "unsqueeze", "squeeze", "reshape", "broadcast_to"]
