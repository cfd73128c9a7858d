"""Rows of ops that count, move, order and draw elements."""
import numpy as np
import torch

from rows import CLOSE, CURVE, EXACT, MAX_RANK, ROUNDED, SUMS, Noise, Row, axes_of, one, over, reduce_all, reduction, two

LEAST, MOST = -2**31, 2**31 - 1
ENDS = [(0, 7, 1), (-3, 11, 4), (5, -6, -2), (3, 3, 1), (4, 1, 1), (0, 40, 3), (2147483640, 2147483647, 2)]


def any_value(g, **which):
    return g.value(dtype=g.any_dtype(0.25), **which)


def axis_of(g, x):
    rank = len(g.shape(x))
    return g.rng.randrange(-rank, rank)


def along_axis(g):
    x = any_value(g, min_rank=1)
    return [x], {"axis": axis_of(g, x)}


def whole(f):
    """Whole numbers of 32 bits, which wrap around; torch computes in 64."""
    def compute(p, a, *b):
        a = a.long()
        b = b[0].long() if b else torch.tensor(p["number"])
        y = f(a, b)
        return ((y - LEAST) % 2**32 + LEAST).to(torch.int32)
    return compute


def divided(f):
    return whole(lambda a, b: torch.where(b == 0, 0, f(a, torch.where(b == 0, 1, b))))


def draw_by(g):
    """Whole numbers and their divisors."""
    a = g.value(dtype="i32")
    if g.rng.random() < 0.3:
        return [a], {"number": g.whole()}
    return [a, g.partner(a, "i32")], {}


def draw_logical(g):
    a = g.value(dtype="i32")
    return [a, g.partner(a, "i32")], {}


def truth(f):
    return lambda p, *x: f(*x).to(torch.int32)


def to_i32(p, x):
    return torch.where(x.isnan(), 0.0, x.double().trunc().clamp(LEAST, MOST)).to(torch.int32)


def prod(p, x):
    if x.dim() == 0:
        return x.clone()
    axes = sorted((a % x.dim() for a in reduce_all(p, x)), reverse=True)
    for axis in axes:
        x = x.prod(axis, keepdim=p["keep"])
    return x


def draw_truths(g):
    if g.rng.random() < 0.5:
        return reduction(g)
    x = g.leaf(g.new_shape(), "i32", low=0, high=1)
    return [x], {"axes": axes_of(g, x), "keep": g.rng.random() < 0.5}


def truths(f):
    def compute(p, x):
        x = x != 0
        for axis in sorted((a % x.dim() for a in reduce_all(p, x)), reverse=True) if x.dim() > 0 else []:
            x = f(x, axis, keepdim=p["keep"])
        return x.to(torch.int32)
    return compute


def draw_place(g):
    x = g.value(min_rank=1)
    axis = axis_of(g, x)
    return ([x], {"axis": axis, "keep": g.rng.random() < 0.5}) if g.shape(x)[axis] > 0 else None


def draw_flip(g):
    x = any_value(g)
    return [x], {"axes": axes_of(g, x)}


def draw_stack(g):
    x = g.value(max_rank=MAX_RANK - 1)
    rank = len(g.shape(x))
    return [x, *(g.exactly(g.shape(x)) for _ in range(g.rng.randrange(3)))], {"axis": g.rng.randint(-rank - 1, rank)}


def draw_split(g):
    x = any_value(g, min_rank=1)
    axis = axis_of(g, x)
    rest, sizes = g.shape(x)[axis], []
    if g.rng.random() < 0.4:
        n = g.rng.choice([n for n in range(1, 6) if rest % n == 0])
        return [x], {"axis": axis, "parts": n, "which": g.rng.randrange(n)}
    while rest > 0 and len(sizes) < 4:
        sizes.append(g.rng.randint(0, rest))
        rest -= sizes[-1]
    sizes.append(rest)
    return [x], {"axis": axis, "sizes": sizes, "which": g.rng.randrange(len(sizes))}


def split(p, x):
    axis = p["axis"] % x.dim()
    sizes = p["sizes"] if "sizes" in p else [x.shape[axis] // p["parts"]] * p["parts"]
    return torch.split(x, sizes, axis)[p["which"]]


def draw_repeat(g):
    x = any_value(g, min_rank=1)
    return [x], {"axis": axis_of(g, x), "times": g.rng.randint(0, 4)}


def tile(p, x):
    times = [1] * x.dim()
    times[p["axis"]] = p["times"]
    return x.repeat(times)


def draw_triangle(g):
    return [any_value(g, min_rank=2)], {"diagonal": g.rng.choice([0, 0, 1, -1, 3, -4, 100, -100, 2**40])}


def triangle(f):
    return lambda p, x: f(x, min(p["diagonal"], 10000))


def draw_one_hot(g):
    return [g.value(dtype="i32", max_rank=MAX_RANK - 1)], {"classes": g.rng.randint(0, 12)}


def draw_take(g):
    x = any_value(g, min_rank=1)
    axis = axis_of(g, x)
    rank = g.rng.randint(1, min(2, MAX_RANK + 1 - len(g.shape(x))))
    indices = g.indices([g.size() for _ in range(rank)], g.shape(x)[axis])
    return None if indices is None else ([x, indices], {"axis": axis})


def compute_take(p, x, indices):
    axis, last = p["axis"] % x.dim(), max(x.shape[p["axis"]] - 1, 0)
    flat = indices.long().clamp(0, last).flatten()
    return torch.index_select(x, axis, flat).reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])


def draw_along(g, with_source=False):
    x = any_value(g, min_rank=1)
    axis, shape = axis_of(g, x), list(g.shape(x))
    n, shape[axis] = shape[axis], g.size()
    indices = g.indices(shape, n)
    if indices is None:
        return None
    return [x, indices, *([g.like(shape, g.dtype(x))] if with_source else [])], {"axis": axis}


def take_along(p, x, indices):
    return torch.gather(x, p["axis"], indices.long().clamp(0, max(x.shape[p["axis"]] - 1, 0)))


def scatter(add):
    """Repeated indices apply in their order, and indices out of range go to an extra place that is cut off again."""
    def compute(p, x, indices, source):
        axis = p["axis"] % x.dim()
        n, indices = x.shape[axis], indices.long()
        indices = torch.where((indices < 0) | (indices >= n), n, indices)
        beside = list(x.shape)
        beside[axis] = 1
        y = torch.cat([x, torch.zeros(beside, dtype=x.dtype)], axis)
        for i in range(indices.shape[axis]):
            which, what = indices.narrow(axis, i, 1), source.narrow(axis, i, 1)
            y = y.scatter_add(axis, which, what) if add else y.scatter(axis, which, what)
        return y.narrow(axis, 0, n)
    return compute


def draw_rows(g):
    x = any_value(g, min_rank=1)
    axis, shape = axis_of(g, x), list(g.shape(x))
    n, shape[axis] = shape[axis], g.size()
    indices = g.indices([shape[axis]], n)
    return None if indices is None else ([x, indices, g.like(shape, g.dtype(x))], {"axis": axis})


def by_rows(add):
    def compute(p, x, indices, source):
        axis = p["axis"] % x.dim()
        open_shape = [1] * x.dim()
        open_shape[axis] = -1
        return scatter(add)(p, x, indices.reshape(open_shape).expand(source.shape), source)
    return compute


def draw_order(g):
    x = any_value(g, min_rank=1)
    return [x], {"axis": axis_of(g, x), "descending": g.rng.random() < 0.5}


def argsort(p, x):
    return torch.sort(x, dim=p["axis"], descending=p["descending"], stable=True).indices.to(torch.int32)


def draw_arange(g):
    begin, end, step = g.rng.choice(ENDS)
    return [], {"begin": begin, "end": end, "step": step, "dtype": g.rng.choice(["i32", "f32"])}


def arange(p):
    size = max(-((p["begin"] - p["end"]) // p["step"]), 0)
    y = p["begin"] + p["step"] * torch.arange(size)
    return y.float().double() if p["dtype"] == "f32" else y.to(torch.int32)


def philox(seed, counter, n):
    """The first n words of Philox4x32-10: this is what the op promises, of which torch's CPU generator has nothing."""
    low = np.uint64(0xFFFFFFFF)
    block = np.arange((n + 3) // 4, dtype=np.uint64)
    c = [block & low, block >> np.uint64(32), np.full_like(block, counter % 2**32), np.zeros_like(block)]
    key = [seed % 2**32, seed >> 32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), b & low, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return np.stack(c, 1).reshape(-1)[:n].astype(np.float64)


def draw_random(g):
    counter = g.leaf([1], "i32")
    low, high = g.rng.choice([(0.0, 1.0), (-1.0, 1.0), (2.0, 5.0)])
    return [counter], {"shape": g.new_shape(), "seed": g.rng.getrandbits(64), "a": low, "b": high}


def uniform(p, counter):
    x = torch.from_numpy(philox(p["seed"], int(counter), int(np.prod(p["shape"])))) // 256 / 2**24
    return (p["a"] + x * (p["b"] - p["a"])).reshape(p["shape"])


def normal(p, counter):
    n = int(np.prod(p["shape"]))
    words = torch.from_numpy(philox(p["seed"], int(counter), n + n % 2)).reshape(-1, 2)
    radius, angle = torch.sqrt(-2 * torch.log((words[:, 0] + 1) / 2**32)), 2 * torch.pi * words[:, 1] / 2**32
    x = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1).reshape(-1)[:n]
    return (p["a"] + x * p["b"]).reshape(p["shape"])


TABLE = [
    Row("floor_divide", draw_by, divided(lambda a, b: torch.div(a, b, rounding_mode="floor"))),
    Row("remainder", draw_by, divided(torch.remainder)),
    Row("logical_and", draw_logical, truth(torch.logical_and)),
    Row("logical_or", draw_logical, truth(torch.logical_or)),
    Row("logical_not", one(dtype="i32"), truth(torch.logical_not)),
    Row("isnan", one(), truth(torch.isnan), steps=True),
    Row("isinf", one(), truth(torch.isinf), steps=True),
    Row("isfinite", one(), truth(torch.isfinite), steps=True),
    Row("cast_i32", one(), to_i32, steps=True),
    Row("cast_f32", one(dtype="i32"), lambda p, x: x.double(), ROUNDED),
    Row("erf", one(), lambda p, x: torch.erf(x), CURVE),
    Row("expm1", one(), lambda p, x: torch.expm1(x), CLOSE),
    Row("log1p", one(), lambda p, x: torch.log1p(x), CLOSE),

    Row("prod", reduction, prod, Noise(result=4e-6)),
    Row("logsumexp", reduction, over(lambda x, dim, keepdim: torch.logsumexp(x, dim, keepdim)), SUMS),
    Row("any", draw_truths, truths(torch.any), steps=True),
    Row("all", draw_truths, truths(torch.all), steps=True),
    Row("argmin", draw_place, lambda p, x: torch.argmin(x, p["axis"], p["keep"]).to(torch.int32), steps=True),

    Row("flip", draw_flip, lambda p, x: torch.flip(x, p["axes"])),
    Row("stack", draw_stack, lambda p, *x: torch.stack(x, p["axis"]), grows=True),
    Row("split", draw_split, split, symbols=False),
    Row("repeat", draw_repeat, lambda p, x: torch.repeat_interleave(x, p["times"], p["axis"]), grows=True),
    Row("tile", draw_repeat, tile, grows=True),
    Row("tril", draw_triangle, triangle(torch.tril)),
    Row("triu", draw_triangle, triangle(torch.triu)),
    Row("one_hot", draw_one_hot, lambda p, x: (x[..., None] == torch.arange(p["classes"])).double(), grows=True),

    Row("take_axis", draw_take, compute_take, weight=2, grows=True),
    Row("take_along_axis", draw_along, take_along, weight=2),
    Row("scatter", lambda g: draw_along(g, True), scatter(False), weight=2),
    Row("scatter_add", lambda g: draw_along(g, True), scatter(True), SUMS, weight=2),
    Row("set_rows", draw_rows, by_rows(False), weight=2),
    Row("index_add", draw_rows, by_rows(True), SUMS),

    Row("cumsum", along_axis, lambda p, x: torch.cumsum(x, p["axis"], dtype=x.dtype), SUMS, weight=2),
    Row("argsort", draw_order, argsort, weight=2, steps=True),
    Row("sort", draw_order, lambda p, x: torch.sort(x, dim=p["axis"], descending=p["descending"]).values, weight=2),

    Row("arange", draw_arange, arange, grows=True),
    Row("full", lambda g: ([], {"shape": g.new_shape(), "value": g.number()}),
        lambda p: torch.full(p["shape"], p["value"], dtype=torch.float64), grows=True),
    Row("random_uniform", draw_random, uniform, ROUNDED, grows=True),
    Row("random_normal", draw_random, normal, Noise(result=6e-7, absolute=1e-6), grows=True),
]
