#!/usr/bin/env python3
"""ops.py GRAPH_EVAL [--cases N] [--seed S] [--device NAME]: compares ops and small graphs of them with PyTorch.

Cases are drawn from the seed. Half of them are single ops, often of views, the others graphs of 3 to 10 ops. Values
have any rank, with sizes that may be symbols, 0 or 1. Elements may be NaN, infinite, denormal or huge. op_table.py has
the ops. The reference is torch in 64 bits, rounded to 32 after each op. The tolerance of an element is found by another
computation with small errors in each op: three times the resulting error. Where errors decide about more than that
(whether a sum is infinite, or the side of a step), an element may have any value, and is counted.

--keep STEM writes the cases there, and says so for each that fails; --only CASE computes that one and shows it. Exits
with 77 where Python has no torch.
"""
import argparse
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

SKIPPED = 77
try:
    import torch
except ImportError:
    print(f"skipped: {sys.executable} has no torch (WEFT_TORCH_PYTHON of CMake names a Python that has)")
    sys.exit(SKIPPED)
from op_table import ROWS, TABLE, VIEWS
from rows import EXACT, MAX_RANK, SUMS

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1.4e-45, 3.4e38, -3.4e38, 1.2e-38, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5,
         -3.5, 88.0, -104.0, 1e4]
LOST = 1e9  # What is that large and as uncertain may be infinite: divided by next to nothing.
HUGE = 1e18  # Squares of such are infinite.
LARGE = 1e3  # Angles of which small errors are whole turns soon.
SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33]
TORCH_TYPES = {"f32": torch.float32, "i32": torch.int32, "f16": torch.float16, "bf16": torch.bfloat16}
WHOLE_EDGES = [0, 1, -1, 2, 7, -2147483648, 2147483647, 65536, -65537]
NOISE_FACTORS = [1, 1, 2, 2, 4, 4, 8, 8, 16, 16]  # Large ones find out what lies beside a step.
MARGIN = 3.0
SINGLES = [row for row in TABLE for _ in range(max(1, round(row.weight)))]


def rounded(x):
    """As 32 bits hold it, in 64."""
    return x.float().double() if x.is_floating_point() else x


class Case:
    """A graph while it is drawn: values with their exact elements, leaves first come first."""

    def __init__(self, seed: int, index: int, max_elements: int):
        self.max_elements = max_elements
        self.rng = random.Random(f"{seed} {index}")
        self.torch_rng = torch.Generator().manual_seed(self.rng.getrandbits(48))
        self.values = []  # Of each value: its exact elements.
        self.leaves = {}  # Value: kind, type.
        self.nodes = []   # (value, row, operands, parameters)
        self.edges = EDGES if self.rng.random() < 0.15 else [x for x in EDGES if not HUGE < abs(x) < math.inf]
        self.has_edges = self.rng.random() < 0.3
        self.fixed = False  # No size may be a symbol.
        self.constant = set()  # Nor these.

    # What rows ask for.

    def shape(self, value) -> list[int]:
        return list(self.values[value].shape)

    def dtype(self, value) -> str:
        return "f32" if self.values[value].is_floating_point() else "i32"

    def size(self) -> int:
        return 0 if self.rng.random() < 0.02 else self.rng.choice(SIZES)

    def number(self) -> float:
        return self.rng.choice([0.0, 1.0, -1.0, 2.0, 0.5, -2.25, 3.0])

    def whole(self) -> int:
        return self.rng.choice([0, 1, -1, 2, -3, 7, 100])

    def any_dtype(self, whole=0.1) -> str:
        return "i32" if self.rng.random() < whole else "f32"

    def new_shape(self, min_rank=0, max_rank=MAX_RANK) -> list[int]:
        shape = [self.size() for _ in range(self.rng.randint(min_rank, max_rank))]
        while math.prod(shape) > self.max_elements:
            shape[shape.index(max(shape))] = 2
        return shape

    def find(self, dtype="f32", min_rank=0, max_rank=MAX_RANK, that=lambda shape: True):
        """A value that is there already and that nothing rules out as an operand, or None."""
        fits = [v for v in range(len(self.values)) if dtype in (None, self.dtype(v)) and
                min_rank <= len(self.shape(v)) <= max_rank and that(self.shape(v)) and not self.plain_weight(v)]
        return self.rng.choice(fits[-4:]) if fits else None

    def value(self, dtype="f32", min_rank=0, max_rank=MAX_RANK):
        found = self.find(dtype, min_rank, max_rank)
        if found is not None and self.rng.random() < 0.9:
            return found
        return self.leaf(self.new_shape(min_rank, max_rank), dtype)

    def exactly(self, shape, edges=True):
        found = self.find(that=lambda other: other == list(shape)) if edges else None
        return found if found is not None and self.rng.random() < 0.5 else self.leaf(shape, "f32", plain=not edges)

    def broadcast(self, *values) -> list[int]:
        return list(torch.broadcast_shapes(*(self.values[v].shape for v in values)))

    def partner(self, value, dtype):
        return self.partner_of_shape(self.shape(value), dtype)

    def partner_of_shape(self, shape, dtype):
        """Something that broadcasts with the shape; mostly of a value that is there."""
        def fits(other):
            return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(shape), reversed(other)))
        found = self.find(dtype, that=fits)
        if found is not None and self.rng.random() < 0.6:
            return found
        other = list(shape)[self.rng.randint(0, len(shape)) if self.rng.random() < 0.4 else 0:]
        other = [1 if self.rng.random() < 0.2 else size for size in other]
        if len(other) == len(shape) < MAX_RANK and self.rng.random() < 0.1:
            other.insert(0, self.rng.randint(1, 3))
        return self.leaf(other, dtype)

    def leaf(self, shape, dtype, kind="input", low=None, high=None, plain=False):
        """Plain ones have no elements out of the ordinary."""
        if dtype == "i32":
            wild = low is None and not plain and self.rng.random() < 0.3
            x = torch.randint(-3 if low is None else low, (3 if high is None else high) + 1, shape, generator=self.torch_rng,
                              dtype=torch.int32)
            if wild:
                choice = torch.randint(0, len(WHOLE_EDGES), shape, generator=self.torch_rng)
                x = torch.where(x > 0, torch.tensor(WHOLE_EDGES, dtype=torch.int32)[choice], x)
        else:
            x = torch.rand(shape, generator=self.torch_rng) * 6 - 3
            if not plain and self.rng.random() < 0.15:
                x = x.round()
            if not plain and self.has_edges and kind == "input":
                mask = torch.rand(shape, generator=self.torch_rng) < 0.2
                choice = torch.randint(0, len(self.edges), shape, generator=self.torch_rng)
                x = torch.where(mask, torch.tensor(self.edges)[choice], x)
            elif not plain and self.rng.random() < 0.05:
                x = x * 1e4
        return self.add_leaf(x.to(TORCH_TYPES[dtype]), kind, dtype)

    def like(self, shape, dtype):
        """Something of that shape and type."""
        return self.exactly(shape) if dtype == "f32" else self.leaf(shape, "i32")

    def vector(self, size, often=1.0):
        """A plain one, or None: mostly a weight."""
        if self.rng.random() >= often:
            return None
        return self.leaf([size], "f32", kind="weight" if self.rng.random() < 0.7 else "input", plain=True)

    def permuted(self, shape):
        """A plain value of that shape, which may be stored in another order."""
        axes = list(range(len(shape)))
        if len(shape) < 2 or self.rng.random() < 0.5:
            return self.leaf(shape, "f32", plain=True)
        self.rng.shuffle(axes)
        laid = [0] * len(shape)
        for i, axis in enumerate(axes):
            laid[axis] = shape[i]
        return self.apply("permute", [self.leaf(laid, "f32", plain=True)], {"axes": axes})

    def indices(self, shape, n):
        """Indices of an axis of n elements, or None. Computed ones may be out of range, ones of the host may not."""
        if n == 0:
            return self.leaf(shape, "i32") if math.prod(shape) == 0 else None
        if self.rng.random() < 0.75:
            return self.leaf(shape, "i32", low=0, high=n - 1)
        return self.apply("add", [self.leaf(shape, "i32", low=-2, high=n)], {"number": 1, "first": False})

    def integers(self, values):
        self.fixed = True  # They count rows of others.
        return self.add_leaf(torch.tensor(values, dtype=torch.int32), "input", "i32")

    def distinct(self, shape):
        x = torch.stack([torch.randperm(shape[1], generator=self.torch_rng) for _ in range(shape[0])])
        return self.add_leaf(x.float() - 3.5, "input", "f32")

    def add_leaf(self, x, kind, dtype):
        self.values.append(x.double() if x.is_floating_point() else x)
        value = len(self.values) - 1
        self.leaves[value] = {"kind": kind, "dtype": dtype, "elements": x.contiguous()}
        return value

    def apply(self, name, operands, parameters):
        row = ROWS[name]
        self.values.append(rounded(row.compute(parameters, *(self.values[v] for v in operands))))
        self.nodes.append((len(self.values) - 1, row, operands, parameters))
        return len(self.values) - 1

    def plain_weight(self, value) -> bool:
        return self.leaves.get(value, {"kind": ""})["kind"] == "weight"

    def draw(self, row) -> bool:
        """A node of the row, if operands for it are found."""
        before = len(self.values), len(self.nodes)
        drawn = row.draw(self)
        sizes = [] if drawn is None else [self.values[v].numel() for v in drawn[0]]
        if drawn is not None and max(sizes, default=0) <= self.max_elements:
            value = self.apply(row.name, *drawn)
            if self.values[value].numel() <= self.max_elements and self.values[value].dim() <= MAX_RANK:
                return True
        for value in range(before[0], len(self.values)):
            self.leaves.pop(value, None)
        del self.values[before[0]:], self.nodes[before[1]:]
        return False

    # The graph as a whole.

    @staticmethod
    def drawn(args, index: int) -> "Case":
        case = Case(args.seed, index, args.max_elements)
        single = case.rng.random() < 0.5
        if single:
            if case.rng.random() < 0.5:
                for _ in range(case.rng.randint(1, 2)):
                    case.draw(ROWS[case.rng.choice(VIEWS)])
            row = SINGLES[index % len(SINGLES)]
            while not case.draw(row):
                case.leaf(case.new_shape(), "f32")
                if case.rng.random() < 0.2:
                    case.leaf([1, 3], "i32")
        else:
            weights = [row.weight for row in TABLE]
            n = case.rng.randint(3, 10)
            while len(case.nodes) < n:
                case.draw(case.rng.choices(TABLE, weights)[0])
        read = {v for _, _, operands, _ in case.nodes for v in operands}
        case.outputs = [v for v, *_ in case.nodes if v not in read or case.rng.random() < 0.1]
        return case

    def replay(self, compute):
        values = dict(enumerate(self.values)) | {v: leaf["elements"] for v, leaf in self.leaves.items()}
        for value, row, operands, parameters in self.nodes:
            values[value] = compute(row, [values[v] for v in operands], parameters)
        return values

    def noisy(self, factor, row, operands, parameters):
        def disturb(x, size):
            if size == 0.0 or not x.is_floating_point():
                return x.double() if x.is_floating_point() else x
            u = torch.rand(x.shape, generator=self.torch_rng, dtype=torch.float64) * 2 - 1
            return x.double() * (1 + factor * size * u)
        exact = [disturb(x, 0.0) for x in operands]
        y = row.compute(parameters, *(disturb(x, row.noise.operands) for x in operands))
        y = disturb(y, row.noise.result)
        if row.noise.same_place > 0.0:
            u = torch.rand(y.shape, generator=self.torch_rng, dtype=torch.float64) * 2 - 1
            y = torch.where(exact[0].isfinite(), y + factor * row.noise.same_place * exact[0] * u, y)
        if row.noise.absolute > 0.0:
            y = y + factor * row.noise.absolute * (torch.rand(y.shape, generator=self.torch_rng, dtype=torch.float64) * 2 - 1)
        if row.noise == SUMS and any(((x.abs() > HUGE) & x.isfinite()).any() for x in exact if x.is_floating_point()):
            y = torch.full_like(y, math.nan)  # Parts may be infinite; which, is up to the order.
        if row.free is not None:  # One of these is off by anything, whatever follows.
            y = torch.where(row.free(parameters, *exact), math.nan if factor in (1, 4, 16) else 0.0, y)
        if row.noise != EXACT and y.is_floating_point():  # Results that are denormal may be 0, and 0 have either sign.
            tiny = torch.copysign(y.abs() if factor < 8 else torch.zeros_like(y), torch.tensor(-1.0 if factor == 4 else 1.0))
            y = torch.where((y.abs() < 1.2e-38) & (factor > 1), tiny, y)
        return rounded(y)

    @staticmethod
    def in_32_bits(row, operands, parameters):
        return row.compute(parameters, *(x.float() if x.is_floating_point() else x for x in operands))

    def tolerances(self):
        """By output: how far off each element may be."""
        truth = {v: self.values[v] for v in self.outputs}
        spread = {v: torch.zeros(truth[v].shape, dtype=torch.float64) for v in self.outputs}
        steps = any(row.steps or (row.turns and bool((self.values[operands[0]].abs() > LARGE).any()))
                    for _, row, operands, _ in self.nodes)
        runs = [(factor, partial(self.noisy, factor)) for factor in NOISE_FACTORS] + [(1, self.in_32_bits)]
        for factor, compute in runs:
            values = self.replay(compute)
            for v in self.outputs:
                a, b = truth[v].double(), values[v].double()
                off = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs() / (1 if steps else factor))
                spread[v] = torch.maximum(spread[v], torch.where(off.isfinite(), off, math.nan))
        for v in self.outputs:
            if truth[v].is_floating_point():
                small = torch.where(truth[v].isfinite(), truth[v].abs(), 0.0) * 2.4e-7 + 1.2e-38
                spread[v] = MARGIN * spread[v] + (small if any(row.noise != EXACT for _, row, *_ in self.nodes) else 0.0)
                lost = (spread[v] >= truth[v].abs()) & (truth[v].abs() > LOST)
                spread[v] = torch.where(lost, math.nan, spread[v])
        return spread

    def symbols(self):
        """Sizes that are symbols in this case, by size. All dimensions of that size are symbols, except innermost ones
        and dimensions of weights; or there are none."""
        rows = [row for _, row, *_ in self.nodes]
        grown = any(row.grows for row in rows[:-1])  # To the size of a leaf.
        if self.fixed or grown or not all(row.symbols for row in rows) or self.rng.random() < 0.5:
            return {}
        inner = {size for v in range(len(self.values)) for size in self.shape(v)[-1:]}
        inner |= {size for v in self.leaves if self.plain_weight(v) for size in self.shape(v)}
        sizes = {size for v in self.leaves for size in self.shape(v)[:-1]} - inner - self.constant - {1}
        return {size: f"s{size}" for size in sorted(sizes)}

    def write(self, arrays: bytearray):
        """The case as graph_eval reads it."""
        def put(x) -> dict:
            at = len(arrays)
            x = x.contiguous()
            data = x.view(torch.int16) if x.dtype in (torch.float16, torch.bfloat16) else x
            arrays.extend(data.numpy().tobytes())
            return {"at": at, "bytes": len(arrays) - at}
        symbols = self.symbols()
        least = any(row.least for _, row, *_ in self.nodes)
        ranges = {name: [size if least else 0, size + self.rng.randint(0, 5), size] for size, name in symbols.items()}
        leaves, places = [], {}
        for v, leaf in self.leaves.items():
            places[v] = len(leaves)
            shape = [symbols.get(size, size) if i + 1 < len(self.shape(v)) else size for i, size in enumerate(self.shape(v))]
            leaves.append({"kind": leaf["kind"], "dtype": leaf["dtype"], "shape": shape, **put(leaf["elements"])})
        nodes = []
        for v, row, operands, parameters in self.nodes:
            places[v] = len(leaves) + len(nodes)
            plain = {k: str(p) if isinstance(p, float) and not math.isfinite(p) else p for k, p in parameters.items()}
            nodes.append({"op": row.name, "in": [places[o] for o in operands], "p": plain})  # JSON has no infinity.
        outputs, free = [], 0
        spread = self.tolerances()
        for v in self.outputs:
            truth, dtype = self.values[v], self.dtype(v)
            output = {"value": places[v], "dtype": dtype, "shape": self.shape(v),
                      "at": put(truth.float() if dtype == "f32" else truth.to(torch.int32))["at"]}
            if dtype == "f32":
                output["tolerance"] = put(spread[v].float())["at"]
                free += int(spread[v].isnan().sum())
            elif bool((spread[v] != 0).any()):
                continue  # Small errors decide about it.
            outputs.append(output)
        n = sum(self.values[v].numel() for v in self.outputs)
        return {"symbols": ranges, "leaves": leaves, "nodes": nodes, "outputs": outputs}, n, free

    def __str__(self):
        lines = [f"  %{v} = {leaf['kind']} {leaf['dtype']} {self.shape(v)}" for v, leaf in self.leaves.items()]
        lines += [f"  %{v} = {row.name}({', '.join(f'%{o}' for o in operands)}) {parameters or ''} -> {self.shape(v)}"
                  for v, row, operands, parameters in self.nodes]
        return "\n".join(lines) + f"\n  out: {', '.join(f'%{v}' for v in self.outputs)}"


class Runner:
    def __init__(self, args):
        self.args = args
        self.n_cases = self.n_failed = self.n_elements = self.n_free = 0
        self.nodes = [0, 0]

    def run(self, indices, stem: Path):
        arrays, lines, numbers = bytearray(), [], []
        for index in indices:
            case, n, free = Case.drawn(self.args, index).write(arrays)
            if not case["outputs"]:
                continue
            self.n_elements, self.n_free = self.n_elements + n, self.n_free + free
            lines.append(json.dumps(case, separators=(",", ":")))
            numbers.append(index)
        stem.with_suffix(".bin").write_bytes(arrays)
        stem.with_suffix(".jsonl").write_text("\n".join(lines) + "\n")
        command = [str(self.args.graph_eval.resolve()), "--device", self.args.device, str(stem)]
        if self.args.threads:
            command[1:1] = ["--threads", str(self.args.threads)]
        if self.args.modules:
            command[1:1] = ["--modules", str(self.args.modules)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 2:
            sys.exit(result.stderr)
        found = re.search(r"(\d+) cases on \S+, (\d+) failed; (\d+) nodes there, (\d+) elsewhere", result.stdout)
        if found is None:  # It did not live to say so.
            if len(numbers) > 1:
                half = len(numbers) // 2
                self.run(numbers[:half], stem)
                self.run(numbers[half:], stem)
                return
            self.n_cases, self.n_failed = self.n_cases + 1, self.n_failed + 1
            print(f"case {numbers[0]}: graph_eval ended with {result.returncode}: {result.stderr}")
            return
        self.n_cases += int(found[1])
        self.n_failed += int(found[2])
        self.nodes = [a + int(b) for a, b in zip(self.nodes, found.groups()[2:])]
        for line, problem in re.findall(r"^case (\d+): (.*)$", result.stdout, re.MULTILINE):
            index = numbers[int(line)]
            print(f"case {index}: {problem}\n{Case.drawn(self.args, index)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph_eval", type=Path)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-elements", type=int, default=4096, help="of a value")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--modules", type=Path, help="a folder of backend modules")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", type=int, metavar="CASE")
    parser.add_argument("--keep", type=Path, metavar="STEM")
    args = parser.parse_args()
    torch.set_num_threads(1)
    runner = Runner(args)
    with tempfile.TemporaryDirectory() as scratch:
        stem = args.keep or Path(scratch) / "cases"
        if args.only is not None:
            print(Case.drawn(args, args.only))
            runner.run([args.only], stem)
        else:
            step = args.cases if args.keep else 500
            for first in range(0, args.cases, step):
                runner.run(range(first, min(first + step, args.cases)), stem)
    print(f"seed {args.seed} on {args.device}: {runner.n_cases} cases, {runner.n_failed} failed; {runner.n_elements} elements, "
          f"{runner.n_free} of them anything; {runner.nodes[0]} nodes on the device, {runner.nodes[1]} beside it")
    return 1 if runner.n_failed or not runner.n_cases else 0


if __name__ == "__main__":
    sys.exit(main())
