#!/usr/bin/env python3
"""Makes tests/data/speech: a tiny Whisper model with random weights, and what transformers computes with it.

`model` is the folder of Hugging Face: config.json, generation_config.json, tokenizer.json, model.safetensors. Its
windows have 3 s. `rows.f32` has the encoder's states for the first window of the audio. `logits.f32` has the decoder's
logits for the tokens in expected.json. That file also has the segments that `generate` makes
of the whole file, greedily and with timestamps, and a language. `mels80.f32` and `mels128.f32` are the spectrograms of
the first window, frames by mels. Needs the packages numpy, tokenizers, torch and transformers.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import packed_data
from coarse import coarse, reference_bytes
from tones import RATE, write_tones

TARGET = Path(__file__).parent.parent / "tests/data/speech"
N_HEARD, WIDTH, N_MELS = 150, 64, 80
WINDOW = 2 * N_HEARD * 160
LANGUAGES = ["en", "zh", "de", "es"]


def make_audio():
    """Three windows and a part of a fourth."""
    tones = [(hz, 0.6 + i / 3) for i, hz in enumerate((210, 520, 1250, 2900))]
    return write_tones(TARGET / "sound.wav", 3 * WINDOW + WINDOW // 3 + 37, 7, tones)


def make_tokenizer(folder):
    """Bytes and a few merges of GPT-2, then Whisper's special tokens. Returns their ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("h", "e"), ("Ġ", "a"), ("i", "n"), ("r", "e"), ("o", "n"), ("Ġt", "he"), ("e", "r"), ("Ġ", "s"),
              ("a", "t"), ("in", "g"), ("n", "d"), ("Ġa", "nd")]
    vocabulary = {text: i for i, text in enumerate(alphabet + [a + b for a, b in merges])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["endoftext", "startoftranscript", *LANGUAGES, "translate", "transcribe", "startoflm", "startofprev",
               "nospeech", "notimestamps", *[f"{i * 0.02:.2f}" for i in range(N_HEARD + 1)]]
    tokenizer.add_special_tokens([f"<|{name}|>" for name in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    return {name: tokenizer.token_to_id(f"<|{name}|>") for name in special}, tokenizer


def make_model(ids, n_vocab):
    torch.manual_seed(2026)
    config = transformers.WhisperConfig(
        vocab_size=n_vocab, num_mel_bins=N_MELS, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH, max_source_positions=N_HEARD,
        max_target_positions=64, decoder_start_token_id=ids["startoftranscript"], eos_token_id=ids["endoftext"],
        bos_token_id=ids["endoftext"], pad_token_id=ids["endoftext"], suppress_tokens=[], begin_suppress_tokens=None)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0) + 0.3 * torch.randn_like(weight))
            elif "encoder.embed_positions" not in name:
                weight.copy_(torch.randn_like(weight) * (0.6 if "embed" in name else 0.22))
            weight.copy_(coarse(weight))
    model.tie_weights()
    generation = transformers.GenerationConfig(
        decoder_start_token_id=ids["startoftranscript"], eos_token_id=ids["endoftext"], pad_token_id=ids["endoftext"],
        bos_token_id=ids["endoftext"], no_timestamps_token_id=ids["notimestamps"], is_multilingual=True,
        lang_to_id={f"<|{code}|>": ids[code] for code in LANGUAGES}, task_to_id={t: ids[t] for t in ("transcribe", "translate")},
        suppress_tokens=[3, 9], begin_suppress_tokens=[ids["endoftext"] - 1, ids["endoftext"]], max_length=64,
        max_initial_timestamp_index=50, prev_sot_token_id=ids["startofprev"], return_timestamps=True,
        alignment_heads=[[1, 0], [1, 2]])
    model.generation_config = generation
    return model


def features(extractor, samples):
    return extractor(samples, sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest",
                     return_attention_mask=True)


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    folder = TARGET / "model"
    folder.mkdir(exist_ok=True)
    sound = make_audio()
    ids, tokenizer = make_tokenizer(folder)
    model = make_model(ids, tokenizer.get_vocab_size())
    model.save_pretrained(folder)
    for n_mels in (80, 128):
        extractor = transformers.WhisperFeatureExtractor(feature_size=n_mels, chunk_length=3)
        mels = extractor(sound[:WINDOW - 4000], sampling_rate=RATE, return_tensors="np").input_features[0]
        (TARGET / f"mels{n_mels}.f32").write_bytes(reference_bytes(mels.T))
    extractor = transformers.WhisperFeatureExtractor(feature_size=N_MELS, chunk_length=3)
    inputs = features(extractor, sound)
    start = [ids["startoftranscript"], ids["de"], ids["transcribe"]]
    rng = np.random.default_rng(3)
    tokens = start + [ids["0.00"]] + rng.integers(0, ids["endoftext"], 40).tolist()
    with torch.no_grad():
        window = inputs.input_features[:, :, :2 * N_HEARD]
        rows = model.model.encoder(window).last_hidden_state[0]
        logits = model(input_features=window, decoder_input_ids=torch.tensor([tokens])).logits[0]
        language = int(model.detect_language(input_features=window)[0])
        out = model.generate(input_features=inputs.input_features, attention_mask=inputs.attention_mask, language="de",
                             task="transcribe", return_timestamps=True, return_segments=True, temperature=0.0,
                             condition_on_prev_tokens=False, max_new_tokens=32)
    (TARGET / "rows.f32").write_bytes(reference_bytes(rows.numpy()))
    (TARGET / "logits.f32").write_bytes(reference_bytes(logits.numpy()))
    segments = [{"start": round(float(s["start"]), 3), "end": round(float(s["end"]), 3), "tokens": s["tokens"].tolist()}
                for s in out["segments"][0]]
    expected = {"tokens": tokens, "language": next(code for code in LANGUAGES if ids[code] == language), "segments": segments}
    (TARGET / "expected.json").write_text(json.dumps(expected) + "\n")
    for segment in segments:
        print(segment)
    print("language", expected["language"])
    if "--no-pack" not in sys.argv:
        packed_data.pack_folder(TARGET)


if __name__ == "__main__":
    main()
