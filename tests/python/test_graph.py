"""Graphs with arrays in and out; NumPy is the truth."""
import contextlib
import gc
import sys
import threading
import time

import numpy as np
import pytest
import weft
from weft import ops

RNG = np.random.default_rng(3)


def compute(make, *arrays, **weights):
    """What a function makes of arrays: each an input of that shape, weights given by name."""
    graph = weft.Graph()
    inputs = [graph.input(f"in{i}", a.shape, "i32" if a.dtype.kind == "i" else "f32") for i, a in enumerate(arrays)]
    values = {name: graph.weight(name, array.shape) for name, array in weights.items()}
    graph.output("out", make(*inputs, **values))
    plan = weft.Plan(graph, devices=["cpu"])
    for name, array in weights.items():
        plan.set_weight(name, array)
    return plan.run({f"in{i}": a for i, a in enumerate(arrays)})["out"]


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def erf(x):
    from math import erf as one

    return np.vectorize(one)(x)


OF_ONE = {
    "abs": np.abs, "square": np.square, "exp": np.exp, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "reciprocal": np.reciprocal, "expm1": np.expm1, "erf": erf, "sqrt": np.sqrt,
    "log": np.log, "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, "gelu_quick": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
POSITIVE = {"sqrt", "log", "log1p", "rsqrt", "reciprocal"}


@pytest.mark.parametrize("name", sorted(OF_ONE))
def test_of_one(name):
    x = numbers(3, 5)
    if name in POSITIVE:
        x = np.abs(x) + 0.1
    if name.startswith("is"):
        x[0, :3] = np.nan, np.inf, -np.inf
    assert compute(getattr(ops, name), x) == pytest.approx(1.0 * OF_ONE[name](x), rel=2e-5, abs=2e-6)


@pytest.mark.parametrize("name", ["maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_of_two(name):
    a, b = np.round(numbers(3, 5)), np.round(numbers(5))
    truth = getattr(np, name)
    assert np.array_equal(compute(getattr(ops, name), a, b), truth(a, b))
    assert np.array_equal(compute(lambda x: getattr(ops, name)(x, 1.0), a), truth(a, 1.0))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "prod", "any", "all"])
def test_over_axes(name):
    x = numbers(2, 3, 4)
    if name in ("any", "all"):
        x = (x > 0.5).astype(np.float32)
    for axis in (None, 1, (0, 2), -1):
        for keep in (False, True):
            truth = 1.0 * getattr(np, name)(x, axis=axis, keepdims=keep)
            assert compute(lambda v: getattr(ops, name)(v, axis, keep), x) == pytest.approx(truth, rel=1e-5, abs=1e-5)


OTHERS = [
    (lambda a, b: a + b, 2), (lambda a, b: a - b * 2, 2), (lambda a, b: 1 - a / (b * b + 1), 2), (lambda a, b: -a + abs(b), 2),
    (lambda a: (a * a + 1) ** 0.5, 1), (lambda a: a[1:, None, ::2], 1), (lambda a: a[0, ..., 1:3], 1), (lambda a: a[-1], 1),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(OTHERS)))
def test_operators(at):
    make, n = OTHERS[at]
    arrays = [numbers(3, 4), numbers(4)][:n]
    assert compute(make, *arrays) == pytest.approx(make(*arrays), rel=1e-5, abs=1e-6)


def test_products_and_layers():
    x, w, b = numbers(3, 8), numbers(5, 8), numbers(5)
    assert compute(lambda v, w, b: ops.linear(v, w, b), x, w=w, b=b) == pytest.approx(x @ w.T + b, rel=1e-4, abs=1e-4)
    a, c = numbers(2, 3, 4), numbers(2, 4, 5)
    assert compute(lambda p, q: p @ q, a, c) == pytest.approx(a @ c, rel=1e-4, abs=1e-4)
    e = np.exp(x - x.max(-1, keepdims=True))
    assert compute(ops.softmax, x) == pytest.approx(e / e.sum(-1, keepdims=True), rel=1e-5)
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    assert compute(ops.layer_norm, x) == pytest.approx(y, rel=1e-4, abs=1e-5)
    assert compute(ops.rms_norm, x) == pytest.approx(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), rel=1e-4)
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    assert compute(lambda v: ops.hadamard(v, 4), x) == pytest.approx(np.concatenate([x[:, :4] @ signs, x[:, 4:] @ signs], 1), rel=1e-4, abs=1e-5)
    kernel, picture = numbers(2, 3, 3, 3), numbers(1, 3, 6, 5)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(picture, ((0, 0), (0, 0), (1, 1), (0, 0))), (3, 3), (2, 3))
    truth = np.einsum("nchwij,ocij->nohw", windows, kernel)[:, :, ::2]
    made = compute(lambda v, k: ops.conv2d(v, k, stride=(2, 1), padding=(1, 0)), picture, k=kernel)
    assert made == pytest.approx(truth, rel=1e-3, abs=1e-4)
    q, k, v = numbers(1, 2, 3, 8), numbers(1, 2, 3, 8), numbers(1, 2, 3, 8)
    scores = np.where(np.tril(np.ones((3, 3))) > 0, q @ k.transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    made = compute(lambda *all: ops.scaled_dot_product_attention(*all, causal=True), q, k, v)
    assert made == pytest.approx(p / p.sum(-1, keepdims=True) @ v, rel=1e-3, abs=1e-4)


def test_moves():
    x, i = numbers(3, 4), np.array([2, 0], dtype=np.int32)
    assert np.array_equal(compute(lambda v: ops.reshape(v, (2, -1)), x), x.reshape(2, 6))
    assert np.array_equal(compute(ops.transpose, x), x.T)
    assert np.array_equal(compute(lambda v: ops.permute(v, [1, 0]), x), x.T)
    assert np.array_equal(compute(lambda a, b: ops.concat([a, b], 0), x, x), np.concatenate([x, x], 0))
    assert np.array_equal(compute(lambda v: ops.concat([v] * 40, -1), x), np.concatenate([x] * 40, -1))
    assert np.array_equal(compute(lambda a, b: ops.stack([a, b], 1), x, x), np.stack([x, x], 1))
    assert np.array_equal(compute(lambda v: ops.split(v, 2, 1)[1], x), x[:, 2:])
    assert np.array_equal(compute(lambda v: ops.split(v, [1, 3], 1)[1], x), x[:, 1:])
    assert np.array_equal(compute(lambda v, at: ops.take(v, at, 0), x, i), x[i])
    assert np.array_equal(compute(lambda v: ops.flip(v, 1), x), x[:, ::-1])
    assert np.array_equal(compute(lambda v: ops.cumsum(v, 0), np.round(x)), np.round(x).cumsum(0))
    assert np.array_equal(compute(lambda v: ops.argsort(v), x), x.argsort(-1))
    assert np.array_equal(compute(lambda v: ops.argmax(v, 1), x), x.argmax(1))
    assert np.array_equal(compute(lambda v: ops.where(ops.greater(v, 0.0), v, 9.0), x), np.where(x > 0, x, np.float32(9)))
    assert np.array_equal(compute(lambda v: ops.cast(v, "i32"), x), x.astype(np.int32))
    assert np.array_equal(compute(lambda v: ops.floor_divide(v, 2), i), i // 2)


BESIDE = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "**": lambda a, b: abs(a) ** b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BESIDE))
def test_arrays_and_numbers_may_be_either_operand(name):
    make, x = BESIDE[name], np.round(np.abs(numbers(2, 3)) + 1)
    for other in (np.ones((2, 3), np.float32), np.float64([1, 2, 3]), np.array([[1], [2]]), np.array([True, False, True]), np.float32(2),
                  np.int64(2), np.array(1.5), 2, 0.5, True):  # fmt: skip
        assert compute(lambda v, other=other: make(v, other), x) == pytest.approx(1.0 * make(x, other), rel=1e-5)
        if name != "**":
            assert compute(lambda v, other=other: make(other, v), x) == pytest.approx(1.0 * make(other, x), rel=1e-5)


def test_whole_numbers_stay_exact_with_numbers_and_arrays():
    x = np.array([1, 16777217, -3], np.int32)
    large = np.array([16777219, 5, -16777221], np.int32)
    for make in (lambda v: v + 16777217, lambda v: 16777219 - v, lambda v: v * 3, lambda v: v + large, lambda v: large - v,
                 lambda v: v == 16777217, lambda v: v >= 16777217, lambda v: v == large):  # fmt: skip
        made = compute(make, x)
        assert made.dtype == np.int32 and np.array_equal(made, make(x))
    with pytest.raises(ValueError, match="cast it to f32"):
        compute(lambda v: v + 0.5, x)


def test_functions_take_arrays_and_numbers():
    x, c = numbers(2, 3), np.array([[1, 0, 1], [0, 0, 1]], np.int32)
    w, rows = numbers(4, 3), np.array([1, 0])
    cases = [
        (lambda v: ops.maximum(0, v), np.maximum(0, x)),
        (lambda v: ops.minimum(v, np.zeros(3)), np.minimum(x, 0)),
        (lambda v: ops.where(v > 0, 1.0, v), np.where(x > 0, 1, x)),
        (lambda v: ops.where(v > 0, v, 0), np.where(x > 0, x, 0)),
        (lambda v: ops.where(v > 0, 1, 0), np.where(x > 0, 1, 0)),
        (lambda v: ops.where(v > 0, 0.5, -0.5), np.where(x > 0, 0.5, -0.5)),
        (lambda v: ops.where(c, v, np.ones(3)), np.where(c, x, 1)),
        (lambda v: ops.where(v > 0, np.full(3, 2.0), -1.0), np.where(x > 0, 2, -1)),
        (lambda v: ops.less(0.1, v), 0.1 < x),
        (lambda v: ops.linear(v, w, np.ones(4)), x @ w.T + 1),
        (lambda v: v @ w.T, x @ w.T),
        (lambda v: w @ v.T, w @ x.T),
        (lambda v: ops.take(v, rows, 0), x[rows]),
        (lambda v: ops.concat([v, np.ones((1, 3))], 0), np.concatenate([x, np.ones((1, 3))])),
        (lambda v: ops.stack([v, np.ones((2, 3))]), np.stack([x, np.ones((2, 3))])),
    ]
    for make, truth in cases:
        assert compute(make, x) == pytest.approx(1.0 * truth, rel=1e-4, abs=1e-5)
    assert compute(lambda v: ops.where(v > 0, 1, 0), x).dtype == np.int32
    graph = weft.Graph()
    for wrong in ("text", [1, 2], None, 1j, np.array(["a"])):
        with pytest.raises(TypeError):
            ops.maximum(graph.input(f"x{id(wrong)}", (2,)), wrong)
    with pytest.raises(TypeError, match="weight cannot be 3.0"):
        ops.linear(graph.input("x", (2, 3)), 3.0)


def test_names_that_numpy_and_pytorch_have():
    x = numbers(3, 4)
    e = np.exp(x - x.max(-1, keepdims=True))
    cases = [
        (lambda v: ops.add(v, 1), x + 1), (lambda v: ops.sub(1, v), 1 - x), (lambda v: ops.mul(v, v), x * x), (lambda v: ops.div(v, 2), x / 2),
        (lambda v: ops.clip(v, -1, 1), x.clip(-1, 1)), (lambda v: ops.cat([v, v]), np.concatenate([x, x])), (ops.sign, np.sign(x)),
        (lambda v: ops.std(v, 0), x.std(0)), (ops.log_softmax, np.log(e / e.sum(-1, keepdims=True))), (ops.neg, -x),
        (ops.leaky_relu, np.where(x > 0, x, 0.01 * x)), (ops.elu, np.where(x > 0, x, np.expm1(x))), (ops.flatten, x.ravel()),
        (ops.hardswish, x * (x / 6 + 0.5).clip(0, 1)), (lambda v: ops.zeros(v.graph, (2,)), np.zeros(2)), (ops.sinh, np.sinh(x)),
        (lambda v: ops.topk(v, 2)[0], np.sort(x)[:, :-3:-1]), (lambda v: ops.embedding(np.array([2, 0]), v), x[[2, 0]]),
        (lambda v: v.sum(0), x.sum(0)), (lambda v: v.mean(axis=1, keepdims=True), x.mean(axis=1, keepdims=True)), (lambda v: v.T, x.T),
        (lambda v: v.reshape(2, -1), x.reshape(2, -1)), (lambda v: v.reshape((6, 2)), x.reshape(6, 2)), (lambda v: v.exp(), np.exp(x)),
        (lambda v: v.astype("i32"), x.astype(np.int32)),
    ]  # fmt: skip
    for make, truth in cases:
        assert compute(make, x) == pytest.approx(1.0 * truth, rel=1e-4, abs=1e-5)
    i = np.array([[5, -2], [16777217, 7]], np.int32)
    for make in (lambda v: v.sum(), lambda v: v.max(0), lambda v: v.min(1)):
        assert np.array_equal(compute(make, i), make(i))


def test_a_comparison_has_no_truth():
    graph = weft.Graph()
    x = graph.input("x", (2,))
    for use in (bool, lambda v: v == 0 or None, lambda v: 0 < v < 1, lambda v: v in [x * 1.0]):
        with pytest.raises(TypeError, match="no truth"):
            use(x)
    assert (x == "text") is False and (x != None) is True and {x: 1}[x] == 1


def test_constants_are_copied_and_follow_their_graph():
    array = np.ones(3, np.float32)
    graph = weft.Graph()
    graph.output("y", graph.input("x", (3,)) * array + graph.constant([1, 2, 3]).astype("f32"))
    other = graph.copy()
    array[:] = 7
    plan = weft.Plan(graph, devices=["cpu"], allow=["shapes", "topology"])
    assert plan.run({"x": [1, 1, 1]})["y"].tolist() == [2, 3, 4]
    assert weft.Plan(other, devices=["cpu"]).run({"x": [1, 1, 1]})["y"].tolist() == [2, 3, 4] and other == graph
    again = weft.Graph()
    again.output("y", again.input("x", (3,)) * array + again.constant([1, 2, 3]).astype("f32"))
    assert again != graph
    plan.set_graph(again)
    assert plan.run({"x": [1, 1, 1]})["y"].tolist() == [8, 9, 10]


@pytest.mark.parametrize("device", ["second=cpu", "vulkan0"])
def test_another_graph_keeps_weights_wherever_they_move(device):
    if device not in [one["name"] for one in weft.devices()] and "=" not in device:
        pytest.skip("there is no such device")

    def net(stem):
        graph = weft.Graph()
        x = graph.input("x", (2, 4))
        graph.output("y", ops.linear(ops.linear(x, graph.weight("a", (3, 4))).named(f"{stem}1"), graph.weight("b", (2, 3))).named("last"))
        return graph

    name = device.split("=")[0]
    plan = weft.Plan(net("p"), devices=["cpu", device], pins=[("^p1$|^last$", name)], allow=["shapes", "topology"])
    x, a, b = numbers(2, 4), numbers(3, 4), numbers(2, 3)
    plan.set_weight("a", a)
    plan.set_weight("b", b)
    del a, b  # The plan keeps them.
    truth = plan.run({"x": x})["y"]
    assert plan.placement[0] == name
    for stem, where in (("q", None), ("p", name), ("q", None)):
        plan.set_graph(net(stem))
        assert plan.run({"x": x})["y"] == pytest.approx(truth, rel=1e-4, abs=1e-5)
        assert where is None or plan.placement[0] == where
    other = weft.Graph()
    other.output("y", ops.linear(other.input("x", (2, 4)), other.weight("a", (5, 4))).named("last"))
    plan.set_graph(other)
    with pytest.raises(ValueError, match=r"weight 'a' is \[5, 4\] of f32, and was \[3, 4\] of f32"):
        plan.run({"x": x})


def test_plans_show_their_inputs_and_outputs():
    graph = weft.Graph()
    n = graph.symbol("n", 1, 8)
    ids, x = graph.input("ids", (n,), "i32"), graph.input("x", (n, 4))
    hidden = (x * 2.0).named("hidden")
    graph.output("y", hidden)
    graph.output("z", hidden)
    graph.output("same", ids)
    assert hidden.name == "hidden"
    plan = weft.Plan(graph, devices=["cpu", "second=cpu"], pins=[("^hidden$", "second")])
    assert repr(plan).startswith("<weft.Plan ids [n], x [n, 4] -> y [n, 4], z [n, 4], same [n], ")
    with pytest.raises(ValueError, match=r"'x' has the shape \(2, 4\), not \[n, 4\], where n is 3"):
        plan.run({"ids": [1, 2, 3], "x": numbers(2, 4)})
    made = plan.run({"ids": [1, 2], "x": np.ones((2, 4))})
    assert made["same"].tolist() == [1, 2] and np.array_equal(made["y"], made["z"]) and plan.placement[0] == "second"


def test_numbers_without_axes():
    number = np.float32(3)
    made = compute(lambda x, w: x * w + 1.0, number, w=np.float32(2))
    assert made.shape == () and made == 7


def example():
    graph = weft.Graph()
    n = graph.symbol("n", 1, 8)
    x = graph.input("x", (n, 4))
    graph.output("y", ops.linear(x, graph.weight("w", (3, 4))) * 2.0)
    return graph


def test_sizes_are_numbers_of_their_symbols():
    n = weft.Graph().symbol("n", 1, 8)
    assert ((n * 2 + 1) // 3).value({"n": 7, "other": 1}) == 5
    with pytest.raises(ValueError, match="the size n is not among"):
        n.value({"m": 7})


def test_sizes():
    graph = example()
    value = graph.symbol("m", 1, 100)
    size = (value + 2) * 3 - 1
    assert str(size) == "3*m + 5" or "m" in str(size)
    assert size == 3 * value + 5 and size != value and hash(size) == hash(value * 3 + 5)
    assert (value + value) // 2 is not None
    plan = weft.Plan(graph.copy(), devices=["cpu"])
    w = numbers(3, 4)
    plan.set_weight("w", w)
    for rows in (1, 8, 3):
        x = numbers(rows, 4)
        assert plan.run({"x": x}, m=4)["y"] == pytest.approx(2 * x @ w.T, rel=1e-4, abs=1e-5)
    assert plan.counters["compiled"] == 1 and plan.counters["steps"] == 3
    assert plan.placement and "cpu" in plan.explain()


def test_weights_may_change_where_that_is_allowed():
    plan = weft.Plan(example(), devices=["cpu"], allow=["tensors"])
    x, w = numbers(8, 4), numbers(3, 4)
    plan.set_weight("w", w)
    plan.run({"x": x}, n=8)
    plan.set_weight("w", w + 1)
    assert plan.run()["y"] == pytest.approx(2 * x @ (w + 1).T, rel=1e-4, abs=1e-5)
    fixed = weft.Plan(example(), devices=["cpu"])
    fixed.set_weight("w", w)
    fixed.run({"x": x})
    with pytest.raises(weft.Error):
        fixed.set_weight("w", w)
        fixed.run()


def test_mistakes_are_named():
    graph = example()
    x = graph.input("z", (2, 5))
    with pytest.raises(ValueError, match="as many columns"):
        ops.linear(x, graph.weight("v", (3, 4)))
    with pytest.raises(ValueError, match="two graphs"):
        ops.matmul(x, example().input("z", (2, 5)))
    with pytest.raises(TypeError):
        ops.relu(None)
    with pytest.raises(TypeError):
        ops.relu(np.ones(3))
    with pytest.raises(ValueError, match="f9"):
        graph.input("q", (2,), "f9")
    with pytest.raises(TypeError):
        graph.input("q", (1, 2, 3, 4, 5))
    plan = weft.Plan(example(), devices=["cpu"])
    plan.set_weight("w", numbers(3, 4))
    with pytest.raises(ValueError, match=r"shape \(2, 5\)"):
        plan.run({"x": numbers(2, 5)})
    with pytest.raises(ValueError, match="n"):
        plan.run({"x": numbers(9, 4)})
    with pytest.raises(FileNotFoundError, match="'nothing'"):
        plan.run({"nothing": numbers(2, 4)})
    with pytest.raises(ValueError, match="no symbol 'k'"):
        plan.run({"x": numbers(2, 4)}, k=3)
    with pytest.raises(weft.Error, match="w"):
        weft.Plan(example(), devices=["cpu"]).run({"x": numbers(2, 4)})


def test_values_keep_their_graph():
    def value():
        graph = weft.Graph()
        return ops.relu(graph.input("x", (2, 3)))

    kept = value()
    gc.collect()
    assert kept.shape == (2, 3) and kept.dtype == "f32" and kept.ndim == 2
    kept.graph.output("y", kept.named("mine"))
    assert "mine" in str(kept.graph) or "y" in str(kept.graph)
    assert weft.Plan(kept.graph, devices=["cpu"]).run({"x": -np.ones((2, 3))})["y"].sum() == 0


def test_other_threads_run_while_a_plan_is_made_and_weights_are_packed():
    count, done = [0], threading.Event()

    def work():
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    graph = weft.Graph()
    x = graph.input("x", (1, 512))
    for i in range(30):
        x = ops.linear(x, graph.weight(f"w{i}", (512, 512)))
    graph.output("y", x)
    plan, w = weft.Plan(graph, devices=["cpu"], allow=["topology", "tensors"]), numbers(512, 512)
    uses = [lambda: weft.Plan(graph, devices=["cpu"]), lambda: plan.set_weight("w0", w), lambda: plan.set_graph(graph)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Nobody takes the lock from who does not give it up.
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for use in uses:
            before, end = count[0], time.monotonic() + 20
            while count[0] == before and time.monotonic() < end:
                use()
            assert count[0] > before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        thread.join()


def test_a_plan_that_another_thread_uses_says_so():
    graph = weft.Graph()
    x = graph.input("x", (64, 512))
    for _ in range(200):
        x = ops.tanh(x)
    graph.output("y", x)
    plan = weft.Plan(graph, devices=["cpu"], n_threads=1)
    given, done, refused = numbers(64, 512), threading.Event(), set()

    def work():
        while not done.is_set():
            with contextlib.suppress(weft.InvalidArgumentError):  # Or the other way round.
                plan._plan.run({"x": given}, {})

    thread = threading.Thread(target=work)
    thread.start()
    try:
        uses = {name: lambda name=name: getattr(plan, name) for name in ("outputs", "placement", "counters")} | {"explain": plan.explain}
        end = time.monotonic() + 120
        for name, use in uses.items():
            while name not in refused and time.monotonic() < end:
                time.sleep(1e-3)  # The other one begins a step.
                try:
                    use()
                except weft.InvalidArgumentError as error:
                    assert "at work in another thread" in str(error)
                    refused.add(name)
    finally:
        done.set()
        thread.join()
    assert refused == uses.keys()


def test_plans_keep_their_weights_and_no_more():
    plan = weft.Plan(example(), devices=["cpu"])
    w = numbers(3, 4)
    count = sys.getrefcount(w)
    plan.set_weight("w", w)
    assert sys.getrefcount(w) > count
    x = numbers(2, 4)
    held = sys.getrefcount(x)
    for _ in range(10):
        y = plan.run({"x": x})["y"]
    assert sys.getrefcount(x) == held and sys.getrefcount(y) == 2
    del plan
    gc.collect()
    assert sys.getrefcount(w) == count


def test_a_plan_lets_go_of_weights_that_another_graph_does_not_have():
    plan = weft.Plan(example(), devices=["cpu"], allow=["shapes", "topology"])
    w, x = numbers(3, 4), numbers(2, 4)
    count = sys.getrefcount(w)
    plan.set_weight("w", w)
    plan.run({"x": x})
    other = weft.Graph()
    other.output("y", ops.relu(other.input("x", (2, 4))))
    plan.set_graph(other)
    plan.run({"x": x})
    gc.collect()
    assert sys.getrefcount(w) == count


def test_weights_have_their_shapes():
    graph = weft.Graph()
    x = graph.input("x", (1, 4))
    graph.output("y", ops.linear(x, graph.weight("w", (8, 4))))
    plan = weft.Plan(graph, devices=["cpu"])
    for wrong in ((4, 8), (32,), (8, 4, 1)):
        with pytest.raises(weft.InvalidArgumentError, match=r"'w' has the shape \(8, 4\), not"):
            plan.set_weight("w", np.zeros(wrong))
    plan.set_weight("w", np.zeros((8, 4)))


def test_a_value_is_no_sequence():
    graph = weft.Graph()
    x = graph.input("x", (graph.symbol("n", 1, 64), 4))
    for use in (list, lambda value: 1.0 in value, lambda value: ops.concat(value, 0), lambda value: ops.sum(value, value)):
        with pytest.raises(TypeError):
            use(x)
    assert len(graph) == 0
