#!/usr/bin/env python3
"""weft quantize, imatrix, split, merge, lora-merge and perplexity as users run them, with a tiny model.

Needs WEFT_PROGRAM and WEFT_TEST_DATA in the environment. One class is one CTest test.
"""
import json
import math
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from test_cli import GOLDEN, LLAMA, Case, weft  # noqa: E402

TASKS = GOLDEN.parent / "tasks"
ADAPTERS = GOLDEN.parent / "adapters"
TEXT = "The mill by the river had stood empty for eleven years. " * 20


class FileCase(Case):
    def inspect(self, path):
        return json.loads(self.succeed("inspect", path, "--json"))

    def metadata_of(self, path):
        return {entry["key"]: entry["value"] for entry in self.inspect(path)["metadata"]}


class Quantize(FileCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "tiny-f16.gguf"
        self.model.write_bytes(LLAMA.read_bytes())

    def test_the_result_has_a_name_of_its_own_and_runs(self):
        said = self.succeed("quantize", self.model, "q8_0", "-t", 2)
        result = self.folder / "tiny-Q8_0.gguf"
        self.assertIn(f"wrote {result}", said)
        self.assertIn("Q8_0: 1.3 MiB to", said)
        info = json.loads(self.succeed("inspect", result, "--json"))
        self.assertEqual(info["model"]["quantisation"], "Q8_0")
        self.assertLess(info["file_bytes"], 0.6 * self.model.stat().st_size)
        self.assertEqual(self.succeed("run", "-m", result, "-p", "a b", "-n", 4, "--temp", 0).count("\n"), 1)

    def test_what_is_no_number_is_not_packed(self):
        data = bytearray(self.model.read_bytes())
        data[-500_000:-499_000] = b"\x00\x7e" * 500
        self.model.write_bytes(data)
        message = self.fail_with(1, "quantize", self.model, self.folder / "out.gguf", "Q8_0")
        self.assertRegex(message, r"blk\.\d\.\w+\.weight has values that are infinite or not numbers")
        self.assertEqual([one.name for one in self.folder.iterdir()], [self.model.name])
        text, out = self.folder / "text.txt", self.folder / "imatrix.gguf"
        text.write_text(TEXT)
        self.assertIn("computed NaN or infinity", self.fail_with(1, "imatrix", "-m", self.model, "-f", text, "-c", 32, "-o", out))

    def test_an_existing_result_is_replaced_with_a_note(self):
        out = self.folder / "out.gguf"
        self.succeed("split", "--split-max-tensors", 9, self.model, self.folder / "part")
        adapter = ADAPTERS / "one.gguf"
        for command in (["quantize", self.model, out, "Q8_0"], ["merge", min(self.folder.glob("part-*")), out],
                        ["lora-merge", "-m", self.model, "--lora", adapter, "-o", out]):  # fmt: skip
            out.unlink(missing_ok=True)
            self.assertEqual(weft(*command).stderr, b"", command)
            out.write_bytes(b"old")
            self.assertEqual(weft(*command).stderr.decode(), f"weft: note: replaced the existing file {out}\n")
            self.assertEqual(out.read_bytes()[:4], b"GGUF")
            self.assertEqual(weft(*command, "-q").stderr, b"")

    def test_a_result_needs_a_name(self):
        self.assertIn("no name", self.fail_with(1, "quantize", self.model, "", "Q8_0"))
        self.assertNotIn("report this", self.fail_with(1, "quantize", self.model, self.folder / ("x" * 300), "Q8_0"))
        self.assertIn("parts' names", self.fail_with(2, "split", self.model, "", "--split-max-tensors", 9))

    def test_no_result_takes_the_place_of_what_it_is_made_from(self):
        text, sums = self.folder / "text.txt", self.folder / "imatrix.gguf"
        text.write_text(TEXT)
        self.succeed("imatrix", "-m", self.model, "-f", text, "-c", 32, "--chunks", 2, "-o", sums)
        kept = {path: path.read_bytes() for path in (self.model, text, sums)}
        for result in (self.model, text):
            for words in (["imatrix", "-o", result], ["perplexity", "--save-all-logits", result]):
                self.assertIn("overwrite", self.fail_with(1, *words, "-m", self.model, "-f", text, "-c", 32))
        self.assertIn("overwrite", self.fail_with(1, "quantize", "--imatrix", sums, self.model, sums, "Q4_0"))
        for path, data in kept.items():
            self.assertEqual(path.read_bytes(), data)

    def test_the_numbers_of_llama_quantize_are_types(self):
        out = self.folder / "out.gguf"
        for number, name in ((2, "Q4_0"), ("15", "Q4_K_M"), (38, "MXFP4"), (0, "F32")):
            self.assertIn(f"{name}: ", self.succeed("quantize", "--dry-run", self.model, out, number))
        self.succeed("quantize", self.model, out, 2, 1)
        self.assertEqual(json.loads(self.succeed("inspect", out, "--json"))["model"]["quantisation"], "Q4_0")
        numbered = self.folder / "tiny-2.gguf"
        numbered.write_bytes(self.model.read_bytes())
        self.assertIn(f"wrote {self.folder / 'tiny-2-Q8_0.gguf'}", self.succeed("quantize", numbered, 7))
        for unknown in (4, 99, "2x"):
            message = self.fail_with(2, "quantize", self.model, out, unknown)
            self.assertIn(f"unknown quantization type '{unknown}'", message)
            self.assertIn("Q4_K_M", message)

    def test_help_names_all_mixes(self):
        message = self.fail_with(2, "quantize", self.model, "Q4_X")
        mixes = message[message.index("known are ") + len("known are ") : message.index(" (weft help")].split(", ")
        self.assertGreater(len(mixes), 30)
        text = self.succeed("help", "quantize")
        named = text[text.index("Types: ") + len("Types: ") : text.index("Examples:")].replace("\n", " ").split(",")
        self.assertEqual([name.strip() for name in named], mixes)

    def test_a_dry_run_says_what_a_real_one_does(self):
        rules = self.folder / "rules.txt"
        rules.write_text("# rules\nblk\\.0\\.ffn_down=q8_0\n\nattn_q=q5_1\n")
        words = ["--tensor-type-file", rules, "--output-tensor-type", "f16", "--json", self.model]
        planned = json.loads(self.succeed("quantize", "--dry-run", *words, "Q4_0"))
        self.assertEqual(list(self.folder.glob("*Q4*")), [])
        self.assertIsNone(planned["to"])
        out = self.folder / "out.gguf"
        real = json.loads(self.succeed("quantize", *words, out, "Q4_0"))
        self.assertEqual(planned["tensors"], real["tensors"])
        types = {t["name"]: t["type"] for t in json.loads(self.succeed("inspect", out, "--json"))["tensors"]}
        self.assertEqual(types, {t["name"]: t["to"] for t in real["tensors"]})
        self.assertEqual(types["blk.0.ffn_down.weight"], "q8_0")
        self.assertEqual(types["blk.1.ffn_down.weight"], "q4_0")
        self.assertEqual(types["blk.1.attn_q.weight"], "q5_1")
        self.assertEqual(types["output.weight"], "f16")

    def test_wrong_words_are_named(self):
        self.assertIn("Q4_K_M", self.fail_with(2, "quantize", self.model, "Q4_X"))
        self.assertIn("give a model", self.fail_with(2, "quantize", self.model))
        self.assertIn("PATTERN=TYPE", self.fail_with(2, "quantize", "--tensor-type", "x", self.model, "Q4_0"))
        self.assertIn("unknown type 'q9'", self.fail_with(2, "quantize", "--tensor-type", "x=q9", self.model, "Q4_0"))
        self.assertIn("none.gguf", self.fail_with(1, "quantize", self.folder / "none.gguf", "Q4_0"))
        self.assertIn("overwrite", self.fail_with(1, "quantize", self.model, self.model, "Q4_0"))
        self.succeed("quantize", self.model, "Q4_0")
        message = self.fail_with(1, "quantize", self.folder / "tiny-Q4_0.gguf", "Q5_0")
        self.assertIn("requantize", message)
        broken = self.folder / "broken.gguf"
        broken.write_bytes(self.model.read_bytes()[:5000])
        self.fail_with(1, "quantize", broken, "Q4_0")
        self.fail_with(1, "quantize", self.model, self.folder / "no" / "folder.gguf", "Q4_0")


    def types_of(self, path):
        return {t["name"]: t["type"] for t in self.inspect(path)["tensors"]}

    def test_layers_are_left_out_and_keys_set(self):
        out = self.folder / "short.gguf"
        n_layers = int(self.metadata_of(LLAMA)["llama.block_count"])
        self.succeed("quantize", "--prune-layers", "0", "--override-kv", "general.name=str:short", "--override-kv",
                     "llama.context_length=int:64", self.model, out, "COPY")  # fmt: skip
        keys = self.metadata_of(out)
        self.assertEqual(keys["general.name"], "short")
        self.assertEqual(keys["llama.block_count"], str(n_layers - 1))
        self.assertEqual(keys["llama.context_length"], "64")
        expected = {name: kind for name, kind in self.types_of(LLAMA).items() if not name.startswith("blk.0.")}
        for layer in range(1, n_layers):
            expected = {name.replace(f"blk.{layer}.", f"blk.{layer - 1}."): kind for name, kind in expected.items()}
        self.assertEqual(self.types_of(out), expected)
        self.succeed("run", "-m", out, "-p", "a b", "-n", 4, "--temp", 0)
        self.assertIn("layer 99", self.fail_with(1, "quantize", "--prune-layers", "99", self.model, out, "Q4_0"))
        self.assertIn("4,5,9", self.fail_with(2, "quantize", "--prune-layers", "x", self.model, out, "Q4_0"))
        self.assertIn("KEY=TYPE:VALUE", self.fail_with(2, "quantize", "--override-kv", "a=int:x", self.model, out, "Q4_0"))

    def test_a_set_stays_a_set(self):
        parts = json.loads(self.succeed("split", "--json", "--split-max-tensors", 8, LLAMA, self.folder / "a"))
        out = self.folder / "b"
        result = json.loads(self.succeed("quantize", "--keep-split", "--json", parts[1]["path"], out, "Q8_0", 2))
        self.assertEqual([Path(file).name for file in result["files"]], [f"b-0000{i}-of-00004.gguf" for i in range(1, 5)])
        one = self.folder / "one.gguf"
        self.succeed("quantize", self.model, one, "Q8_0")
        self.assertEqual(self.types_of(result["files"][3]), self.types_of(one))
        words = ["-p", "a b c", "-n", 8, "--temp", 0]
        self.assertEqual(self.succeed("run", "-m", one, *words), self.succeed("run", "-m", result["files"][0], *words))
        self.assertIn("exists already", self.fail_with(1, "quantize", "--keep-split", parts[1]["path"], out, "Q8_0"))

    def test_copies_keep_types_but_those_that_rules_name(self):
        out = self.folder / "copy.gguf"
        self.succeed("quantize", "--tensor-type", "ffn_down=q8_0", self.model, out, "copy")
        for name, kind in self.types_of(LLAMA).items():
            self.assertEqual(self.types_of(out)[name], "q8_0" if "ffn_down" in name else kind)
            if "ffn_down" in name:
                break
        self.assertEqual(self.types_of(out)["blk.0.attn_q.weight"], self.types_of(LLAMA)["blk.0.attn_q.weight"])
        self.succeed("quantize", self.model, "q4_k")
        self.assertTrue((self.folder / "tiny-Q4_K_M.gguf").exists())


class Imatrix(FileCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)
        self.out = self.folder / "imatrix.gguf"

    def statistics(self, path):
        rows = json.loads(self.succeed("imatrix", "--in-file", path, "--show-statistics", "--json"))
        return {row["tensor"]: row for row in rows}

    def test_quantize_takes_what_texts_gave(self):
        words = ["imatrix", "-m", LLAMA, "-f", self.text, "-c", 32, "--json", "-t", 2]
        result = json.loads(self.succeed(*words, "-o", self.out))
        self.assertEqual(result["tokens"], 32 * result["chunks"])
        found = self.statistics(self.out)
        self.assertNotIn("output.weight", found)
        self.assertEqual(found["blk.0.attn_q.weight"]["rows"], result["tokens"])
        self.assertEqual(found["blk.0.attn_q.weight"]["sum"], found["blk.0.attn_k.weight"]["sum"])
        self.assertIn("blk.1.ffn_down.weight", self.succeed("imatrix", "--in-file", self.out, "--show-statistics"))
        small = self.folder / "small.gguf"
        self.succeed("quantize", "--imatrix", self.out, LLAMA, small, "IQ4_NL")
        metadata = self.metadata_of(small)
        self.assertEqual(metadata["quantize.imatrix.entries_count"], str(len(found)))
        self.assertEqual(metadata["quantize.imatrix.chunks_count"], str(result["chunks"]))
        # In other batches: the same sums, up to their order. With the head: that, too.
        other = self.folder / "other.gguf"
        self.succeed(*words, "-o", other, "-b", 32, "--process-output", "-ofreq", 1, "--save-frequency", 5)
        self.assertTrue((self.folder / "other.gguf.at_5").exists())
        others = self.statistics(other)
        self.assertEqual(others.pop("output.weight")["rows"], result["tokens"])
        self.assertEqual(others.keys(), found.keys())
        for name, row in found.items():
            self.assertAlmostEqual(others[name]["sum"], row["sum"], delta=1e-4 * row["sum"])

    def test_files_are_put_together(self):
        for form, name in (("gguf", "a.gguf"), ("dat", "a.dat")):
            one = self.folder / name
            self.succeed("imatrix", "-m", LLAMA, "-f", self.text, "-c", 32, "--chunks", 2, "-o", one, "--output-format", form)
            self.succeed("imatrix", "--in-file", one, "--in-file", one, "-o", self.out, "-c", 32)
            first, both = self.statistics(one), self.statistics(self.out)
            for tensor, row in both.items():
                self.assertAlmostEqual(row["sum"], first[tensor]["sum"], delta=1e-5 * row["sum"])
            self.assertEqual(both["blk.0.attn_q.weight"]["rows"], 128)
        # Adds the statistics of a document, without its first chunks.
        self.succeed("imatrix", "-m", LLAMA, "-f", self.text, "-c", 32, "--chunk", 2, "--chunks", 3, "--in-file",
                     self.folder / "a.gguf", "-o", self.out)  # fmt: skip
        self.assertEqual(self.statistics(self.out)["blk.0.attn_q.weight"]["rows"], 5 * 32)

    def test_experts_have_their_own(self):
        self.succeed("imatrix", "-m", GOLDEN / "qwen3moe/model.gguf", "-f", self.text, "-c", 32, "--chunks", 2, "-o", self.out)
        found = self.statistics(self.out)
        experts, router = found["blk.0.ffn_up_exps.weight"], found["blk.0.ffn_gate_inp.weight"]
        self.assertGreater(experts["columns"], router["columns"])
        self.assertGreater(experts["rows"], router["rows"])
        self.succeed("quantize", "--imatrix", self.out, GOLDEN / "qwen3moe/model.gguf", self.folder / "q.gguf", "IQ4_NL")

    def test_wrong_words_are_named(self):
        self.assertIn("-f FILE", self.fail_with(2, "imatrix", "-m", LLAMA))
        self.assertIn("--in-file", self.fail_with(2, "imatrix", "--show-statistics"))
        self.assertIn("tokens", self.fail_with(2, "imatrix", "-m", LLAMA, "-f", self.text, "-c", 4096))
        self.assertIn("imatrix", self.fail_with(1, "imatrix", "--in-file", LLAMA, "-o", self.out))
        self.assertFalse(self.out.exists())


class LoraMerge(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "merged.gguf"

    def test_the_result_says_what_the_model_says_with_adapters(self):
        one, two = ADAPTERS / "one.gguf", ADAPTERS / "two.gguf"
        words = ["-p", "a b c", "-n", 12, "--temp", 0]
        for given, merged in (
            (["--lora", one], ["--lora", one]),
            (["--lora", one, "--lora-scaled", two, "-0.5"], ["--lora", one, "--lora-scaled", f"{two}:-0.5"]),
            (["--lora", one, "--lora", two], ["--lora", f"{one},{two}"]),
        ):
            self.succeed("lora-merge", "-m", LLAMA, *merged, "-o", self.out, "--type", "f32")
            beside = self.succeed("run", "-m", LLAMA, *given, *words)
            self.assertEqual(self.succeed("run", "-m", self.out, *words), beside)
        self.assertNotEqual(self.succeed("run", "-m", LLAMA, *words), beside)

    def test_wrong_words_are_named(self):
        one = ADAPTERS / "one.gguf"
        self.assertIn("--lora FILE", self.fail_with(2, "lora-merge", "-m", LLAMA, "-o", self.out))
        self.assertIn("-o FILE", self.fail_with(2, "lora-merge", "-m", LLAMA, "--lora", one))
        self.assertIn("unknown type 'q9'", self.fail_with(2, "lora-merge", "-m", LLAMA, "--lora", one, "-o", self.out, "--type", "q9"))
        self.assertIn("general.type", self.fail_with(1, "lora-merge", "-m", LLAMA, "--lora", LLAMA, "-o", self.out))
        self.assertIn("overwrite", self.fail_with(1, "lora-merge", "-m", LLAMA, "--lora", one, "-o", LLAMA))
        self.assertFalse(self.out.exists())


class Split(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_set_is_the_file_and_becomes_it_again(self):
        planned = json.loads(self.succeed("split", "--dry-run", "--json", "--split-max-tensors", 8, LLAMA, self.folder / "a"))
        self.assertEqual(list(self.folder.iterdir()), [])
        parts = json.loads(self.succeed("split", "--json", "--split-max-tensors", 8, LLAMA, self.folder / "a"))
        self.assertEqual(parts, planned)
        self.assertEqual([part["tensors"] for part in parts], [8, 8, 8, 6])
        self.assertEqual(Path(parts[3]["path"]).name, "a-00004-of-00004.gguf")
        words = ["-p", "a b c", "-n", 8, "--temp", 0]
        answer = self.succeed("run", "-m", LLAMA, *words)
        self.assertEqual(answer, self.succeed("run", "-m", parts[2]["path"], *words))
        whole = self.folder / "whole.gguf"
        self.succeed("merge", parts[1]["path"], whole)
        whole_info, info = (json.loads(self.succeed("inspect", path, "--json")) for path in (whole, LLAMA))
        self.assertEqual(whole_info["tensors"], info["tensors"])
        self.assertEqual(whole_info["metadata"], info["metadata"])
        self.assertEqual(answer, self.succeed("run", "-m", whole, *words))
        # Also by size: no part is larger, but for a tensor that is alone.
        for part in json.loads(self.succeed("split", "--json", "--split-max-size", "1M", LLAMA, self.folder / "b")):
            self.assertTrue(part["bytes"] <= 1_000_000 or part["tensors"] == 1)

    def test_wrong_words_are_named(self):
        self.assertIn("one part", self.fail_with(1, "split", LLAMA, self.folder / "a"))
        self.assertIn("2G", self.fail_with(2, "split", "--split-max-size", "12", LLAMA, self.folder / "a"))
        self.assertIn("give a model", self.fail_with(2, "split", LLAMA))
        self.assertIn("not a split model", self.fail_with(1, "merge", LLAMA, self.folder / "a.gguf"))
        self.succeed("split", "--split-max-tensors", 16, LLAMA, self.folder / "a")
        first, second = sorted(self.folder.iterdir())
        self.assertIn("overwrite", self.fail_with(1, "merge", first, second))
        self.fail_with(1, "split", "--split-max-tensors", 16, LLAMA, self.folder / "none" / "a")
        second.unlink()
        self.assertIn("part 2 of 2", self.fail_with(1, "merge", first, self.folder / "a.gguf"))


class Perplexity(Case):
    """The written reference contains everything needed to compute the figures again."""

    N_CTX = 32

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT)
        self.base = self.folder / "base.bin"

    def measure(self, model, *words):
        return json.loads(self.succeed("perplexity", "-m", model, "--json", "-t", 2, *words))

    def read_base(self):
        """For each scored token the logarithms of all probabilities, and the token that came."""
        data = self.base.read_bytes()
        self.assertEqual(data[:8], b"_logits_")
        n_ctx, n_vocab, n_chunks = struct.unpack_from("<Iii", data, 8)
        tokens = struct.unpack_from(f"<{n_ctx * n_chunks}i", data, 20)
        at = 20 + 4 * n_ctx * n_chunks
        rows = []
        for chunk in range(n_chunks):
            for i in range(n_ctx // 2, n_ctx - 1):
                scale, least = struct.unpack_from("<ff", data, at)
                codes = struct.unpack_from(f"<{n_vocab}H", data, at + 8)
                rows.append(([least + scale * code for code in codes], tokens[chunk * n_ctx + i + 1]))
                at += 8 + 2 * ((n_vocab + 1) // 2 * 2)
        self.assertEqual(at, len(data))
        return rows

    def test_figures_are_those_of_the_logits(self):
        truth = self.measure(LLAMA, "-f", self.text, "-c", self.N_CTX, "--save-all-logits", self.base)
        rows = self.read_base()
        self.assertEqual(truth["tokens"], len(rows))
        loss = -sum(logs[token] for logs, token in rows) / len(rows)
        self.assertAlmostEqual(truth["loss"]["value"], loss, delta=1e-3)
        self.assertAlmostEqual(truth["perplexity"]["value"], math.exp(loss), delta=1e-3 * math.exp(loss))
        for logs, _ in rows:
            self.assertAlmostEqual(sum(map(math.exp, logs)), 1.0, delta=1e-2)
        # Without all logits, in other batches, and from the standard input: the same.
        for words in (["-b", 64], ["-b", 1], []):
            other = self.measure(LLAMA, "-f", self.text, "-c", self.N_CTX, *words)
            self.assertEqual(other["perplexity"], truth["perplexity"])
        piped = self.succeed("perplexity", "-m", LLAMA, "--json", "-f", "-", "-c", self.N_CTX, stdin=self.text.read_bytes())
        self.assertEqual(json.loads(piped)["perplexity"], truth["perplexity"])
        self.assertEqual(self.measure(LLAMA, "-f", self.text, "-c", self.N_CTX, "--chunks", -1)["perplexity"], truth["perplexity"])

    def test_divergence_from_itself_is_nothing_and_from_another_something(self):
        self.measure(LLAMA, "-f", self.text, "-c", self.N_CTX, "--save-all-logits", self.base)
        same = self.measure(LLAMA, "--kl-divergence-base", self.base)
        self.assertAlmostEqual(same["divergence"]["value"], 0.0, delta=1e-6)
        self.assertEqual(same["same_top"]["value"], 1.0)
        notes = weft("perplexity", "-m", LLAMA, "--kl-divergence-base", self.base, "-f", self.text, "-c", 64).stderr.decode()
        for option in ("-f", "-c"):
            self.assertIn(f"{option} has no effect with --kl-divergence-base", notes)
        self.assertAlmostEqual(same["log_ratio"]["value"], 0.0, delta=1e-4)
        small = self.folder / "small.gguf"
        self.succeed("quantize", "--pure", LLAMA, small, "Q4_0")
        other = self.measure(small, "--kl-divergence-base", self.base, "--chunks", 3)
        self.assertEqual(other["chunks"], 3)
        self.assertGreater(other["divergence"]["value"], 1e-5)
        percentiles = list(other["divergence_percentiles"].values())
        self.assertEqual(percentiles, sorted(percentiles, reverse=True))
        # The divergence matches the two files.
        before, kept = self.read_base(), self.base.read_bytes()
        self.measure(small, "-f", self.text, "-c", self.N_CTX, "--save-all-logits", self.base)
        n = other["tokens"]
        sums = [sum(math.exp(p) * (p - q) for p, q in zip(a, b)) for (a, _), (b, _) in zip(before[:n], self.read_base()[:n])]
        self.assertAlmostEqual(other["divergence"]["value"], sum(sums) / n, delta=0.02 * sum(sums) / n)
        for cut in (0, 7, 19, 40, len(kept) - 1):
            self.base.write_bytes(kept[:cut])
            self.fail_with(1, "perplexity", "-m", LLAMA, "--kl-divergence-base", self.base, "-q")

    def test_the_first_token_of_a_chunk_is_read_as_the_one_that_begins_texts(self):
        self.measure(LLAMA, "-f", self.text, "-c", self.N_CTX, "--save-all-logits", self.base)
        data = bytearray(self.base.read_bytes())
        n_ctx, _, n_chunks = struct.unpack_from("<Iii", data, 8)
        for chunk in range(n_chunks):  # Whoever wrote the file may have kept the text's own.
            struct.pack_into("<i", data, 20 + 4 * n_ctx * chunk, 77)
        self.base.write_bytes(data)
        self.assertAlmostEqual(self.measure(LLAMA, "--kl-divergence-base", self.base)["divergence"]["value"], 0.0, delta=1e-6)

    def test_wrong_words_are_named(self):
        self.assertIn("-f FILE", self.fail_with(2, "perplexity", "-m", LLAMA))
        self.assertIn("tokens", self.fail_with(2, "perplexity", "-m", LLAMA, "-f", self.text, "-c", 4096))
        self.assertIn("one of them", self.fail_with(2, "perplexity", "-m", LLAMA, "-f", self.text, "--save-all-logits",
                                                    self.base, "--kl-divergence-base", self.base))  # fmt: skip


class Tasks(Case):
    """Texts to choose among. What is right how often is said by llama-perplexity, of the same model and files."""

    def accuracy(self, *words, **options):
        result = json.loads(self.succeed("perplexity", "-m", LLAMA, "--json", "-t", 2, *words, **options))
        n, share = result["tasks"], result["accuracy"]["value"]
        self.assertAlmostEqual(result["accuracy"]["error"], math.sqrt(share * (1 - share) / (n - 1)), places=9)
        self.assertTrue(result["interval"][0] <= share <= result["interval"][1])
        return round(share * n), n

    def test_accuracies_do_not_depend_on_batches(self):
        for words, n in (
            (["--hellaswag", "-f", TASKS / "hellaswag.txt"], 24),
            (["--winogrande", "-f", TASKS / "winogrande.csv"], 20),
            (["--multiple-choice", "-f", TASKS / "multiple_choice.bin"], 22),
        ):
            whole = self.accuracy(*words)
            self.assertEqual(whole[1], n)
            self.assertEqual(self.accuracy(*words, "-b", 1), whole)
            some = words[0] + "-tasks"
            self.assertEqual(self.accuracy(*words, some, 7)[1], 7)
            self.assertIn("% right of", self.succeed("perplexity", "-m", LLAMA, *words, some, 2))

    def test_wrong_files_are_named(self):
        def wrong(option, data, part):
            with tempfile.NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                self.assertIn(part, self.fail_with(1, "perplexity", "-m", LLAMA, option, "-f", file.name))

        wrong("--hellaswag", b"a\n0\nb\nc\nd\n", "6 lines")
        wrong("--hellaswag", b"a\n4\nb\nc\nd\ne\n", "0 to 3")
        wrong("--winogrande", b"0,a sentence,x,y,1\n", "no _")
        wrong("--winogrande", b"0,a _,x,1\n", "cells")
        wrong("--winogrande", b"0,a _,x,y,3\n", "neither 1 nor 2")
        data = (TASKS / "multiple_choice.bin").read_bytes()
        for cut in (2, 30, 100, len(data) - 1):
            wrong("--multiple-choice", data[:cut], "ends in the middle")
        wrong("--multiple-choice", struct.pack("<I", 0), "no tasks")
        self.assertIn("one of", self.fail_with(2, "perplexity", "-m", LLAMA, "--hellaswag", "--winogrande", "-f", "x"))
        self.assertIn("-f FILE", self.fail_with(2, "perplexity", "-m", LLAMA, "--hellaswag"))


if __name__ == "__main__":
    unittest.main()
