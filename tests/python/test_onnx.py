"""ONNX models. The references are the node tests of the package onnx that weft supports, and onnxruntime for nets that
torch.onnx.export wrote (scripts/make_onnx_data.py). run.py --onnx has the packages."""
import importlib.util
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import weft
import weft.onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "python.md"
NETS = ROOT / "tests" / "data" / "onnx"
# With five axes, which take half a minute to make; weft would refuse them.
SLOW = {"export_averagepool_3d_default", "export_lppool_3d_default", "export_maxpool_3d_default"}


def cases(kind):
    """The backend tests of a kind, as (name, model, [(inputs, outputs)], relative and absolute tolerance)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import base
        from onnx.backend.test.loader import load_model_tests

        plain = base._Exporter.__init__

        def without_slow(cls, name, bases, members):
            plain(cls, name, bases, {name: one for name, one in members.items() if name not in SLOW})

        base._Exporter.__init__ = without_slow
        try:
            loaded = load_model_tests(kind=kind)
        finally:
            base._Exporter.__init__ = plain
    for case in loaded:
        if case.model is not None:
            yield case.name, case.model, case.data_sets, case.rtol, case.atol
            continue
        folder = Path(case.model_dir)

        def read(where, of):
            files = sorted(where.glob(f"{of}_*.pb"), key=lambda file: int(file.stem.split("_")[-1]))
            return [onnx.load_tensor(str(file)) for file in files]

        sets = [(read(where, "input"), read(where, "output")) for where in sorted(folder.glob("test_data_set_*"))]
        yield case.name, onnx.load(folder / "model.onnx"), sets, case.rtol, case.atol


def array_of(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else x


def run(model, given):
    """Weights that are inputs must be known beforehand."""
    constants = {}
    while True:
        try:
            made = weft.onnx.load(model, constants=constants, devices=["cpu"], n_threads=1)
            return made.run({name: array for name, array in given.items() if name not in constants})
        except weft.onnx.UnsupportedModelError as error:
            missing = [name for name in error.inputs if name not in constants]
            if not missing:
                raise
            constants.update({name: given[name] for name in missing})


def compare(name, made, truth, rtol, atol):
    assert made.dtype == truth.dtype and made.shape == truth.shape, name
    if truth.dtype.name == "bfloat16":  # Two steps of its digits: the truth is rounded after each op, what weft makes once.
        rtol = 2.0**-6
    if "dft" in name and truth.size:  # Sums of sines that cancel: by the largest of them.
        atol = max(atol, 1e-7 * np.abs(truth).max())
    if truth.dtype.kind in "fV":
        np.testing.assert_allclose(made.astype(np.float32), truth.astype(np.float32), rtol, atol, err_msg=name)
    else:
        np.testing.assert_array_equal(made, truth, err_msg=name)


def run_all(kind):
    """What became of the tests of a kind. Nothing that is loaded may be wrong."""
    counts, wrong = Counter(), []
    known = {*weft.onnx.operators(), "If", "Loop", "Scan"}
    for name, model, sets, rtol, atol in cases(kind):
        initial = {one.name for one in model.graph.initializer}
        names = [one.name for one in model.graph.input if one.name not in initial]
        is_known = {one.op_type for one in model.graph.node} <= known
        counts["all"] += 1
        counts["known"] += is_known
        try:
            for inputs, outputs in sets:
                given = dict(zip(names, map(array_of, inputs), strict=False))
                made = run(model, given)
                for one, truth in zip(model.graph.output, outputs, strict=True):
                    compare(f"{name} {one.name}", made[one.name], array_of(truth), rtol, atol)
            counts["passed"] += 1
            counts["known passed"] += is_known
        except weft.errors.UnsupportedError as error:
            # Nothing but what weft lacks may be a reason: of a model, or of a step, whose numbers do not fit 32 bits.
            problems = getattr(error, "problems", [str(error)])
            assert problems and not any(re.search("argument|attribute '|NoneType", one) for one in problems), (name, error)
            counts["unsupported"] += 1
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)
    return counts


@pytest.fixture(scope="module")
def nodes():
    return run_all("node")


def test_nodes(nodes):
    # The page's numbers are of one version of the package.
    text = re.sub(r"\s+", " ", PAGE.read_text())
    says = (r"Of the (\d+) node tests of onnx (\d+\.\d+), (\d+) pass\. "
            r"For ops that weft implements directly, (\d+) of (\d+) pass")
    ((every, version, passed, known_passed, known),) = re.findall(says, text)
    if onnx.__version__.startswith(version + "."):
        assert (nodes["passed"], nodes["all"] + len(SLOW)) == (int(passed), int(every))
        assert (nodes["known passed"], nodes["known"] + len(SLOW)) == (int(known_passed), int(known))
    assert nodes["passed"] > 1200


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_models_of_the_package(kind):
    assert run_all(kind)["passed"] > 0


def random(described, sizes, rng):
    shape = [sizes.get(size, size) for size in described.shape]
    if described.dtype.kind == "i":
        return rng.integers(0, 50, shape).astype(described.dtype)
    return rng.standard_normal(shape).astype(described.dtype)


@pytest.mark.parametrize("path", sorted(NETS.glob("*.onnx")), ids=lambda path: path.stem)
def test_nets_of_torch(path):
    rng = np.random.default_rng(5)
    model = weft.onnx.load(path, devices=["cpu"])
    truth = onnxruntime.InferenceSession(path)
    for step in range(4 if model.symbols else 1):
        sizes = {name: int(rng.integers(2, 8)) if step else 3 for name in model.symbols}
        given = {name: random(one, sizes, rng) for name, one in model.inputs.items()}
        made = model.run(given)
        for name, right in zip(model.outputs, truth.run(list(model.outputs), given), strict=True):
            assert made[name].shape == right.shape and made[name].dtype == right.dtype
            assert np.square(made[name] - right).sum() <= 1e-9 * np.square(right).sum(), (name, sizes)


# Models of packages, with the sizes of a step.
REAL = [
    ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (2, 3, 48, 192)}),
    ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 160)}),
    ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (2, 3, 48, 100)}),
    ("silero_vad/data/silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128), "sr": 16000}),
    ("silero_vad/data/silero_vad.onnx", {"input": (2, 288), "state": (2, 2, 128), "sr": 8000}),
    ("silero_vad/data/silero_vad_16k_sequence.onnx", {"input": (30, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
]


@pytest.mark.parametrize("place, sizes", REAL, ids=lambda one: one.split("/")[-1] if isinstance(one, str) else None)
def test_real_models(place, sizes):
    """Nothing is said of them but their inputs."""
    spec = importlib.util.find_spec(place.split("/")[0])
    if spec is None:
        pytest.skip("the package that has it is not installed")
    path = Path(spec.submodule_search_locations[0]).parent / place
    rng = np.random.default_rng(11)
    given = {name: np.array(size) if isinstance(size, int) else (rng.standard_normal(size) * 0.3).astype(np.float32)
             for name, size in sizes.items()}  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    truth = onnxruntime.InferenceSession(path, options).run(None, given)
    for made, right in zip(weft.onnx.load(path, devices=["cpu"]).run(given).values(), truth, strict=True):
        assert made.shape == right.shape and np.square(made - right).sum() <= 1e-8 * np.square(right).sum()


def test_the_page_says_what_happens(tmp_path, monkeypatch, capsys):
    """Its part on ONNX, which the page's own test leaves out, for it has no package onnx."""
    ((program, printed),) = re.findall(r"^```py\n([^`]*)^```\n\n```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "model.onnx").write_bytes((NETS / "pictures.onnx").read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == printed


# Models that are made here.


def model_of(nodes, inputs, outputs, initializers=(), opset=21):
    graph = helper.make_graph(nodes, "test", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in initializers])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def whole(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(shape))


def linear(rows="n"):
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)]
    return model_of(nodes, [floats("x", rows, 4)], [floats("y", rows, 3)], [("w", weight)]), weight


def test_symbols():
    made, weight = linear()
    model = weft.onnx.load(made, sizes={"n": (1, 8)}, devices=["cpu"])
    assert model.symbols == {"n": (1, 8)} and model.inputs["x"].shape == ("n", 4) and model.outputs["y"].shape == ("n", 3)
    for n in (2, 8, 1):
        x = np.random.default_rng(n).standard_normal((n, 4), np.float32)
        assert model.run({"x": x})["y"] == pytest.approx(x @ weight.T, rel=1e-5)
    with pytest.raises(ValueError, match="n"):
        model.run({"x": np.ones((9, 4), np.float32)})
    grows = weft.onnx.load(made, devices=["cpu"])
    for n, most in ((2, 2), (1, 2), (3, 4), (4, 4), (9, 9)):
        x = np.random.default_rng(n).standard_normal((n, 4), np.float32)
        assert grows.run({"x": x})["y"] == pytest.approx(x @ weight.T, rel=1e-5)
        assert grows.symbols == {"n": (0, most)}
    fixed = weft.onnx.load(made, sizes={"n": 5}, devices=["cpu"])
    assert fixed.inputs["x"].shape == (5, 4)
    with pytest.raises(FileNotFoundError, match="no symbol 'm'; it has n"):
        weft.onnx.load(made, sizes={"m": 5})
    assert "cpu" in grows.explain() and "matmul" in str(grows)


def test_all_missing_ops_are_named_at_once():
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"], name="find"),
        helper.make_node("Det", ["x"], ["d"], name="first"),
        helper.make_node("Det", ["d"], ["e"], name="second"),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("GridSample", ["r", "x"], ["g"], mode="bicubic"),
        helper.make_node("Reshape", ["r", "shape"], ["y"]),
    ]
    made = model_of(nodes, [floats("x", 2, 2), whole("shape", 1)], [floats("y", "k")])
    with pytest.raises(weft.onnx.UnsupportedModelError) as told:
        weft.onnx.load(made)
    text = "\n".join(told.value.problems)
    assert "NonZero (opset 21): weft has no such op (find)" in text and "Det (opset 21): weft has no such op (first, second)" in text
    assert "GridSample" in text and told.value.inputs == ["shape"] and len(told.value.problems) == 4
    assert isinstance(told.value, NotImplementedError)
    with pytest.raises(weft.onnx.UnsupportedModelError, match="complex64"):
        weft.onnx.load(model_of([helper.make_node("Relu", ["x"], ["y"])],
                                [helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [2])], [floats("y", 2)]))  # fmt: skip
    with pytest.raises(weft.onnx.UnsupportedModelError, match=r"Relu \(opset 1\): weft does not have consumed_inputs=\[1\]"):
        old = helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[1])
        weft.onnx.load(model_of([old], [floats("x", 2)], [floats("y", 2)], opset=1))
    with pytest.raises(weft.Error, match="Unrecognized attribute: colour"):
        weft.onnx.load(model_of([helper.make_node("Relu", ["x"], ["y"], colour=3)], [floats("x", 2)], [floats("y", 2)]))


def test_constants():
    made = model_of([helper.make_node("Reshape", ["x", "shape"], ["y"])], [floats("x", 2, 3), whole("shape", 2)], [floats("y", "a", "b")])
    model = weft.onnx.load(made, constants={"shape": [3, 2]}, devices=["cpu"])
    assert list(model.inputs) == ["x"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(model.run({"x": x})["y"], x.reshape(3, 2))
    with pytest.raises(FileNotFoundError, match="'z'"):
        weft.onnx.load(made, constants={"z": 1})
    # One unknown size can be inferred; two cannot.
    with pytest.raises(weft.onnx.UnsupportedModelError, match="Reshape.* not several"):
        weft.onnx.load(made, constants={"shape": [-1, -1]}, devices=["cpu"])


def test_arguments_are_checked():
    model = weft.onnx.load(linear()[0], devices=["cpu"])
    with pytest.raises(FileNotFoundError, match="no input 'z'; it has x"):
        model.run({"z": np.ones((2, 4), np.float32)})
    with pytest.raises(ValueError, match="'x' is missing"):
        model.run({})
    with pytest.raises(ValueError, match=r"shape \(2, 5\), not \(n, 4\)"):
        model.run({"x": np.ones((2, 5), np.float32)})
    with pytest.raises(ValueError, match="float32, not complex128"):
        model.run({"x": np.ones((2, 4), np.complex128)})
    rows = model_of([helper.make_node("Gather", ["t", "x"], ["y"])], [whole("x", 1)], [floats("y", 1)], [("t", np.arange(3, dtype=np.float32))])
    with pytest.raises(weft.Error, match="the input 'x' has whole numbers that do not fit 32 bits"):
        weft.onnx.load(rows, devices=["cpu"]).run({"x": [1 << 40]})
    with pytest.raises(FileNotFoundError):
        weft.onnx.load("nothing.onnx")
    with pytest.raises(weft.Error, match="no ONNX model"):
        weft.onnx.load(b"nothing")


def test_damaged_models_are_errors_of_weft():
    def loaded(*nodes, functions=(), **arrays):
        made = model_of(nodes, [floats("x", 1, 1, 4, 4)], [floats("y", *"abcd")], arrays.items(), opset=20)
        made.opset_import.append(helper.make_opsetid("own", 1))
        made.functions.extend(functions)
        return made

    kernel, node = np.ones((1, 1, 3, 3), np.float32), helper.make_node
    damaged = loaded(node("Add", ["x", "w"], ["y"]), w=np.ones(4, np.float32))
    damaged.graph.initializer[0].dims[0] = 3
    with pytest.raises(weft.InvalidFileError, match="the weight 'w' is damaged"):
        weft.onnx.load(damaged)
    function = helper.make_function("own", "f", ["a"], ["b", "c"], [node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 20)])
    for made, says in (
        (loaded(node("Conv", ["x", "w"], ["y"], strides=[1]), w=kernel), "have 2 numbers"),
        (loaded(node("Conv", ["x", "w"], ["y"], pads=[1, 1]), w=kernel), "have 4 numbers"),
        (loaded(node("DFT", ["x", "n", "axis"], ["y"]), n=np.array(0), axis=np.array(2)), "1 to 8192 points"),
        (loaded(node("Resize", ["x", "", "", "n"], ["y"], mode="linear"), n=np.array([1, 1, 1 << 40, 4])), "Resize"),
        (loaded(node("f", ["x"], ["y", "z"], domain="own"), functions=[function]), "does not make its output 'c'"),
    ):
        with pytest.raises(weft.onnx.UnsupportedModelError, match=says):
            weft.onnx.load(made)


def test_constants_without_elements():
    rows = np.zeros((0, 3), np.float32)
    nodes = [helper.make_node("Concat", ["x", "rows"], ["t"], axis=0), helper.make_node("Add", ["t", "t"], ["y"])]
    made = model_of(nodes, [floats("x", "n", 3)], [floats("y", "m", 3)], [("rows", rows)])
    model = weft.onnx.load(made, devices=["cpu"])
    for n in (2, 0, 5):
        x = np.ones((n, 3), np.float32)
        assert np.array_equal(model.run({"x": x})["y"], x + x)


def test_weights_in_separate_files(tmp_path):
    made, weight = linear(2)
    onnx.save_model(linear(2)[0], tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = np.ones((2, 4), np.float32)
    for source in (tmp_path / "model.onnx", str(tmp_path / "model.onnx"), made, made.SerializeToString()):
        assert weft.onnx.load(source, devices=["cpu"]).run({"x": x})["y"] == pytest.approx(x @ weight.T)
    assert len(made.graph.initializer) == 1  # What was given stays as it was.
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(weft.Error, match="'w' cannot be read"):
        weft.onnx.load(tmp_path / "model.onnx")
    for key, value, match in (
        ("location", "../weights.bin", r"\.\./weights.bin"),
        ("offset", "-8", "'w' "),
        ("offset", "eight", "'w' does not say where"),
        ("offset", str(1 << 70), "'w' cannot be read"),
        ("length", "-1", "'w' "),
    ):
        wrong = linear(2)[0]
        onnx.save_model(wrong, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
        wrong = onnx.load(tmp_path / "model.onnx", load_external_data=False)
        places = wrong.graph.initializer[0].external_data
        del places[:]
        for name, text in ({"location": "weights.bin"} | {key: value}).items():
            places.add(key=name, value=text)
        (tmp_path / "model.onnx").write_bytes(wrong.SerializeToString())
        with pytest.raises(weft.Error, match=match):
            weft.onnx.load(tmp_path / "model.onnx")
    with pytest.raises(OSError, match="directory"):
        weft.onnx.load(tmp_path)


def test_functions_and_branches_of_a_model():
    body = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("LeakyRelu", ["s"], ["b"])]
    body[1].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    square = helper.make_function("mine", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 21)], ["slope"])
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "then", [], [floats("n", 3)])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["n"])], "else", [], [floats("n", 3)])
    nodes = [helper.make_node("If", ["yes"], ["t"], then_branch=then, else_branch=other),
             helper.make_node("Square", ["t"], ["y"], domain="mine", slope=0.5)]  # fmt: skip
    graph = helper.make_graph(nodes, "test", [floats("x", 3)], [floats("y", 3), floats("t", 3), floats("x", 3)],
                              [numpy_helper.from_array(np.array(True), "yes")])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)], functions=[square])
    x = np.array([-2, 0, 3], np.float32)
    results = weft.onnx.load(made, devices=["cpu"]).run({"x": x})
    assert np.array_equal(results["y"], x * x) and np.array_equal(results["t"], -x) and np.array_equal(results["x"], x)


def test_a_graph_is_made_for_sizes_and_values_that_it_needs():
    """Values that no symbol can represent are read from each step's inputs, without declaration."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["t"]),
        helper.make_node("Resize", ["t", "", "", "sizes"], ["y"], mode="linear"),
        helper.make_node("Add", ["t", "w"], ["z"]),
    ]
    made = model_of(nodes, [floats("x", "n", "m"), whole("shape", 4), whole("sizes", 4)], [floats("y", *"abcd"), floats("z", *"efgh")],
                    [("w", np.arange(3, dtype=np.float32))])  # fmt: skip
    model, truth = weft.onnx.load(made, devices=["cpu"]), onnxruntime.InferenceSession(made.SerializeToString())
    assert list(model.inputs) == ["x", "shape", "sizes"] and model.symbols == {"n": (0, 1), "m": (0, 1)}
    assert model.outputs["y"].shape == ("a", "b", "c", "d")
    with pytest.raises(ValueError, match="made by the first step"):
        model.explain()
    rng = np.random.default_rng(3)
    for n, m, shape, sizes in ((4, 3, (1, 1, 4, 3), (1, 1, 8, 6)), (4, 3, (1, 2, 2, 3), (1, 2, 3, 3)), (8, 6, (1, 2, 8, 3), (1, 2, 9, 7)),
                               (4, 3, (1, 1, 4, 3), (1, 1, 8, 6))):  # fmt: skip
        given = {"x": rng.standard_normal((n, m), np.float32), "shape": np.array(shape), "sizes": np.array(sizes)}
        for _ in range(2):
            results = model.run(given)
            for name, right in zip(("y", "z"), truth.run(["y", "z"], given), strict=True):
                assert results[name] == pytest.approx(right, rel=1e-5, abs=1e-6)
    # A shape that cannot be is the fault of that step alone.
    with pytest.raises(weft.onnx.UnsupportedModelError, match="Reshape"):
        model.run({**given, "shape": np.array([1, 1, 5, 3])})
    assert model.run(given)["y"] == pytest.approx(results["y"])
    # Input data of a model is never used as a switch, for any use.
    large = model_of([helper.make_node("Expand", ["x", "shape"], ["y"])], [floats("x", 1), whole("shape", "n")], [floats("y", "k")])
    with pytest.raises(weft.onnx.UnsupportedModelError, match="known when the model is loaded: shape"):
        weft.onnx.load(large, devices=["cpu"]).run({"x": np.ones(1, np.float32), "shape": np.ones(65, np.int64)})


def test_sizes_are_compared_and_cast_as_what_they_are_in_each_step():
    def of_rows(*nodes):
        rows = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["n"])]
        numbers = [("zero", np.array(0)), ("three", np.array(3)), ("half", np.array(0.5, np.float32)), ("less", np.array([-1]))]
        made = model_of([*rows, *nodes], [floats("x", "rows", 2)], [floats("y", "a", "b")], numbers)
        return weft.onnx.load(made, devices=["cpu"])

    def branch(op):
        return helper.make_graph([helper.make_node(op, ["x", "x"], ["r"])], op, [], [floats("r", "a", "b")])

    node = helper.make_node
    chosen = of_rows(node("Equal", ["n", "three"], ["is"]), node("If", ["is"], ["y"], then_branch=branch("Sub"), else_branch=branch("Add")))
    divided = of_rows(node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Sqrt", ["f"], ["q"]), node("Div", ["x", "q"], ["y"]))
    halved = of_rows(node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Mul", ["f", "half"], ["h"]), node("Floor", ["h"], ["d"]),
                     node("Cast", ["d"], ["i"], to=TensorProto.INT64), node("Reshape", ["i", "less"], ["v"]),
                     node("Concat", ["v", "less"], ["shape"], axis=0), node("Reshape", ["x", "shape"], ["y"]))  # fmt: skip
    for rows in (4, 3, 6, 3, 4):
        x = np.full((rows, 2), 1.5, np.float32)
        assert np.array_equal(chosen.run({"x": x})["y"], x - x if rows == 3 else x + x)
        assert divided.run({"x": x})["y"] == pytest.approx(x / np.sqrt(rows), rel=1e-6)
        if rows % 2 == 0:
            assert halved.run({"x": x})["y"].shape == (rows // 2, 4)


def test_sizes_that_would_be_negative_at_first():
    made = model_of([helper.make_node("Slice", ["x", "one", "end"], ["y"])], [floats("x", "n")], [floats("y", "m")],
                    [("one", np.array([3])), ("end", np.array([1 << 31]))])  # fmt: skip
    model = weft.onnx.load(made, devices=["cpu"])
    for n in (5, 9, 4):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(model.run({"x": x})["y"], x[3:])


def test_unknown_sizes_have_no_name_that_says_so():
    """Some exporters write ? or -1 for each."""
    made = model_of([helper.make_node("Relu", ["x"], ["y"])], [floats("x", -1, "?", "?")], [floats("y", -1, "?", "?")])
    model = weft.onnx.load(made, devices=["cpu"])
    assert list(model.symbols) == ["x.0", "x.1", "x.2"]
    assert model.run({"x": np.full((2, 3, 4), -1, np.float32)})["y"].shape == (2, 3, 4)


def test_nodes_after_a_convolution_are_fused():
    rng = np.random.default_rng(7)
    arrays = {name: rng.standard_normal(shape).astype(np.float32)
              for name, shape in {"w": (6, 3, 3, 3), "s": (6,), "b": (6,), "m": (6,), "a": (1, 6, 1, 1), "c": (6, 1, 1)}.items()}  # fmt: skip
    arrays["v"] = rng.uniform(0.5, 2, 6).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["t", "s", "b", "m", "v"], ["u"]),
        helper.make_node("Add", ["a", "u"], ["p"]),
        helper.make_node("Mul", ["p", "c"], ["y"]),
        helper.make_node("Conv", ["x", "w"], ["q"]),
        helper.make_node("Add", ["q", "a"], ["z"]),
        helper.make_node("Mul", ["q", "z"], ["r"]),  # q has two readers, and stays.
    ]
    made = model_of(nodes, [floats("x", "n", 3, 8, 8)], [floats("y", *"abcd"), floats("r", *"efgh")], arrays.items())
    model, truth = weft.onnx.load(made, devices=["cpu"]), onnxruntime.InferenceSession(made.SerializeToString())
    x = rng.standard_normal((2, 3, 8, 8), np.float32)
    for mine, right in zip(model.run({"x": x}).values(), truth.run(None, {"x": x}), strict=True):
        assert mine == pytest.approx(right, rel=1e-4, abs=1e-4)
    ran = [line for line in model.explain().splitlines() if "conv2d" in line or " mul" in line or " add" in line]
    assert len([line for line in ran if "conv2d(" in line]) == 2 and len(ran) == 4, ran


def test_what_broadcasts_a_channel_stays_beside_its_convolution():
    arrays = {"w": np.ones((1, 2, 2, 2), np.float32), "a": np.arange(3, dtype=np.float32).reshape(3, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "a"], ["y"])]
    made = model_of(nodes, [floats("x", 1, 2, 2, 2)], [floats("y", 1, 3, 1, 1)], arrays.items())
    y = weft.onnx.load(made, devices=["cpu"]).run({"x": np.ones((1, 2, 2, 2), np.float32)})["y"]
    assert y.reshape(-1).tolist() == [8, 9, 10]


def test_integer_products_are_exact():
    """Sums beyond what floats hold exactly."""
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 256, (4, 2000)).astype(np.uint8), rng.integers(-128, 128, (2000, 5)).astype(np.int8)
    a[0], b[:, 0] = 255, -128
    byte = helper.make_tensor_value_info("a", TensorProto.UINT8, ["n", 2000])
    made = model_of([helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])], [byte], [helper.make_tensor_value_info("y", TensorProto.INT32, ["n", 5])],
                    [("b", b), ("z", np.array(3, np.uint8))])  # fmt: skip
    assert np.array_equal(weft.onnx.load(made, devices=["cpu"]).run({"a": a})["y"], (a.astype(np.int32) - 3) @ b.astype(np.int32))
    x, w = rng.integers(0, 256, (1, 300, 6, 6)).astype(np.uint8), rng.integers(0, 256, (7, 300, 3, 3)).astype(np.uint8)
    byte = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 300, 6, 6])
    made = model_of([helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 1, 1, 1])], [byte],
                    [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 7, 6, 6])], [("w", w), ("z", np.array(128, np.uint8))])  # fmt: skip
    truth = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    assert np.array_equal(weft.onnx.load(made, devices=["cpu"]).run({"x": x})["y"], truth)


def test_loops_are_unrolled():
    body = helper.make_graph(
        [helper.make_node("Mul", ["s", "w"], ["t"]), helper.make_node("Add", ["t", "x"], ["next"]), helper.make_node("Identity", ["next"], ["made"])],
        "body", [whole("i"), helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("s", 3)],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("next", 3), floats("made", 3)])  # fmt: skip
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)]
    made = model_of(nodes, [floats("x", 3), whole("n")], [floats("last", 3), floats("all", "turns", 3)], [("w", np.full(3, 0.5, np.float32))])
    model, truth = weft.onnx.load(made, devices=["cpu"]), onnxruntime.InferenceSession(made.SerializeToString())
    for turns in (3, 5, 1):
        given = {"x": np.array([1, -2, 3], np.float32), "n": np.array(turns)}
        for mine, right in zip(model.run(given).values(), truth.run(None, given), strict=True):
            assert np.array_equal(mine, right)
    # What no turn makes is empty.
    last, all_turns = model.run({**given, "n": np.array(0)}).values()
    assert np.array_equal(last, given["x"]) and all_turns.shape == (0, 3) and all_turns.dtype == np.float32
    with pytest.raises(weft.onnx.UnsupportedModelError, match="10000 turns at most"):
        model.run({**given, "n": np.array(1 << 40)})


def test_a_loop_ends_by_its_condition_or_not_at_all():
    """A loop without a count is not cut off. A body's weights exist once, for any number of iterations."""
    truth = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    for last, turns in ((4, 4), (1 << 30, None)):
        body = helper.make_graph(
            [helper.make_node("Gemm", ["s", "w"], ["next"]), helper.make_node("Add", ["k", "one"], ["k2"]),
             helper.make_node("Less", ["k2", "last"], ["go2"])],
            "body", [whole("i"), truth, floats("s", 1, 2), whole("k")],
            [helper.make_tensor_value_info("go2", TensorProto.BOOL, []), floats("next", 1, 2), whole("k2")],
            [numpy_helper.from_array(np.eye(2, dtype=np.float32) * 2, "w"), numpy_helper.from_array(np.array(1), "one"),
             numpy_helper.from_array(np.array(last), "last")])  # fmt: skip
        made = model_of([helper.make_node("Loop", ["", "", "x", "zero"], ["y", "k"], body=body)], [floats("x", 1, 2)],
                        [floats("y", 1, 2), whole("k")], [("zero", np.array(0))])  # fmt: skip
        if turns is None:
            with pytest.raises(weft.onnx.UnsupportedModelError, match="10000 turns at most"):
                weft.onnx.load(made, devices=["cpu"])
            continue
        model = weft.onnx.load(made, devices=["cpu"])
        assert model.run({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2.0**turns] * 2]
        assert len([line for line in str(model).splitlines() if "= matmul(" in line]) == turns
        assert len(model._built.weights) == 1


def runs_as_onnxruntime(made, steps, **loading):
    """One after another, for a step may need another graph than the one before."""
    model, truth = weft.onnx.load(made, devices=["cpu"], **loading), onnxruntime.InferenceSession(made.SerializeToString())
    for given in steps:
        for mine, right in zip(model.run(given).values(), truth.run(None, given), strict=True):
            assert mine.dtype == right.dtype and mine.shape == right.shape
            assert mine == pytest.approx(right, rel=1e-5)
    return model


def test_quotients_of_sizes_go_towards_zero():
    node = helper.make_node
    rows = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Sub", ["n", "three"], ["less"])]
    made = model_of([*rows, node("Div", ["less", "two"], ["half"]), node("Add", ["half", "three"], ["k"]), node("Reshape", ["k", "one"], ["to"]),
                     node("Expand", ["v", "to"], ["y"])], [floats("x", "n")], [floats("y", "k"), whole("half")],
                    [("zero", np.array(0)), ("two", np.array(2)), ("three", np.array(3)), ("one", np.array([1])), ("v", np.ones(1, np.float32))])  # fmt: skip
    model = weft.onnx.load(made, devices=["cpu"])
    assert str(model.run({"x": np.zeros(7, np.float32)})["half"]) == "2" and model._fixed is None
    runs_as_onnxruntime(made, [{"x": np.zeros(n, np.float32)} for n in (7, 2, 0, 1, 8)])


def test_a_step_may_have_sizes_that_the_graph_is_not_made_for():
    node, shapes = helper.make_node, {"five": np.array([5]), "begin": np.array([-4]), "end": np.array([-1])}
    cut = model_of([node("Slice", ["x", "begin", "end"], ["y"])], [floats("x", "n")], [floats("y", "k")], shapes.items())
    grown = model_of([node("Expand", ["x", "five"], ["y"])], [floats("x", "n")], [floats("y", "k")], shapes.items())
    flat = model_of([node("Squeeze", ["x"], ["y"])], [floats("x", "n", 1)], [floats("y", "k")])
    runs_as_onnxruntime(cut, [{"x": np.arange(n, dtype=np.float32)} for n in (8, 3, 1, 6, 0)])
    runs_as_onnxruntime(grown, [{"x": np.arange(n, dtype=np.float32)} for n in (5, 1, 5)])
    runs_as_onnxruntime(flat, [{"x": np.ones((n, 1), np.float32)} for n in (3, 1, 2)])
    parts = model_of([node("Split", ["x", "two"], ["y", "z"])], [floats("x", "n")], [floats("y", "k"), floats("z", "l")], [("two", np.array([2, 3]))])
    with pytest.raises(weft.Error, match=r"parts of \[2, 3\] are not the 6"):
        runs_as_onnxruntime(parts, [{"x": np.arange(n, dtype=np.float32)} for n in (5, 6)])
    # What no graph takes is that step's fault alone.
    model = weft.onnx.load(grown, devices=["cpu"])
    model.run({"x": np.ones(5, np.float32)})
    before = model._built
    with pytest.raises(weft.Error, match="3"):
        model.run({"x": np.ones(3, np.float32)})
    assert model._fixed is None and model._built is before and model.run({"x": np.ones(5, np.float32)})["y"].tolist() == [1] * 5


def test_results_of_many_axes_have_several_sizes_that_change():
    made = model_of([helper.make_node("Exp", ["x"], ["y"])], [floats("x", "a", "b", 1, 1, 2)], [floats("y", *"abcde")])
    runs_as_onnxruntime(made, [{"x": np.ones((a, b, 1, 1, 2), np.float32)} for a, b in ((2, 3), (3, 4), (0, 2))])


def double(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.DOUBLE, list(shape))


def of_64_bits(name, nodes, inputs, outputs, given, **initializers):
    """A case: a model, its inputs, and its name."""
    return pytest.param(model_of(nodes, inputs, outputs, initializers.items()), given, id=name)


NODE = helper.make_node
LONG = np.array([7700, 12, -5, 1 << 30, (1 << 31) + 7])
WHOLE_CASES = [
    of_64_bits("multiply", [NODE("Mul", ["x", "k"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": LONG}, k=np.array(3)),
    of_64_bits("add", [NODE("Add", ["x", "x"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": LONG}),
    of_64_bits("subtract", [NODE("Sub", ["k", "x"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": LONG}, k=np.array(-1 << 31)),
    of_64_bits("sum of several", [NODE("Sum", ["x", "x", "x"], ["y"])], [double("x", "n")], [double("y", "n")], {"x": LONG / 3}),
    of_64_bits("negative", [NODE("Neg", ["x"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([-1 << 31])}),
    of_64_bits("absolute", [NODE("Abs", ["x"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([-1 << 31, -1 << 40])}),
    of_64_bits("power", [NODE("Pow", ["x", "k"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([3000, -20])}, k=np.array(3)),
    of_64_bits("quotient", [NODE("Div", ["x", "k"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([(1 << 40) + 3, -2000])},
               k=np.array(-7)),
    of_64_bits("remainder", [NODE("Mod", ["x", "k"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([1 << 40, -2000])},
               k=np.array(97)),
    of_64_bits("remainder as C has it", [NODE("Mod", ["x", "k"], ["y"], fmod=1)], [whole("x", "n")], [whole("y", "n")],
               {"x": np.array([1 << 40, -2000])}, k=np.array(97)),
    of_64_bits("total", [NODE("ReduceSum", ["x"], ["y"], keepdims=0)], [whole("x", "n")], [whole("y")], {"x": np.full(5, 1 << 30)}),
    of_64_bits("running total", [NODE("CumSum", ["x", "axis"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.full(5, 1 << 30)},
               axis=np.array(0)),
    of_64_bits("product of matrices", [NODE("MatMul", ["x", "w"], ["y"])], [whole("x", "n", 2)], [whole("y", "n", 2)],
               {"x": np.array([[1 << 20, 5]])}, w=np.array([[1 << 20, 1], [3, 4]])),
    of_64_bits("cast of floats", [NODE("Cast", ["x"], ["y"], to=TensorProto.INT64)], [floats("x", "n")], [whole("y", "n")],
               {"x": np.array([3e9, -7.5, 1e18], np.float32)}),
    of_64_bits("cast to fewer bits", [NODE("Cast", ["x"], ["y"], to=TensorProto.INT8)], [whole("x", "n")],
               [helper.make_tensor_value_info("y", TensorProto.INT8, ["n"])], {"x": np.array([(1 << 32) + 300, -5])}),
    of_64_bits("cast of narrow numbers", [NODE("Cast", ["x"], ["c"], to=TensorProto.INT64), NODE("Mul", ["c", "k"], ["y"])],
               [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n"])], [whole("y", "n")], {"x": np.array([7, 255], np.uint8)},
               k=np.array((1 << 31) - 1)),
    of_64_bits("comparison", [NODE("Equal", ["x", "k"], ["y"])], [whole("x", "n")], [helper.make_tensor_value_info("y", TensorProto.BOOL, ["n"])],
               {"x": np.array([1 << 40, 0])}, k=np.array(1 << 40)),
    of_64_bits("bounds", [NODE("Clip", ["x", "a", "b"], ["y"])], [whole("x", "n")], [whole("y", "n")], {"x": np.array([1 << 50, -1 << 50, 7])},
               a=np.array(-1 << 40), b=np.array(1 << 35)),
    of_64_bits("order", [NODE("TopK", ["x", "k"], ["v", "y"])], [whole("x", 3)], [whole("v", 2), whole("y", 2)],
               {"x": np.array([1 << 40, 3, 1 << 41])}, k=np.array([2])),
    of_64_bits("hash that finds a row", [NODE("Unsqueeze", ["x", "zero"], ["u"]), NODE("Mul", ["u", "p"], ["h"]), NODE("Mod", ["h", "m"], ["i"]),
               NODE("Gather", ["t", "i"], ["y"])], [whole("x", "n")], [floats("y", 1, "n", 2)], {"x": LONG}, zero=np.array([0]),
               p=np.array(1000003), m=np.array(50), t=np.arange(100, dtype=np.float32).reshape(50, 2)),
    of_64_bits("parts", [NODE("Split", ["x"], ["a", "b"], num_outputs=2), NODE("Mul", ["a", "b"], ["y"])], [whole("x", 4)], [whole("y", 2)],
               {"x": np.array([(1 << 31) - 1, 2, (1 << 31) - 1, 3])}),
    of_64_bits("five axes", [NODE("Add", ["x", "x"], ["y"])], [whole("x", 1, 1, 1, 1, 2)], [whole("y", 1, 1, 1, 1, 2)],
               {"x": np.full((1, 1, 1, 1, 2), (1 << 31) - 1)}),
    of_64_bits("size", [NODE("Shape", ["x"], ["s"]), NODE("Mul", ["s", "k"], ["y"])], [floats("x", "n", 4)], [whole("y", 2)],
               {"x": np.zeros((3, 4), np.float32)}, k=np.array((1 << 31) - 1)),
    of_64_bits("milliseconds", [NODE("Sub", ["x", "k"], ["d"]), NODE("Div", ["d", "u"], ["s"]), NODE("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
               NODE("Exp", ["f"], ["y"])], [whole("x", "n")], [floats("y", "n")], {"x": np.array([1700000003000])}, k=np.array(1700000000000),
               u=np.array(1000)),
    of_64_bits("seconds in doubles", [NODE("Sub", ["x", "k"], ["y"])], [double("x", "n")], [double("y", "n")], {"x": np.array([1700000123.25])},
               k=np.array(1.7e9)),
    of_64_bits("large doubles", [NODE("Mul", ["x", "x"], ["y"])], [double("x", "n")], [double("y", "n")], {"x": np.array([1e30, 1e-200])}),
    of_64_bits("layers of doubles", [NODE("MatMul", ["x", "w"], ["t"]), NODE("Add", ["t", "b"], ["u"]), NODE("Softmax", ["u"], ["y"])],
               [double("x", "n", 4)], [double("y", "n", 3)], {"x": np.random.default_rng(2).random((5, 4))},
               w=np.random.default_rng(3).random((4, 3)), b=np.random.default_rng(4).random(3)),
    of_64_bits("doubles to floats", [NODE("Sub", ["x", "k"], ["s"]), NODE("Cast", ["s"], ["f"], to=TensorProto.FLOAT), NODE("Exp", ["f"], ["y"])],
               [double("x", "n")], [floats("y", "n")], {"x": np.array([1700000003.0])}, k=np.array(1.7e9)),
    of_64_bits("rows of doubles", [NODE("Gather", ["t", "x"], ["y"])], [whole("x", "n")], [double("y", "n")], {"x": np.array([0, 1])},
               t=np.array([1e300, 0.1, 2])),
]  # fmt: skip


@pytest.mark.parametrize("made, given", WHOLE_CASES)
@pytest.mark.filterwarnings("error")
def test_what_follows_from_inputs_has_64_bits(made, given):
    truth = onnxruntime.InferenceSession(made.SerializeToString()).run(None, given)
    model = weft.onnx.load(made, devices=["cpu"], n_threads=1)
    for _ in range(2):
        for mine, right in zip(model.run(given).values(), truth, strict=True):
            assert mine.dtype == right.dtype and mine.shape == right.shape
            if right.dtype.kind in "iub":
                assert np.array_equal(mine, right)
            else:
                np.testing.assert_allclose(mine, right, 1e-14 if right.dtype == np.float64 else 1e-6)


def test_whole_numbers_of_devices_are_refused_where_they_do_not_fit():
    nodes = [NODE("Exp", ["x"], ["e"]), NODE("Cast", ["e"], ["c"], to=TensorProto.INT64, name="to_whole"), NODE("Mul", ["c", "k"], ["y"], name="times")]
    model = weft.onnx.load(model_of(nodes, [floats("x", "n")], [whole("y", "n")], [("k", np.array(1000))]), devices=["cpu"])
    assert model.run({"x": np.array([0, 2], np.float32)})["y"].tolist() == [1000, 7000]
    for x, name in ((25, "to_whole"), (18, "times")):
        with pytest.raises(NotImplementedError, match=rf"{name} \((Cast|Mul)\) makes whole numbers that do not fit 32 bits"):
            model.run({"x": np.array([0, x], np.float32)})
    assert model.run({"x": np.array([0, 2], np.float32)})["y"].tolist() == [1000, 7000]
    # What the host has is refused where a device reads it.
    nodes = [NODE("Mul", ["i", "k"], ["b"], name="big"), NODE("Exp", ["x"], ["e"]), NODE("Greater", ["e", "x"], ["c"]), NODE("Where", ["c", "b", "i"], ["y"])]
    mixed = weft.onnx.load(model_of(nodes, [floats("x", 1), whole("i", 1)], [whole("y", 1)], [("k", np.array(1 << 20))]), devices=["cpu"])
    assert mixed.run({"x": [1.0], "i": [3]})["y"].tolist() == [3 << 20]
    with pytest.raises(weft.Error, match=r"big \(Mul\) has whole numbers that do not fit 32 bits"):
        mixed.run({"x": [1.0], "i": [1 << 12]})


def test_doubles_of_devices_are_reported_refused_or_allowed():
    nodes = [NODE("Exp", ["x"], ["e"]), NODE("Cast", ["e"], ["d"], to=TensorProto.DOUBLE), NODE("Mul", ["d", "k"], ["m"], name="times"),
             NODE("Cast", ["m"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    made, x = model_of(nodes, [floats("x", 1)], [floats("y", 1)], [("k", np.array(0.1))]), np.array([3.0], np.float32)
    with pytest.warns(UserWarning, match="in 32 bits: times") as told:
        model = weft.onnx.load(made, devices=["cpu"])
    assert told[0].filename == __file__
    assert model.run({"x": x})["y"] == pytest.approx(np.exp(x) * 0.1)
    with pytest.raises(weft.onnx.UnsupportedModelError, match=r"Mul.*doubles in 32 bits.*\(times\)"):
        weft.onnx.load(made, devices=["cpu"], doubles="refuse")
    with pytest.raises(TypeError, match="doubles cannot be 'no'; it must be 'warn' or 'refuse' or 'float32'"):
        weft.onnx.load(made, doubles="no")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.onnx.load(made, devices=["cpu"], doubles="float32")
        # Nothing is lost where floats are stored as doubles, moved and cast.
        exact = [NODE("Exp", ["x"], ["e"]), NODE("Cast", ["e"], ["d"], to=TensorProto.DOUBLE), NODE("Max", ["d", "k"], ["y"])]
        weft.onnx.load(model_of(exact, [floats("x", 1)], [double("y", 1)], [("k", np.array(0.5))]), devices=["cpu"])
        # Constants are worked out as they are: the difference has digits that floats lack.
        cast = model_of([NODE("Sub", ["a", "b"], ["c"]), NODE("Cast", ["c"], ["d"], to=TensorProto.FLOAT), NODE("Mul", ["x", "d"], ["y"])],
                        [floats("x", 2)], [floats("y", 2)], [("a", np.array(1 + 1e-9)), ("b", np.array(1.0))])  # fmt: skip
        runs_as_onnxruntime(cast, [{"x": np.array([3, -5], np.float32)}])
    single = model_of([NODE("Neg", ["x"], ["y"])], [double("x", 2)], [double("y", 2)])
    same = weft.onnx.load(single, devices=["cpu"], doubles="float32")
    assert same.run({"x": [-np.inf, 3e38]})["y"][0] == np.inf
    with pytest.raises(weft.Error, match="'x' has doubles beyond 3.4e38"):
        same.run({"x": [1.0, 1e39]})
    large = model_of([NODE("Add", ["x", "c"], ["y"])], [double("x", 2)], [double("y", 2)], [("c", np.array([1e300, -np.inf]))])
    with pytest.raises(weft.onnx.UnsupportedModelError, match="beyond 3.4e38"):
        weft.onnx.load(large, doubles="float32")


def test_the_host_may_compute_all_of_a_model():
    model = weft.onnx.load(model_of([NODE("Mul", ["x", "x"], ["y"])], [whole("x", "n")], [whole("y", "n")]), devices=["cpu"])
    for n in (2, 5, 1):
        assert model.run({"x": np.full(n, 1 << 20)})["y"].tolist() == [1 << 40] * n
    assert "host" in model.explain() and model.outputs["y"] == weft.onnx.Tensor(np.dtype(np.int64), ("n",))


def test_the_checker_is_no_stricter_than_onnxruntime():
    x, given = np.arange(3, dtype=np.float32), {"x": np.arange(3, dtype=np.float32)}
    plain = model_of([NODE("Add", ["x", "w"], ["y"])], [floats("x", "n")], [floats("y", "n")], [("w", np.float32([1]))])

    def changed(change):
        made = onnx.ModelProto()
        made.CopyFrom(plain)
        change(made)
        return made

    def untyped(made):
        made.graph.output[0].ClearField("type")

    def unshaped(made):
        made.graph.output[0].type.tensor_type.ClearField("shape")

    def old(made):
        made.ir_version = 3

    def unnamed(made):
        made.graph.name = ""

    for change in (untyped, unshaped, old, unnamed):
        made = changed(change)
        before = made.SerializeToString()
        if change is not untyped:
            truth = onnxruntime.InferenceSession(before).run(None, given)[0]
            assert np.array_equal(truth, x + 1)
        assert np.array_equal(weft.onnx.load(made, devices=["cpu"]).run(given)["y"], x + 1), change.__name__
        assert made.SerializeToString() == before
    without = changed(lambda made: made.graph.input[0].type.tensor_type.ClearField("shape"))
    with pytest.raises(weft.onnx.UnsupportedModelError, match="input 'x': the model does not say how many axes it has"):
        weft.onnx.load(without)


def of_learning(*nodes, outputs, features=3):
    made = model_of(nodes, [floats("x", "n", features)], outputs, opset=17)
    made.ir_version = 9
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return made


def learned(op, inputs, outputs, **given):
    return helper.make_node(op, inputs, outputs, domain="ai.onnx.ml", **given)


TREES = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0], "nodes_values": [0.25, 0.0, 0.0],
         "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}  # fmt: skip


def test_classifiers_and_tables():
    x, of = np.float32([[0.5, -1, 2], [np.nan, 0.5, -3], [1, 0.25, 0]]), [1, -2, 0.5, 0.25, 1, -1, 0, 3, 1]
    imputed = learned("Imputer", ["x"], ["i"], imputed_value_floats=[0.5, 0.0, 0.0], replaced_value_float=float("nan"))
    scaled = learned("Scaler", ["i"], ["s"], offset=[0.5, 0, 1], scale=[2, 1, 0.5])
    classes = [whole("y", "n"), floats("p", "n", 3)]
    cases = [
        (of_learning(imputed, scaled, learned("LinearClassifier", ["s"], ["y", "q"], coefficients=of, intercepts=[0.1, 0.2, 0.3], classlabels_ints=[4, 5, 9],
                     post_transform="SOFTMAX"), learned("Normalizer", ["q"], ["p"], norm="L1"), outputs=classes)),
        (of_learning(imputed, learned("LinearRegressor", ["i"], ["y"], coefficients=of[:6], intercepts=[0.5, -1], targets=2),
                     outputs=[floats("y", "n", 2)])),
        (of_learning(imputed, helper.make_node("Mul", ["i", "i"], ["m"]), learned("TreeEnsembleRegressor", ["m"], ["y"], n_targets=1, target_treeids=[0, 0],
                     target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.5, -2], **TREES), outputs=[floats("y", "n", 1)])),
        (of_learning(imputed, learned("TreeEnsembleClassifier", ["i"], ["y", "p"], classlabels_int64s=[0, 1, 7], class_treeids=[0, 0], class_nodeids=[1, 2],
                     class_ids=[0, 2], class_weights=[1.0, 1.0], **TREES), outputs=classes)),
        (of_learning(imputed, learned("Binarizer", ["i"], ["b"], threshold=0.3), helper.make_node("Exp", ["b"], ["y"]), outputs=[floats("y", "n", 3)])),
    ]  # fmt: skip
    for made in cases:
        truth = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
        for mine, right in zip(weft.onnx.load(made, devices=["cpu"]).run({"x": x}).values(), truth, strict=True):
            assert mine.dtype == right.dtype and mine == pytest.approx(right, rel=1e-5, abs=1e-6)
    texts = learned("LinearClassifier", ["x"], ["y", "p"], coefficients=of, intercepts=[0.0] * 3, classlabels_strings=["a", "b", "c"])
    exp = helper.make_node("Exp", ["x"], ["e"])
    for nodes, says in (([texts], "labels are texts"), ([learned("ZipMap", ["x"], ["y"], classlabels_int64s=[0, 1, 2])], "dictionaries"),
                        ([learned("CategoryMapper", ["x"], ["y"])], "no such op of ai.onnx.ml; it has Binarizer")):  # fmt: skip
        with pytest.raises(weft.onnx.UnsupportedModelError, match=says):
            weft.onnx.load(of_learning(*nodes, outputs=[floats("y", "n", 3)]))
    after = of_learning(exp, learned("Scaler", ["e"], ["y"], offset=[0.0], scale=[2.0]), outputs=[floats("y", "n", 3)])
    assert weft.onnx.load(after, devices=["cpu"]).run({"x": x[:1]})["y"] == pytest.approx(2 * np.exp(x[:1]), rel=1e-5)


def test_ops_of_other_domains_are_named():
    made = model_of([NODE("Own", ["x"], ["y"], domain="com.example")], [floats("x", 2)], [floats("y", 2)])
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(weft.onnx.UnsupportedModelError, match=r"com.example.Own \(opset 1\): weft has no ops of the domain com.example"):
        weft.onnx.load(made)


def test_whole_numbers_of_more_digits_than_floats_have():
    node, value = helper.make_node, numpy_helper.from_array(np.array([-16777219]))
    made = model_of([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["k"], value=value), node("Add", ["k", "x"], ["y"]),
                     node("Pad", ["x", "pads", "most"], ["z"]), node("Clip", ["x", "zero", "larger"], ["c"])],
                    [whole("x", "n")], [whole("y", "n"), whole("z", "m"), whole("c", "n")],
                    [("pads", np.array([1, 2])), ("most", np.array(2**31 - 1)), ("zero", np.array(0)), ("larger", np.array(2**63 - 1))])  # fmt: skip
    runs_as_onnxruntime(made, [{"x": np.array([-1, 2, 16777217])}])


def own_functions(functions, nodes, inputs=(), outputs=(), initializers=()):
    """A model of nodes that call functions, each (name, overload, inputs, outputs, nodes)."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    made = [helper.make_function("own", name, given, results, body, opsets, overload=overload) for name, overload, given, results, body in functions]
    graph = helper.make_graph(nodes, "test", list(inputs), list(outputs), [numpy_helper.from_array(array, name) for name, array in initializers])
    return helper.make_model(graph, opset_imports=opsets, functions=made, ir_version=10)


def call(function, given, made, **more):
    return helper.make_node(function, given, made, domain="own", **more)


def test_functions_of_functions_end():
    """A few kB that would be 2^40 nodes: refused before any is made."""
    functions = [("f0", "", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])])]
    for i in range(40):
        functions.append((f"f{i + 1}", "", ["a"], ["b"], [call(f"f{i}", ["a"], ["t"]), call(f"f{i}", ["t"], ["b"])]))

    def calling(name, more=()):
        return own_functions([*functions, *more], [call(name, ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])

    assert weft.onnx.load(calling("f4"), devices=["cpu"]).run({"x": [-1, 2]})["y"].tolist() == [0, 2]
    endless = [("g", "", ["a"], ["b"], [call("h", ["a"], ["b"])]), ("h", "", ["a"], ["b"], [call("g", ["a"], ["b"])])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weft.onnx.build.Builder, "_node", None)
        with pytest.raises(weft.onnx.UnsupportedModelError, match="250000 nodes at most"):
            weft.onnx.load(calling("f40"))
        for checks in (True, False):  # Not every version of the package looks for circles.
            patch.setattr(onnx.checker, "check_model", onnx.checker.check_model if checks else lambda model: None)
            with pytest.raises(weft.Error, match="recursive|250000 nodes at most"):
                weft.onnx.load(calling("g", endless))


def refused_with(limit, value, model, match):
    """What is loaded as it is, and refused where less is allowed."""
    weft.onnx.load(model, devices=["cpu"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weft.onnx.build, limit, value)
        with pytest.raises(weft.onnx.UnsupportedModelError, match=match):
            weft.onnx.load(model, devices=["cpu"])


def test_what_is_written_out_counts_by_its_turns_and_bytes():
    node, x, y = helper.make_node, floats("x", 2), floats("y", 2)
    truth = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    body = helper.make_graph([], "body", [whole("i"), truth, floats("s", 2)], [truth, floats("s", 2)])
    turns = model_of([node("Loop", ["n", "", "x"], ["s"], body=body), node("Relu", ["s"], ["y"])], [x], [y], [("n", np.array(300))])
    refused_with("MOST_NODES", 200, turns, "200 nodes at most")
    large = node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones((1 << 15, 2), np.float32)))
    adds = ("f", "", ["a"], ["b"], [large, node("ReduceMax", ["k"], ["one"], keepdims=0), node("Add", ["a", "one"], ["b"])])
    refused_with("MOST_NODES", 40, own_functions([adds], [call("f", ["x"], ["t"]), call("f", ["t"], ["y"])], [x], [y]), "40 nodes at most")


def test_constants_are_worked_out_to_so_much():
    """By what ONNX says of shapes, before there is memory for them."""
    node, x, y = helper.make_node, floats("x", 2), floats("y", 2)
    sized = [("n", np.array([1 << 10, 1 << 10])), ("one", np.ones((1, 1), np.float32)), ("to", np.array(1 << 20))]
    fine = [("fine", np.ones((1, 1, 256, 256), np.float32)), ("two", np.array([1, 1, 2, 2], np.float32)), ("large", np.array([1, 1, 512, 512]))]
    filled = [node("ConstantOfShape", ["n"], ["z"])], [node("Expand", ["one", "n"], ["z"])], [node("Tile", ["one", "n"], ["z"])]
    for more in (["", "two"], ["", "", "large"]):
        model = model_of([node("Resize", ["fine", *more], ["z"]), node("ReduceMax", ["z"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])],
                         [x], [y], fine)  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weft.onnx.build, "MADE_OF_BYTE", 1)
            refused_with("MOST_MADE", 1 << 18, model, "more memory than")
            patch.setattr(weft.onnx.build, "MOST_MADE", 1 << 22)
            weft.onnx.load(model, devices=["cpu"])
    counted = [node("Constant", [], ["zero"], value_int=0), node("Constant", [], ["by"], value_int=1), node("Range", ["zero", "to", "by"], ["r"]),
               node("Cast", ["r"], ["z"], to=TensorProto.FLOAT)]  # fmt: skip
    for nodes in (*filled, counted):
        model = model_of([*nodes, node("ReduceMax", ["z"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])], [x], [y], sized)
        refused_with("MOST_MADE", 1 << 20, model, "more memory than")
    # Neither more nor much less than it is.
    more = [("rows", np.ones((256, 256), np.float32)), ("some", np.arange(256).reshape(-1, 1)), ("bits", np.ones((1, 1, 1, 1, 1 << 14), bool))]
    places = [node("NonZero", ["bits"], ["i"]), node("Cast", ["i"], ["z"], to=TensorProto.FLOAT)]
    for nodes, least, most in (([node("GatherND", ["rows", "some"], ["z"])], 1 << 18, 1 << 21), (places, 1 << 19, 1 << 22)):
        model = model_of([*nodes, node("ReduceMax", ["z"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])], [x], [y], more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weft.onnx.build, "MADE_OF_BYTE", 0)
            refused_with("MOST_MADE", least, model, "more memory than")
            patch.setattr(weft.onnx.build, "MOST_MADE", most)
            weft.onnx.load(model, devices=["cpu"])
    # Results of the iterations, next to each other.
    truth = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    body = helper.make_graph([node("Identity", ["many"], ["all"])], "body", [whole("i"), truth], [truth, floats("all", 1 << 12)])
    nodes = [node("Loop", ["n", ""], ["z"], body=body), node("ReduceMax", ["z"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])]
    turns = model_of(nodes, [x], [y], [("n", np.array(200)), ("many", np.ones(1 << 12, np.float32))])
    refused_with("MOST_MADE", 1 << 20, turns, "more memory than")
    # What may be large or not, as numbers of attributes say in other ways, is computed in steps.
    weights = [("c", np.ones((1, 1, 4, 4), np.float32)), ("row", np.ones(1 << 10, np.float32))]
    for made, most in (node("Conv", ["c", "c"], ["z"], pads=[20] * 4), 16), (node("Einsum", ["row", "row"], ["z"], equation="i,j->ij"), 1):
        model = model_of([made, node("ReduceMax", ["z"], ["m"], keepdims=0), node("Add", ["x", "m"], ["y"])], [x], [y], weights)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weft.onnx.build, "MOST_MADE", 1 << 20)
            kept = weft.onnx.load(model, devices=["cpu"])
            assert "reduce" in str(kept) and kept.run({"x": [0, 1]})["y"].tolist() == [most, most + 1]
        assert "reduce" not in str(weft.onnx.load(model, devices=["cpu"]))
    # The more weights there are, the more may become of them.
    nodes = [node("DequantizeLinear", ["q", "s"], ["w"]), node("Gemm", ["x", "w"], ["y"])]
    packed = [("q", np.ones((64, 64), np.int8)), ("s", np.array(0.5, np.float32))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weft.onnx.build, "MOST_MADE", 0)
        weft.onnx.load(model_of(nodes, [floats("x", 1, 64)], [floats("y", 1, 64)], packed), devices=["cpu"])


def test_shapes_have_few_sizes():
    doubled = [helper.make_node("Concat", [f"s{i}", f"s{i}"], [f"s{i + 1}"], axis=0) for i in range(40)]
    nodes = [helper.make_node("Shape", ["x"], ["s0"]), *doubled, helper.make_node("Identity", ["s40"], ["y"])]
    made = model_of(nodes, [floats("x", "n")], [whole("y", "m")])
    with pytest.raises(weft.onnx.UnsupportedModelError, match="4096 sizes at once"):
        weft.onnx.load(made, devices=["cpu"])


def test_functions_are_distinguished_and_may_have_no_outputs():
    node, x, y = helper.make_node, floats("x", 2), floats("y", 2)
    functions = [("f", "", ["a"], ["b"], [node("Neg", ["a"], ["b"])]), ("f", "other", ["a"], ["b"], [node("Relu", ["a"], ["b"])]),
                 ("nothing", "", ["a"], [], [node("Relu", ["a"], ["b"])])]  # fmt: skip
    calls = [call("f", ["x"], ["t"]), call("f", ["t"], ["y"], overload="other"), call("nothing", ["x"], [])]
    assert weft.onnx.load(own_functions(functions, calls, [x], [y]), devices=["cpu"]).run({"x": [-1, 2]})["y"].tolist() == [1, 0]


def test_inputs_that_must_be_there():
    """Also where the package's checks do not look."""
    node, x, y = helper.make_node, floats("x", 1, 8, 1), floats("y", "a", "b", "c", "d")
    frames = model_of([node("STFT", ["x", "step"], ["y"])], [x], [y], [("step", np.array(2))])
    with pytest.raises(weft.onnx.UnsupportedModelError, match="neither frame_length nor a window"):
        weft.onnx.load(frames)
    adds = [("f", "", ["a", "c"], ["b"], [node("Add", ["a", "c"], ["b"])])]
    with pytest.raises(weft.onnx.UnsupportedModelError, match="its input B is missing"):
        weft.onnx.load(own_functions(adds, [call("f", ["x"], ["z"])], [floats("x", 2)], [floats("z", 2)]))


def test_names_within_others_stay_short():
    inner = ("f", "", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["t"]), helper.make_node("Neg", ["t"], ["b"])])
    made = weft.onnx.load(own_functions([inner], [call("f", ["x"], ["y"], name="n" * 10_000)], [floats("x", 2)], [floats("y", 2)]), devices=["cpu"])
    assert max(map(len, str(made).splitlines())) < 1000 and made.run({"x": [0, 0]})["y"].tolist() == [-1, -1]


def outside(name, location="w.bin", shape=(3,), kind=TensorProto.FLOAT, **more):
    """A tensor whose elements are in a file."""
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": location} | more).items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_weights_within_bodies_and_attributes_may_be_in_files(tmp_path, monkeypatch):
    numbers = np.arange(3, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(numbers.tobytes())
    monkeypatch.chdir(tmp_path.parent)  # Where nothing is.
    node = helper.make_node
    then = helper.make_graph([node("Add", ["x", "w"], ["n"])], "then", [], [floats("n", 3)], [outside("w")])
    other = helper.make_graph([node("Add", ["x", "v"], ["n"])], "else", [], [floats("n", 3)], [outside("v", "../secret")])
    constant = node("Constant", [], ["c"], value=outside("c"))
    function = helper.make_function("own", "f", ["a"], ["b"], [node("Constant", [], ["k"], value=outside("k")), node("Mul", ["a", "k"], ["b"])],
                                    [helper.make_opsetid("", 21)])  # fmt: skip
    nodes = [node("If", ["yes"], ["t"], then_branch=then, else_branch=other), constant, node("Add", ["t", "c"], ["u"]), node("f", ["u"], ["y"], domain="own")]
    for yes in (True, False):
        made = model_of(nodes, [floats("x", 3)], [floats("y", 3)], [("yes", np.array(yes))])
        made.opset_import.append(helper.make_opsetid("own", 1))
        made.functions.append(function)
        (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
        if yes:
            y = weft.onnx.load(tmp_path / "model.onnx", devices=["cpu"]).run({"x": np.ones(3, np.float32)})["y"]
            assert np.array_equal(y, (1 + 2 * numbers) * numbers)
        else:
            with pytest.raises(weft.Error, match=r"'v' lies outside of the model's folder: \.\./secret"):
                weft.onnx.load(tmp_path / "model.onnx", devices=["cpu"])


def test_files_of_weights_must_match_the_model(tmp_path):
    def load(weight, *nodes):
        made = model_of(nodes or [helper.make_node("Add", ["x", "w"], ["y"])], [floats("x", *weight.dims)], [floats("y", "k")])
        made.graph.initializer.append(weight)
        (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
        return weft.onnx.load(tmp_path / "model.onnx", devices=["cpu"])

    zeros = {n: np.zeros(n, np.float32) for n in (0, 3, 4)}
    (tmp_path / "w.bin").write_bytes(bytes([0x21, 0xF3]))
    to_float = helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "f"], ["y"])
    four_bits = load(outside("w", shape=(4,), kind=TensorProto.INT4, length=2), *to_float)
    assert four_bits.run({"x": zeros[4]})["y"].tolist() == [1, 2, 3, -1]
    join = helper.make_node("Concat", ["x", "w"], ["y"], axis=0)
    assert load(outside("w", shape=(0,)), join).run({"x": zeros[0]})["y"].shape == (0,)
    for weight, says in ((outside("w", length=4), "has 4 bytes, and its shape .* needs 12"), (outside("w", shape=(-1, -3)), "cannot lie in a file"),
                         (outside("w", kind=TensorProto.STRING), "cannot lie in a file"), (outside("w", kind=99), "cannot lie in a file|data_type"),
                         (outside("w", "nothing.bin"), "no such file")):  # fmt: skip
        with pytest.raises(weft.InvalidFileError, match=says):
            load(weight)
    # The layout of a hub's cache: links to adjacent files.
    (tmp_path / "kept").mkdir()
    (tmp_path / "shown").mkdir()
    (tmp_path / "kept/1").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    made = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [floats("x", 3)], [floats("y", 3)])
    made.graph.initializer.append(outside("w"))
    (tmp_path / "kept/2").write_bytes(made.SerializeToString())
    (tmp_path / "shown/w.bin").symlink_to("../kept/1")
    (tmp_path / "shown/model.onnx").symlink_to("../kept/2")
    assert weft.onnx.load(tmp_path / "shown/model.onnx", devices=["cpu"]).run({"x": zeros[3]})["y"].tolist() == [0, 1, 2]
    (tmp_path / "shown/w.bin").unlink()
    (tmp_path / "shown/w.bin").symlink_to("../w.bin")
    with pytest.raises(weft.InvalidFileError, match="outside of the model's folder"):
        weft.onnx.load(tmp_path / "shown/model.onnx")


def test_constants_and_inputs_must_match_the_declarations():
    made = model_of([helper.make_node("Add", ["x", "c"], ["y"])], [floats("x", 2), floats("c", 2)], [floats("y", 2)])
    with pytest.raises(weft.InvalidArgumentError, match=r"shape \(3, 2\), not \(2\)"):
        weft.onnx.load(made, constants={"c": np.ones((3, 2))})
    with pytest.raises(TypeError, match="the constant 'c' must be an array of float32 numbers"):
        weft.onnx.load(made, constants={"c": "words"})
    texts = helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, None)
    made = model_of([helper.make_node("SequenceAt", ["q", "zero"], ["y"])], [texts], [floats("y", 2)], [("zero", np.array(0))])
    with pytest.raises(weft.InvalidArgumentError, match="'q' is no tensor"):
        weft.onnx.load(made, constants={"q": np.ones(2)})
    byte = helper.make_tensor_value_info("x", TensorProto.UINT8, [2])
    cast = weft.onnx.load(model_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], [byte], [floats("y", 2)]), devices=["cpu"])
    assert cast.run({"x": np.array([3, 255], np.uint16)})["y"].tolist() == [3, 255]
    with pytest.raises(weft.InvalidArgumentError, match="numbers that uint8 does not hold"):
        cast.run({"x": np.array([3, 256], np.uint16)})
