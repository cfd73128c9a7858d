"""What is of a wrong kind is an error of one line that names it."""
import numpy as np
import pytest
import weft
from conftest import ENCODERS
from weft import options

NAN = float("nan")


class WithoutRepr:
    def __repr__(self):
        raise RuntimeError("no repr")


ODD = [None, 5, -1, 2**31, 2**63, 2**70, 1.5, NAN, "x", "", "\ud800", b"x", [], [1], ["x"], [None], (1, "x"), {}, {"a": 1}, {1: 2},
       set(), WithoutRepr(), np.zeros((2, 3))[:, ::2], np.zeros(2, complex), np.zeros(0), print, weft, weft.Model]  # fmt: skip


def use(function, *given, **named):
    """Whatever comes of it, if it is an error it is one that a user can read."""
    try:
        function(*given, **named)
    except (weft.Error, TypeError, ValueError) as error:
        told = str(error)
        raw = ("\n", "incompatible function", "NoneType", "not iterable", "has no attribute", "nanobind")
        assert len(told) > 7 and not any(word in told for word in raw), told


def functions(model):
    """Each with arguments that are right, and the names of others."""
    context, sampler, batch, graph = model.context(n_ctx=64, n_best=4), model.sampler(), weft.Batch(), weft.Graph()
    batch.add([1, 2], logits=True)
    context.decode(batch)
    x = graph.input("x", (2, 4))
    graph.output("y", weft.ops.relu(x))
    plan = weft.Plan(graph, devices=["cpu"])
    embedder = weft.Embedder(ENCODERS / "bert/model.gguf", pack_cache="")
    few = {"max_tokens": 1}
    yield model.tokenize, ["hello"], ["add_special", "parse_special"]
    yield model.detokenize, [[1, 2]], ["special"]
    yield model.token_text, [5], []
    yield model.find_token, ["a"], []
    yield model.is_end, [5], []
    yield lambda *a, **k: model.generate(*a, **(few | k)), ["hello"], sorted(options.RequestOptions.__annotations__.keys() - few)
    yield (lambda *a, **k: model.chat(*a, **(few | k)), ["hello"],
           ["tools", "tool_choice", "reasoning_effort", "chat_template", "template_variables", "continue_final_message", "stop"])  # fmt: skip
    yield model.save_prefix, [[1, 2]], []
    yield model.restore_prefix, [b"abc"], []
    yield model.sampler, [], options.SamplingOptions.__annotations__
    yield sampler.sample, [np.zeros(model.n_vocab, np.float32)], []
    yield sampler.accept, [1], []
    yield lambda *a, **k: weft.Batch().add(*a, **k), [1], ["seq", "logits", "pos"]
    yield lambda *a, **k: weft.Batch().add_embedding(*a, **k), [np.zeros(8, np.float32)], ["seq", "logits", "pos"]
    for name in ("logits", "best", "log_sum_exp", "embedding", "remove", "keep", "next_pos", "save", "decode"):
        yield getattr(context, name), [0], []
    for name in ("copy", "can_cut", "set_adapters", "set_source"):
        yield getattr(context, name), [0, 1], []
    yield context.shift, [0, 0, 1, 0], []
    yield context.restore, [b"abc"], ["seq"]
    yield embedder.embed, ["hello"], ["normalize", "pooling", "dimensions"]
    yield embedder.rank, ["hello", ["a", "b"]], []
    yield lambda *a, **k: weft.Plan(*a, **({"devices": ["cpu"]} | k)), [graph], ["devices", "pins", "n_threads", "allow"]
    yield plan.run, [{"x": np.zeros((2, 4))}], ["n"]
    yield lambda value: plan.run({"x": value}), [np.zeros((2, 4))], []
    for name, given in (("symbol", ["s", 1, 8]), ("input", ["q", (1, 2), "f32"]), ("weight", ["q", (1, 2), "q8_0"]), ("output", ["q", x])):
        yield lambda *a, name=name: getattr(graph.copy(), name)(*a), given, []
    for name, given in (("linear", [x, x]), ("sum", [x, -1]), ("concat", [[x, x]]), ("reshape", [x, (4, 2)]), ("clamp", [x, 0, 1]),
                        ("take", [x, x, 0]), ("conv2d", [x, x]), ("maximum", [x, 1.0]), ("split", [x, 2])):  # fmt: skip
        yield getattr(weft.ops, name), given, []
    yield lambda place: x[place], [0], []


@pytest.mark.filterwarnings("ignore:the model.s chat template does not use")
def test_odd_arguments_are_readable_errors(model):
    n = 0
    for function, given, names in functions(model):
        for odd in ODD:
            for place in range(len(given)):
                use(function, *given[:place], odd, *given[place + 1 :])
                n += 1
            for name in names:
                use(function, *given, **{name: odd})
                n += 1
        use(function, *given, *range(9))
        use(function, *given, no_such_argument=1)
        use(function)
    assert n > 3000


def test_odd_arguments_of_a_model_are_readable_errors(chat_file):
    names = ["progress", "draft", *sorted(options.ModelOptions.__annotations__.keys() - {"pack_cache"})]
    for odd in ODD:
        use(weft.Model, odd)
        use(weft.Model, chat_file, pack_cache=odd) if not isinstance(odd, str) else None
        for name in names:
            use(weft.Model, chat_file, **({"pack_cache": ""} | {name: odd}))


def test_errors_name_the_argument(model, chat_file):
    batch, graph = weft.Batch(), weft.Graph()
    x = graph.input("x", (2, 4))
    for told, wrong in {
        r"draft cannot be 5; it must be a weft\.Model": lambda: weft.Model(chat_file, pack_cache="", draft=5),
        r"path cannot be 5; it must be a path": lambda: weft.Model(5),
        r"tokenize\(\): text cannot be 5; it must be str": lambda: model.tokenize(5),
        r"add\(\): tokens cannot be 'x'; it must be int \|": lambda: batch.add("x"),
        r"add\(\): tokens cannot be 1099511627776; .* of at most 32 bits": lambda: batch.add(2**40),
        r"add\(\) lacks the argument tokens": lambda: batch.add(),
        r"add\(\) has no argument 'sequence'; it has tokens, seq": lambda: batch.add(1, sequence=1),
        r"Batch\(\) takes no arguments": lambda: weft.Batch(5),
        r"Graph\(\) takes no arguments": lambda: weft.Graph(5),
        r"temperature cannot be 'hot'": lambda: model.generate("hello", temperature="hot"),
        r"json_schema cannot be written as JSON": lambda: model.generate("hello", json_schema={"a": {1, 2}}),
        r"grammar cannot be True; it must be a str, or None for the default": lambda: model.generate("hello", grammar=True),
        r"a message cannot be 5": lambda: model.chat([5]),
        r"devices cannot be 'cpu'; it must be a list": lambda: weft.Plan(graph, devices="cpu"),
        r"relu\(\): x cannot be 5; it must be Value": lambda: weft.ops.relu(5),
        r"a place in a value cannot be 1\.5": lambda: x[1.5],
    }.items():
        with pytest.raises(TypeError, match=told):
            wrong()
    assert x[None].shape == (1, 2, 4)


def test_arrays_keep_their_numbers():
    graph = weft.Graph()
    x, ids = graph.input("x", (2, 4)), graph.input("ids", (2,), "i32")
    weight = graph.weight("w", (3, 4), "bf16")
    graph.output("y", weft.ops.linear(x, weight))
    graph.output("e", weft.ops.take(graph.weight("table", (4, 4)), ids))
    graph.output("q", weft.ops.linear(graph.input("long", (1, 32)), graph.weight("q8", (1, 32), "q8_0")))
    plan = weft.Plan(graph, devices=["cpu"], allow=["shapes", "tensors"])
    plan.set_weight("table", np.eye(4))
    plan.set_weight("q8", np.zeros(34, np.uint8))
    # Floats become bf16, rounded to the nearest; bits stay unchanged.
    numbers = np.array([1.0, -2.5, 1.00390625, 1.01171875, 3.4e38, np.inf, 0.0, 1e-40] + [0.5] * 4, np.float32).reshape(3, 4)
    near = np.array([1.0, -2.5, 1.0, 1.015625, np.inf, np.inf, 0.0, 1.0e-40] + [0.5] * 4, np.float32).reshape(3, 4)
    inputs = {"x": np.eye(4)[:2], "ids": [3, 0], "long": np.ones((1, 32))}
    for given in (numbers[:1].repeat(3, 0), (near[:1].repeat(3, 0).view(np.uint32) >> 16).astype(np.uint16)):
        plan.set_weight("w", given)
        made = plan.run(inputs)
        assert np.array_equal(made["y"], near[:1].repeat(3, 0).T[:2]) and np.array_equal(made["e"], np.eye(4)[[3, 0]])
    assert np.isinf((weft.arguments.bf16("w", numbers).astype(np.uint32) << 16).view(np.float32)[1, :2]).all()
    assert np.isnan((weft.arguments.bf16("w", [NAN]).astype(np.uint32) << 16).view(np.float32)).all()
    for wrong in ([2**40, 0], [0.5, 0], [NAN, 0], ["3", "0"]):
        with pytest.raises(TypeError, match="'ids' must be an array of int32 numbers"):
            plan.run(inputs | {"ids": wrong})
    with pytest.raises(TypeError, match="'q8' must be an array of uint8 numbers: it has numbers that uint8 cannot represent"):
        plan.set_weight("q8", np.full((1, 32), 0.5))
    # A number out of the type's range would become infinite; infinities stay infinite.
    for large in (1e39, -1e39, 10**39):
        with pytest.raises(TypeError, match="'x' must be an array of float32 numbers: it has numbers that are too large"):
            plan.run(inputs | {"x": [[large, 0, 0, 0]] * 2})
    infinite = weft.arguments.array("x", [np.inf, -np.inf, 3.4e38], np.float32)
    assert np.array_equal(np.isinf(infinite), [True, True, False])
