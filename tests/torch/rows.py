"""What a row of the table of ops is, and what several of them draw and compute alike."""
from dataclasses import dataclass
from typing import Callable

import torch

MAX_RANK = 4


@dataclass(frozen=True)
class Noise:
    """Tolerated error of a good result: relative to the exact result, to the operands (sums of many, in which terms
    cancel), to the first operand's element in the same place, and absolute."""
    result: float = 0.0
    operands: float = 0.0
    same_place: float = 0.0
    absolute: float = 0.0


EXACT = Noise()
ROUNDED = Noise(result=1.2e-7)
CLOSE = Noise(result=6e-7, operands=1e-7)
CURVE = Noise(result=6e-7, operands=1e-7, same_place=3e-7)
SUMS = Noise(result=6e-7, operands=8e-7)


@dataclass(frozen=True)
class Row:
    name: str
    draw: Callable      # draw(g) -> operands, parameters; None where it does not fit
    compute: Callable   # compute(parameters, *tensors) -> tensor
    noise: Noise = EXACT
    symbols: bool = True  # Whether sizes of operands may be symbols, whatever was drawn.
    weight: float = 1.0   # How often, beside others.
    steps: bool = False   # Whether results jump where an operand changes a little.
    turns: bool = False   # Whether they do so of large ones.
    grows: bool = False   # Whether results have sizes that no operand has.
    least: bool = False   # Whether sizes that are symbols may not be below those that were drawn.
    free: Callable | None = None  # free(parameters, *tensors) -> which elements of the result may be anything


def matrix(g):
    return g.value(min_rank=2, max_rank=2)


def one(**which):
    return lambda g: ([g.value(**which)], {})


def axes_of(g, x):
    rank = len(g.shape(x))
    axes = [a for a in range(rank) if g.rng.random() < 0.5]
    return [a - rank if g.rng.random() < 0.3 else a for a in axes]


def reduction(g):
    x = g.value()
    return [x], {"axes": axes_of(g, x), "keep": g.rng.random() < 0.5}


def reduce_all(p, x):
    return p["axes"] or list(range(x.dim()))


def over(f):
    """A reduction of torch that takes a list of axes; of a scalar, as of a vector of one element."""
    return lambda p, x: f(x[None], dim=[0], keepdim=False) if x.dim() == 0 else f(x, dim=reduce_all(p, x), keepdim=p["keep"])


def largest(f):
    infinity = float("-inf") if f is torch.amax else float("inf")

    def compute(p, x):
        if x.dim() == 0:
            return x.clone()
        axes = [a % x.dim() for a in reduce_all(p, x)]
        if all(x.shape[a] > 0 for a in axes):
            return f(x, dim=axes, keepdim=p["keep"])
        # torch refuses a maximum of nothing; weft says infinity.
        sizes = [1 if a in axes else n for a, n in enumerate(x.shape) if a not in axes or p["keep"]]
        return torch.full(sizes, infinity, dtype=x.dtype)
    return compute


def two(dtype="f32", number=True, whole=0.0):
    """Two operands that broadcast, or one and a number; of whole numbers in as many cases as `whole` says."""
    def draw(g):
        own = "i32" if g.rng.random() < whole else dtype
        a = g.value(dtype=own)
        if number and g.rng.random() < 0.2:
            return [a], {"number": g.number() if own == "f32" else g.whole(), "first": g.rng.random() < 0.5}
        operands = [a, g.partner(a, own)]
        if g.rng.random() < 0.5:
            operands.reverse()
        return operands, {}
    return draw


def second(p, b):
    """The second operand, of which there may be none but a number."""
    return b[0] if b else p["number"]


def arithmetic(f):
    def compute(p, a, *b):
        if b:
            return f(a, b[0])
        number = torch.tensor(p["number"], dtype=torch.float32).to(a.dtype)
        return f(number, a) if p["first"] else f(a, number)
    return compute


def binary(f):
    return lambda p, a, *b: f(a, b[0] if b else torch.tensor(p["number"], dtype=torch.float32).to(a.dtype))


def comparison(f):
    return lambda p, a, *b: f(a, second(p, b)).to(torch.int32)
