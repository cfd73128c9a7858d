#!/usr/bin/env python3
"""Makes tests/data/audio: tiny audio models (mmproj files as llama.cpp's converter writes them) with random weights,
and the outputs of transformers for an audio file.

The audio file `sound.wav` is longer than one part. FAMILY/mmproj.gguf is a model, and rows.f32 its rows for the
language model. mels.f32 is the spectrogram of the first part (frames by mels). The language model `text.gguf` is a
Llama of one layer with the golden model's vocabulary; it reads voxtral's rows. Needs the packages gguf, numpy, torch
and transformers.
"""
import re
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFValueType, GGUFWriter

import packed_data
from coarse import coarse, reference_bytes
from tones import RATE, write_tones

TARGET = Path(__file__).parent.parent / "tests/data/audio"
N_MELS, WIDTH, N_POSITIONS = 32, 32, 48
PART = 2 * N_POSITIONS * 160  # Samples.
LAYER = {"self_attn_layer_norm": "ln1", "final_layer_norm": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "fc1": "ffn_up", "fc2": "ffn_down"}
WHOLE = {"conv1": "a.conv1d.1", "conv2": "a.conv1d.2", "embed_positions": "a.position_embd", "layer_norm": "a.post_ln",
         "linear_1": "mm.a.mlp.1", "linear_2": "mm.a.mlp.2", "linear": "mm.a.fc", "norm_pre": "mm.a.norm_pre",
         "norm_mid": "mm.a.norm_mid"}
AUDIO = dict(num_mel_bins=N_MELS, max_source_positions=N_POSITIONS)


def randomise(module):
    """Every value fits F16; what starts as a constant gets values of its own."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.dim() == 1:
                weight.copy_((1.0 if "norm" in name and name.endswith("weight") else 0.0) + 0.3 * torch.randn_like(weight))
            else:
                weight.copy_(torch.randn_like(weight) * (0.5 if "position" in name else 0.15))
            weight.copy_(coarse(weight))


def make_audio():
    """One part and a little more than half of another."""
    tones = [(hz, 0.7 + i) for i, hz in enumerate((180, 440, 1330, 3700))]
    return write_tones(TARGET / "sound.wav", PART + PART * 5 // 8 + 37, 5, tones)


def write(folder, projector, modules, n_embd, meta):
    folder.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(folder / "mmproj.gguf", "clip")
    writer.add_type("mmproj")
    writer.add_name(f"tiny-{folder.name}-audio")
    writer.add_bool("clip.has_audio_encoder", True)
    writer.add_string("clip.projector_type", projector)
    for key, value in {"num_mel_bins": N_MELS, "embedding_length": WIDTH, "feed_forward_length": 4 * WIDTH, "block_count": 2,
                       "attention.head_count": 2, "projection_dim": n_embd, **meta}.items():
        writer.add_uint32(f"clip.audio.{key}", value)
    writer.add_float32("clip.audio.attention.layer_norm_epsilon", 1e-5)
    for module in modules:
        for name, weight in module.named_parameters():
            stem, tail = name.rsplit(".", 1)
            data = weight.detach().numpy()
            match = re.fullmatch(r"layers\.(\d+)\.(.+)", stem)
            new = f"a.blk.{match[1]}.{LAYER[match[2]]}" if match else WHOLE[stem]
            if new.startswith("a.conv1d") and tail == "bias":
                data = data[:, None]
            half = "norm" not in stem and "position" not in stem and tail == "weight"
            writer.add_tensor(f"{new}.{tail}", np.ascontiguousarray(data).astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def parts_of(samples):
    extractor = transformers.WhisperFeatureExtractor(feature_size=N_MELS, chunk_length=1)
    extractor.n_samples, extractor.nb_max_frames = PART, 2 * N_POSITIONS
    for at in range(0, len(samples), PART):
        yield extractor(samples[at:at + PART], sampling_rate=RATE, return_tensors="pt", return_attention_mask=True)


def write_floats(path, values):
    path.write_bytes(reference_bytes(values.detach().numpy()))


def voxtral(parts):
    torch.manual_seed(30)
    config = transformers.VoxtralConfig(
        audio_config=AUDIO | dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2, intermediate_size=4 * WIDTH),
        text_config=dict(model_type="llama", vocab_size=512, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
                         num_attention_heads=4))
    model = transformers.VoxtralModel(config).eval()
    randomise(model.audio_tower)
    randomise(model.multi_modal_projector)
    with torch.no_grad():
        rows = torch.cat([model.get_audio_features(part.input_features).pooler_output for part in parts])
    write(TARGET / "voxtral", "voxtral", (model.audio_tower, model.multi_modal_projector), 64, {"projector.stack_factor": 4})
    write_floats(TARGET / "voxtral/rows.f32", rows)
    print(f"voxtral: rows {tuple(rows.shape)} {rows.std():.3f}")


def qwen2a(parts):
    torch.manual_seed(31)
    config = transformers.Qwen2AudioConfig(
        audio_config=AUDIO | dict(d_model=WIDTH, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=4 * WIDTH),
        text_config=dict(model_type="qwen2", vocab_size=512, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2), audio_token_index=511,
        attn_implementation="eager")
    model = transformers.Qwen2AudioForConditionalGeneration(config).eval()
    inner = model.model if hasattr(model, "model") and hasattr(model.model, "audio_tower") else model
    randomise(inner.audio_tower)
    randomise(inner.multi_modal_projector)
    seen = []
    inner.multi_modal_projector.register_forward_hook(lambda module, inputs, output: seen.append(output[0]))
    rows = []
    for part in parts:
        n = ((int(part.attention_mask.sum()) - 1) // 2 + 1 - 2) // 2 + 1
        tokens = torch.tensor([[5] + [511] * n + [7]])
        with torch.no_grad():
            model(input_ids=tokens, input_features=part.input_features, feature_attention_mask=part.attention_mask,
                  attention_mask=torch.ones_like(tokens))
        rows.append(seen.pop()[:n])
    rows = torch.cat(rows)
    write(TARGET / "qwen2a", "qwen2a", (inner.audio_tower, inner.multi_modal_projector), 64, {})
    write_floats(TARGET / "qwen2a/rows.f32", rows)
    print(f"qwen2a: rows {tuple(rows.shape)} {rows.std():.3f}")


class Ultravox(torch.nn.Module):
    """The part of Ultravox 0.5 after Whisper's encoder, which has no class in transformers."""

    def __init__(self, stacked, inner, n_embd):
        super().__init__()
        self.norm_pre = torch.nn.RMSNorm(stacked * WIDTH, eps=1e-6)
        self.linear_1 = torch.nn.Linear(stacked * WIDTH, 2 * inner, bias=False)
        self.norm_mid = torch.nn.RMSNorm(inner, eps=1e-6)
        self.linear_2 = torch.nn.Linear(inner, n_embd, bias=False)

    def forward(self, x):
        values, gate = self.linear_1(self.norm_pre(x)).chunk(2, dim=-1)
        return self.linear_2(self.norm_mid(torch.nn.functional.silu(gate) * values))


def ultravox(parts):
    """Whisper's encoder by transformers, with a mask in its layers that hides positions after the end of the audio."""
    torch.manual_seed(32)
    stacked = 5  # 48 is not a multiple of it.
    config = transformers.WhisperConfig(d_model=WIDTH, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=4 * WIDTH,
                                        attn_implementation="eager", **AUDIO)
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config).eval()
    projector = Ultravox(stacked, 40, 64)
    randomise(encoder)
    randomise(projector)
    rows = []
    with torch.no_grad():
        for part in parts:
            heard = (int(part.attention_mask.sum()) + 1) // 2
            x = torch.nn.functional.gelu(encoder.conv1(part.input_features))
            x = torch.nn.functional.gelu(encoder.conv2(x)).transpose(1, 2) + encoder.embed_positions.weight
            mask = torch.zeros(1, 1, 1, N_POSITIONS).masked_fill(torch.arange(N_POSITIONS) >= heard, float("-inf"))
            for layer in encoder.layers:
                x = layer(x, mask)
                x = x[0] if isinstance(x, tuple) else x
            x = encoder.layer_norm(x)[0, :heard]
            x = torch.nn.functional.pad(x, (0, 0, 0, -heard % stacked))
            rows.append(projector(x.reshape(-1, stacked * WIDTH)))
    rows = torch.cat(rows)
    write(TARGET / "ultravox", "ultravox", (encoder, projector), 64, {"projector.stack_factor": stacked})
    write_floats(TARGET / "ultravox/rows.f32", rows)
    print(f"ultravox: rows {tuple(rows.shape)} {rows.std():.3f}")


def text_model():
    """Made from the golden Llama's tensors and keys, half as wide."""
    golden = GGUFReader(TARGET.parent / "golden/llama/model.gguf")
    writer = GGUFWriter(TARGET / "text.gguf", "llama")
    sizes = {"llama.block_count": 1, "llama.embedding_length": 64, "llama.attention.head_count": 2,
             "llama.attention.head_count_kv": 1, "general.name": "tiny-text"}  # fmt: skip
    for key, field in golden.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        value = sizes.get(key, field.contents())
        if field.types[0] == GGUFValueType.ARRAY:
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, field.types[0])
    random = np.random.default_rng(3)
    for tensor in golden.tensors:
        if tensor.name.startswith("blk.") and not tensor.name.startswith("blk.0."):
            continue
        shape = [64 if size == 128 else int(size) for size in reversed(tensor.shape)]
        if "attn_k." in tensor.name or "attn_v." in tensor.name:
            shape[0] = 32
        vector = len(shape) == 1
        values = torch.from_numpy(random.standard_normal(shape).astype(np.float32) * np.float32(0.2))
        values = np.ones(shape, np.float32) if vector else coarse(values).numpy().astype(np.float16)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    packed_data.unpack()
    TARGET.mkdir(parents=True, exist_ok=True)
    parts = list(parts_of(make_audio()))
    write_floats(TARGET / "mels.f32", parts[0].input_features[0].T)
    voxtral(parts)
    qwen2a(parts)
    ultravox(parts)
    text_model()
    packed_data.pack_folder(TARGET)
