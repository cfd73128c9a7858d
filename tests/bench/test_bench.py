"""The scripts of bench/, as far as they go without llama.cpp: their options, their judgement, their tables."""
import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

BENCH = Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import accuracy
import gpu
import perplexity
import picture
import plot
import versus


def script(*words) -> subprocess.CompletedProcess:
    command = [sys.executable, "-B", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Options(unittest.TestCase):
    def test_help(self):
        for words in (["versus.py"], ["versus.py", "parallel"], ["accuracy.py"]):
            result = script(BENCH / words[0], *words[1:], "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--peer-python", result.stdout)

    def test_unknown_works_and_missing_programs(self):
        result = script(BENCH / "versus.py", "--works", "decode,prefil")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("'prefil'", result.stderr)
        result = script(BENCH / "versus.py", "--weft", "/nonexistent/weft")
        self.assertIn("/nonexistent/weft is not built", result.stderr)


class Plot(unittest.TestCase):
    SINGLE = {"model": "a", "n_prompt": 8, "n_generate": 0, "n_depth": 0, "threads": 2, "tokens_per_second": 50.0,
              "deviation": 2.0, "roofline_tokens_per_second": 200.0}
    PARALLEL = {"model": "a", "streams": 1, "n_prompt": 8, "n_generate": 4, "shared": False,
                "prefill_tokens_per_second": 90.0, "prefill_deviation": 1.0, "prefill_roofline_fraction": 0.5,
                "decode_tokens_per_second": 9.5, "decode_deviation": 0.0, "decode_roofline_fraction": None}

    def drawn(self, rows: list) -> tuple[list[float], list[str]]:
        """Heights of the bars, and the labels."""
        picture, name = ElementTree.fromstring(plot.plot(rows)), "{http://www.w3.org/2000/svg}"
        bars = [float(r.get("height")) for r in picture.iter(name + "rect") if float(r.get("width")) > 10]
        return bars, [text.text for text in picture.iter(name + "text")]

    def test_bars_follow_the_first_field_that_differs(self):
        rows = [self.SINGLE | {"n_depth": depth, "n_prompt": n, "n_generate": 8 - n, "tokens_per_second": 25.0 + depth}
                for depth in (0, 25) for n in (8, 0)]
        bars, texts = self.drawn(rows)
        self.assertEqual(bars, [27.5, 55.0, 27.5, 55.0])  # Of 220, which are 200 tokens a second.
        for text in ("Prefill, tokens a second", "Decoding, tokens a second", "tokens already in the cache", "25"):
            self.assertIn(text, texts)

    def test_concurrent_sequences_have_a_chart_of_each_phase(self):
        bars, texts = self.drawn([self.PARALLEL, self.PARALLEL | {"streams": 2, "shared": True}])
        self.assertEqual(len(bars), 4)
        for text in ("Prefill of concurrent sequences, tokens a second", "own prompts", "shared prompt", "9.5"):
            self.assertIn(text, texts)

    def test_a_row_without_limits_and_odd_names(self):
        bars, texts = self.drawn([self.SINGLE | {"model": "<&>", "roofline_tokens_per_second": None},
                                  self.SINGLE | {"model": "b"}])
        self.assertEqual(len(bars), 2)
        self.assertIn("<&>", texts)

    def test_other_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "x.json"
            for text in ("{}", "[1]", "no json", '{"results": [{"n_prompt": 1}]}'):
                file.write_text(text)
                result = script(BENCH / "plot.py", file, "-o", Path(folder) / "x.svg")
                self.assertEqual(result.returncode, 1)
                self.assertIn("is not the output of `weft bench -o json`", result.stderr)


class Gpu(unittest.TestCase):
    def test_it_says_what_is_wrong_with_its_words(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = Path(folder) / "missing"
            result = script(BENCH / "gpu.py", "--peer", f"vulkan={missing}")
            self.assertIn(f"--peer vulkan={missing}", result.stderr)
            result = script(BENCH / "gpu.py", "--no-build", "--weft", missing)
            self.assertIn(f"{missing} is not built", result.stderr)

    def test_the_table_has_a_ratio_where_a_peer_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            report = gpu.Report(Path(folder) / "gpu.json")
            with contextlib.redirect_stdout(None):
                report.add("speeds", {"model": "m", "regime": "decode", "weft": 30.0, "peers": {"vulkan": 20.0}})
                report.add("speeds", {"model": "m", "regime": "8 streams", "weft": 90.0, "peers": {}})
                report.run("a program that fails", [sys.executable, "-c", "import sys; sys.exit('no memory')"], 60)
            table = (Path(folder) / "gpu.md").read_text()
            known = json.loads((Path(folder) / "gpu.json").read_text())
        self.assertIn("| m | decode | 30.0 | 20.0 | 1.50x |", table)
        self.assertIn("| m | 8 streams | 90.0 |  |  |", table)
        self.assertIn("no memory", table)
        self.assertEqual(len(known["failures"]), 1)

    def test_a_kernel_tells_what_it_reads(self):
        self.assertEqual(gpu.megabytes("matmul_codes ffn_up, 9.4 MB"), 9.4)
        self.assertIsNone(gpu.megabytes("norm norm"))


class Picture(unittest.TestCase):
    def test_it_shows_the_figures_of_its_page(self):
        docs = BENCH.parent / "docs"
        drawn = picture.picture(*picture.first_table((docs / "speed.md").read_text()))
        self.assertEqual((docs / "speed.svg").read_text(), drawn, "bench/picture.py docs/speed.md -o docs/speed.svg")
        self.assertGreater(drawn.count("<rect"), 20)


class Perplexity(unittest.TestCase):
    # What llama-perplexity prints of its comparison.
    LLAMA = """Mean PPL(Q)                   :   8.260400 ±   0.252900
Mean PPL(base)                :   8.222100 ±   0.251000
Mean ln(PPL(Q)/PPL(base))     :  -0.004700 ±   0.001800
Mean    KLD:   0.003850 ±   0.000070
"""

    def test_figures_of_both_are_read(self):
        figures = {"ppl": [8.2604, 0.2529], "base": [8.2221, 0.251], "log_ratio": [-0.0047, 0.0018], "kl": [0.00385, 0.00007]}
        self.assertEqual(perplexity.of_llama(self.LLAMA), figures)
        names = {"perplexity": "ppl", "base_perplexity": "base", "log_ratio": "log_ratio", "divergence": "kl"}
        answer = {name: dict(zip(("value", "error"), figures[key])) for name, key in names.items()}
        self.assertEqual(perplexity.of_weft(f"reading\n{json.dumps(answer)}\n"), figures)
        with self.assertRaisesRegex(SystemExit, "printed no kl"):
            perplexity.of_llama(self.LLAMA.replace("KLD", "?"))

    def test_the_verdict(self):
        peer = {"ppl": [8.26, 0.25], "kl": [0.004, 0.0001]}
        for ppl, kl, word in ((8.3, 0.0041, "as good"), (8.6, 0.004, "apart"), (8.3, 0.005, "worse"), (8.2, 0.003, "better")):
            self.assertEqual(perplexity.verdict({"ppl": [ppl, 0.25], "kl": [kl, 0.0001]}, peer), word)


class Judgement(unittest.TestCase):
    def test_worse_is_beyond_noise(self):
        noise = random.Random(1)
        base = [noise.random() for _ in range(400)]
        self.assertFalse(accuracy.worse(base, base))
        shuffled = base[1:] + base[:1]
        self.assertFalse(accuracy.worse(shuffled, base))
        self.assertTrue(accuracy.worse([x + 0.01 * noise.random() for x in base], base))
        self.assertFalse(accuracy.worse([x - 0.01 * noise.random() for x in base], base))


class Figures(unittest.TestCase):
    """Comparisons whose engines are lists of speeds."""

    def measure(self, name: str, weft: list[float], peer: list[float]) -> dict:
        def played_by(speeds: list[float]):
            speeds = iter(speeds)
            return lambda *_: versus.Speed(next(speeds), 1.0, fastest=120.0)

        n_rounds = len(weft) // (2 if versus.WORKS[name].disturbed else 1)
        args = argparse.Namespace(rounds=n_rounds, quick=False, threads=2)
        with (
            mock.patch.object(versus, "weft_speed", played_by(weft)),
            mock.patch.object(versus, "peer_speed", played_by([0.5, *peer])),  # Its first round warms up.
            mock.patch.object(versus, "busy_core", contextlib.nullcontext),
            mock.patch("time.sleep"),
        ):
            return versus.measure_work(name, Path("model.gguf"), mock.Mock(warms_up=False), args)

    def test_best_and_spread(self):
        row = self.measure("decode", weft=[10.0, 30.0], peer=[5.0, 10.0])
        self.assertEqual((row["weft"], row["llama_cpp"], row["ratio"]), (30.0, 10.0, 3.0))
        self.assertEqual((row["ratio_lowest"], row["ratio_highest"]), (2.0, 3.0))
        self.assertEqual(row["roofline"], 0.25)
        self.assertIn("3.00x (2.00-3.00)", versus.row_text(row))

    def test_a_busy_core_is_a_share_of_the_undisturbed_speed(self):
        row = self.measure("decode-busy", weft=[100.0, 60.0], peer=[50.0, 10.0])
        self.assertAlmostEqual(row["weft"], 0.6)
        self.assertAlmostEqual(row["llama_cpp"], 0.2)
        self.assertAlmostEqual(row["ratio"], 3.0)

    def test_report_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            args = argparse.Namespace(json=Path(folder) / "report.json")
            versus.write_report([self.measure("decode", [2.0], [1.0])], args)
            results = json.loads(args.json.read_text())["results"]
        self.assertLessEqual({"model", "work", "weft", "llama_cpp", "ratio", "roofline"}, set(results[0]))


if __name__ == "__main__":
    unittest.main()
