#!/usr/bin/env python3
"""Makes tests/data/vision: make_vision_data.py [FAMILY...] (default: all).

It has tiny vision models (mmproj files as llama.cpp's converter writes them) with random weights, and the outputs of
transformers for an image. It also has images resized by Pillow. For each family, tests/data/convert_vision/FAMILY is
the folder that transformers saves, without the language model's weights.

FAMILY/mmproj.gguf is the model and pixels.rgb the image (48 x 48; for Pixtral and Qwen 40 x 48). rows.f32 has the rows
for the language model. Gemma 3 and Qwen also have prompt.json, a prompt with the image (its positions are -1). Their
logits.f32 has the logits of a model of tests/data/golden for that prompt, after every position. Needs the packages
gguf, numpy, pillow, torch and transformers.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFWriter
from PIL import Image

import packed_data
from coarse import coarse, reference_bytes

DATA = Path(__file__).parent.parent / "tests/data"
TARGET = DATA / "vision"
SIDE, PATCH, WIDTH, N_EMBD = 48, 4, 32, 96
VISION = dict(hidden_size=WIDTH, intermediate_size=80, num_hidden_layers=2, num_attention_heads=2, image_size=SIDE,
              patch_size=PATCH, hidden_act="gelu_pytorch_tanh")
LAYER = {"layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}
WHOLE = {"embeddings.patch_embedding": "v.patch_embd", "embeddings.position_embedding": "v.position_embd",
         "post_layernorm": "v.post_ln"}
# Tensors of the language model, in GGUF and in transformers.
TEXT_LAYER = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
              "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
              "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_q": "self_attn.q_proj",
              "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
              "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def randomise(module):
    """Every value fits F16; what starts as a constant gets values of its own."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.dim() == 1:
                base = 1.0 if "norm" in name and name.endswith("weight") and "soft_emb" not in name else 0.0
                weight.copy_(base + 0.3 * torch.randn_like(weight))
            else:
                weight.copy_(torch.randn_like(weight) * (0.5 if "position" in name else 0.15))
            weight.copy_(coarse(weight))


def text_weights():
    reader = GGUFReader(DATA / "golden/gemma3/model.gguf")
    for tensor in reader.tensors:
        data = torch.from_numpy(np.array(tensor.data).astype(np.float32))
        if "norm" in tensor.name:
            data = data - 1.0
        if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name):
            yield f"layers.{match[1]}.{TEXT_LAYER[match[2]]}.weight", data
        else:
            yield {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}[tensor.name], data


def start_file(folder, projector, name, side=SIDE, activation="gelu", eps=1e-6, depth=2, n_embd=N_EMBD):
    writer = GGUFWriter(folder / "mmproj.gguf", "clip")
    writer.add_type("mmproj")
    writer.add_name(name)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", projector)
    if activation:
        writer.add_bool(f"clip.use_{activation}", True)
    for key, value in {"image_size": side, "patch_size": PATCH, "embedding_length": WIDTH, "feed_forward_length": 80,
                       "block_count": depth, "attention.head_count": 2, "projection_dim": n_embd}.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", eps)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    return writer


def add_encoder(writer, tower):
    for name, weight in tower.named_parameters():
        name = re.sub(r"^vision_model\.", "", name)
        data = weight.detach().numpy()
        stem, tail = name.rsplit(".", 1)
        if match := re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)", stem):
            new = f"v.blk.{match[1]}.{LAYER[match[2]]}.{tail}"
        elif stem in WHOLE:
            new = f"{WHOLE[stem]}.{tail}"
        else:
            continue  # The head of the classifier.
        half = data.ndim == 2 and "position" not in new
        writer.add_tensor(new, data.astype(np.float16 if half else np.float32))


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def keep_folder(name, model, **pictures):
    """What `weft convert --mmproj` reads, with the names that transformers gives the tensors."""
    folder = DATA / "convert_vision" / name
    folder.mkdir(parents=True, exist_ok=True)
    parts = ("vision_tower.", "visual.", "vision_model.", "multi_modal_projector.", "connector.")
    weights = {key: weight.half() for key, weight in model.state_dict().items() if any(part in key for part in parts)}
    model.save_pretrained(folder, state_dict=weights)
    (folder / "generation_config.json").unlink(missing_ok=True)
    pictures = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3} | pictures
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures) + "\n")


def write_floats(path, values):
    path.write_bytes(reference_bytes(values.detach().numpy()))


def make_pixels(folder, width=SIDE):
    pixels = np.random.default_rng(7).integers(0, 256, (SIDE, width, 3), dtype=np.uint8)
    (folder / "pixels.rgb").write_bytes(pixels.tobytes())
    return torch.from_numpy((pixels.astype(np.float32) / 255.0 - 0.5) / 0.5).permute(2, 0, 1)[None]


def gemma3():
    folder = TARGET / "gemma3"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(17)
    n_rows = (SIDE // PATCH // 4) ** 2
    text = dict(vocab_size=512, hidden_size=N_EMBD, intermediate_size=192, num_hidden_layers=8, num_attention_heads=4,
                num_key_value_heads=1, head_dim=32, query_pre_attn_scalar=32, sliding_window=16, max_position_embeddings=256,
                rms_norm_eps=1e-6, pad_token_id=0)
    image_token = 511
    config = transformers.Gemma3Config(text_config=text, vision_config=VISION, mm_tokens_per_image=n_rows,
                                       image_token_id=image_token, attn_implementation="eager")
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    language = model.model.language_model
    missing = language.load_state_dict(dict(text_weights()), strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    assert not [key for key in missing.missing_keys if "rotary" not in key], missing.missing_keys
    model.tie_weights()
    projector = model.model.multi_modal_projector
    randomise(model.model.vision_tower)
    randomise(projector)

    ids = json.loads((DATA / "golden/gemma3/tokens.json").read_text())
    known = np.fromfile(DATA / "golden/gemma3/logits.f32", "<f4").reshape(len(ids), -1)
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    error = ((found - known) ** 2).sum() / (known ** 2).sum()
    assert error < 1e-9, f"the text model is another one: {error}"

    writer = start_file(folder, "gemma3", "tiny-gemma3-vision")
    add_encoder(writer, model.model.vision_tower)
    writer.add_tensor("mm.input_projection.weight", projector.mm_input_projection_weight.detach().numpy().astype(np.float16))
    writer.add_tensor("mm.soft_emb_norm.weight", (projector.mm_soft_emb_norm.weight.detach().numpy() + 1.0))
    finish(writer)
    keep_folder("gemma3", model)

    values = make_pixels(folder)
    with torch.no_grad():
        rows = projector(model.model.vision_tower(pixel_values=values).last_hidden_state)[0]
        # The image twice, with tokens before, between and after.
        places = ids[:5] + [-1] * n_rows + ids[5:12] + [-1] * n_rows + ids[12:20]
        tokens = torch.tensor([[image_token if i < 0 else i for i in places]])
        kinds = (tokens == image_token).long()
        logits = model(input_ids=tokens, pixel_values=torch.cat([values, values]), token_type_ids=kinds).logits[0]
    write_floats(folder / "rows.f32", rows)
    write_floats(folder / "logits.f32", logits)
    (folder / "prompt.json").write_text(json.dumps(places) + "\n")
    print(f"gemma3: rows {tuple(rows.shape)} {rows.std():.3f}, logits {logits.std():.3f}, error of the text {error:.1e}")


def idefics3():
    """The image is enlarged four times, so that it is cut into tiles."""
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
    folder = TARGET / "idefics3"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(18)
    config = transformers.Idefics3Config(vision_config=VISION, scale_factor=2, text_config=dict(
        model_type="llama", vocab_size=512, hidden_size=N_EMBD, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4))
    model = transformers.Idefics3Model(config).eval()
    randomise(model.vision_model)
    randomise(model.connector)

    writer = start_file(folder, "idefics3", "tiny-idefics3-vision")
    writer.add_uint32("clip.vision.projector.scale_factor", 2)
    writer.add_uint32("clip.vision.preproc_image_size", 2 * SIDE)
    add_encoder(writer, model.vision_model)
    writer.add_tensor("mm.model.fc.weight", model.connector.modality_projection.proj.weight.detach().numpy().astype(np.float16))
    finish(writer)
    whole = transformers.Idefics3ForConditionalGeneration(config)
    whole.model = model
    keep_folder("idefics3", whole, size={"longest_edge": 2 * SIDE})

    make_pixels(folder)
    pixels = np.fromfile(folder / "pixels.rgb", np.uint8).reshape(SIDE, SIDE, 3)
    processor = Idefics3ImageProcessorPil(size={"longest_edge": 2 * SIDE}, max_image_size={"longest_edge": SIDE})
    tiles = processor(Image.fromarray(pixels), return_tensors="pt").pixel_values
    with torch.no_grad():
        rows = torch.cat(list(model.get_image_features(tiles).pooler_output))
    write_floats(folder / "rows.f32", rows)
    print(f"idefics3: tiles {tuple(tiles.shape)}, rows {tuple(rows.shape)} {rows.std():.3f}")


def pixtral():
    """The kind that merges squares of patches; the image is higher than wide."""
    folder = TARGET / "pixtral"
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(19)
    vision = dict(model_type="pixtral", hidden_size=WIDTH, intermediate_size=80, num_hidden_layers=2, num_attention_heads=2,
                  head_dim=WIDTH // 2, image_size=2 * SIDE, patch_size=PATCH, hidden_act="silu")
    config = transformers.Mistral3Config(vision_config=vision, spatial_merge_size=2, vision_feature_layer=-1, text_config=dict(
        model_type="mistral", vocab_size=512, hidden_size=N_EMBD, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, rms_norm_eps=1e-5), attn_implementation="eager")
    model = transformers.Mistral3Model(config).eval()
    randomise(model.vision_tower)
    randomise(model.multi_modal_projector)

    writer = start_file(folder, "pixtral", "tiny-pixtral-vision", side=2 * SIDE, activation="silu", eps=1e-5)
    writer.add_uint32("clip.vision.spatial_merge_size", 2)
    names = {"attention_norm": "ln1", "ffn_norm": "ln2", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k",
             "attention.v_proj": "attn_v", "attention.o_proj": "attn_out", "feed_forward.gate_proj": "ffn_gate",
             "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down"}
    whole = {"patch_conv": "v.patch_embd", "ln_pre": "v.pre_ln", "norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2",
             "patch_merger.merging_layer": "mm.patch_merger"}
    for module in (model.vision_tower, model.multi_modal_projector):
        for name, weight in module.named_parameters():
            stem, tail = name.rsplit(".", 1)
            data = weight.detach().numpy()
            match = re.fullmatch(r"transformer\.layers\.(\d+)\.(.+)", stem)
            if match and re.search(r"[qk]_proj", stem):  # Neighbours turn, in files.
                data = data.reshape(2, 2, data.shape[0] // 4, -1).swapaxes(1, 2).reshape(data.shape)
            new = f"v.blk.{match[1]}.{names[match[2]]}" if match else whole[stem]
            writer.add_tensor(f"{new}.{tail}", np.ascontiguousarray(data).astype(np.float16 if data.ndim == 2 else np.float32))
    finish(writer)
    whole = transformers.Mistral3ForConditionalGeneration(config)
    whole.model = model
    keep_folder("pixtral", whole)

    values = make_pixels(folder, width=40)
    with torch.no_grad():
        rows = model.get_image_features(values, image_sizes=torch.tensor([[48, 40]])).pooler_output
    rows = torch.cat(list(rows))
    write_floats(folder / "rows.f32", rows)
    print(f"pixtral: rows {tuple(rows.shape)} {rows.std():.3f}")


# Tensors of Qwen's encoders, in GGUF.
QWEN_LAYER = {"norm1": "ln1", "norm2": "ln2", "attn.q": "attn_q", "attn.k": "attn_k", "attn.v": "attn_v",
              "attn.qkv": "attn_qkv", "attn.proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
              "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down", "mlp.gate_proj": "ffn_gate",
              "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
QWEN_WHOLE = {"pos_embed": "v.position_embd", "merger.ln_q": "v.post_ln", "merger.norm": "v.post_ln",
              "merger.mlp.0": "mm.0", "merger.mlp.2": "mm.2", "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2",
              "patch_embed.proj": "v.patch_embd"}
QWEN_TEXT = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm",
             "attn_k_norm": "self_attn.k_norm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "token_embd": "embed_tokens", "output_norm": "norm"}


def qwen_tensors(tower, fused):
    """The encoder's tensors as its files have them: frames apart and, unless `fused`, queries, keys and values."""
    taps = getattr(tower, "deepstack_visual_indexes", [])
    for name, weight in tower.named_parameters():
        data = weight.detach().numpy()
        stem, tail = name.rsplit(".", 1)
        if match := re.fullmatch(r"deepstack_merger_list\.(\d+)\.(?:linear_)?(\w+)", stem):
            yield f"v.deepstack.{taps[int(match[1])]}.{match[2]}.{tail}", data
        elif match := re.fullmatch(r"blocks\.(\d+)\.(.+)", stem):
            if match[2] == "attn.qkv" and not fused:
                for part, rows in zip("qkv", np.split(data, 3)):
                    yield f"v.blk.{match[1]}.attn_{part}.{tail}", rows
            else:
                yield f"v.blk.{match[1]}.{QWEN_LAYER[match[2]]}.{tail}", data
        elif data.ndim == 5:
            yield "v.patch_embd.weight", data[:, :, 0]
            yield "v.patch_embd.weight.1", data[:, :, 1]
        else:
            yield f"{QWEN_WHOLE[stem]}.{tail}", data


def load_text(model, golden):
    """The weights of the golden language model."""
    known = {}
    for tensor in GGUFReader(DATA / f"golden/{golden}/model.gguf").tensors:
        data = torch.from_numpy(np.array(tensor.data).astype(np.float32))
        stem, tail = tensor.name.rsplit(".", 1)
        if tensor.name == "output.weight":
            model.lm_head.weight.data.copy_(data)
        elif match := re.fullmatch(r"blk\.(\d+)\.(\w+)", stem):
            known[f"layers.{match[1]}.{QWEN_TEXT[match[2]]}.{tail}"] = data
        else:
            known[f"{QWEN_TEXT[stem]}.{tail}"] = data
    missing = model.model.language_model.load_state_dict(known, strict=False)
    assert not missing.unexpected_keys and not missing.missing_keys, missing


def qwen(name, golden, kind, sections, vision, meta, projector, fused=False, **text):
    """Rows, and logits of a prompt with two images, at all positions, which have three axes."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    folder = TARGET / name
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(20)
    width, depth, image_token = 64, vision["depth"], 511
    text = dict(vocab_size=512, hidden_size=width, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6, pad_token_id=0,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections},
                tie_word_embeddings=False) | text
    config = getattr(transformers, kind + "Config")(
        text_config=text, vision_config=dict(num_heads=2, patch_size=PATCH, spatial_merge_size=2) | vision,
        image_token_id=image_token, attn_implementation="eager")
    model = getattr(transformers, kind + "ForConditionalGeneration")(config).eval().float()
    load_text(model, golden)
    randomise(model.model.visual)

    ids = json.loads((DATA / f"golden/{golden}/tokens.json").read_text())
    known = np.fromfile(DATA / f"golden/{golden}/logits.f32", "<f4").reshape(len(ids), -1)
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    error = ((found - known) ** 2).sum() / (known ** 2).sum()
    assert error < 1e-9, f"the text model is another one: {error}"

    writer = start_file(folder, projector, f"tiny-{name}-vision", activation=meta.pop("activation", None), depth=depth,
                        n_embd=width)
    for key, value in meta.items():
        (writer.add_array if isinstance(value, list) else writer.add_uint32)(f"clip.vision.{key}", value)
    for tensor, data in qwen_tensors(model.model.visual, fused):
        half = data.ndim in (2, 4) and "position" not in tensor
        writer.add_tensor(tensor, np.ascontiguousarray(data).astype(np.float16 if half else np.float32))
    finish(writer)
    keep_folder(name, model)

    make_pixels(folder, width=40)
    pixels = np.fromfile(folder / "pixels.rgb", np.uint8).reshape(SIDE, 40, 3)
    processor = Qwen2VLImageProcessorPil(patch_size=PATCH, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                         size={"shortest_edge": 256, "longest_edge": 81920})
    values = processor(Image.fromarray(pixels), return_tensors="pt")
    grid = values.image_grid_thw
    n_rows = int(grid.prod()) // 4
    with torch.no_grad():
        seen = model.model.visual(values.pixel_values, grid_thw=grid)
        rows = torch.cat([seen.pooler_output, *getattr(seen, "deepstack_features", [])], dim=-1)
        places = ids[:5] + [-1] * n_rows + ids[5:12] + [-1] * n_rows + ids[12:20]
        tokens = torch.tensor([[image_token if i < 0 else i for i in places]])
        logits = model(input_ids=tokens, pixel_values=torch.cat([values.pixel_values] * 2),
                       image_grid_thw=torch.cat([grid] * 2), mm_token_type_ids=(tokens == image_token).int()).logits[0]
    write_floats(folder / "rows.f32", rows)
    write_floats(folder / "logits.f32", logits)
    (folder / "prompt.json").write_text(json.dumps(places) + "\n")
    print(f"{name}: grid {grid.tolist()}, rows {tuple(rows.shape)} {rows.std():.3f}, logits {logits.std():.3f}, "
          f"error of the text {error:.1e}")


def qwen2vl():
    qwen("qwen2vl", "qwen2vl", "Qwen2VL", [2, 3, 3],
         dict(depth=2, embed_dim=WIDTH, hidden_size=64, mlp_ratio=2, hidden_act="quick_gelu"), {}, "qwen2vl_merger")


def qwen25vl():
    """Windows of 2 x 2 rows in layers 0 and 2."""
    qwen("qwen25vl", "qwen2vl", "Qwen2_5_VL", [2, 3, 3],
         dict(depth=4, hidden_size=WIDTH, intermediate_size=80, out_hidden_size=64, hidden_act="silu", window_size=16,
              fullatt_block_indexes=[1, 3]),
         {"n_wa_pattern": 2, "window_size": 16, "activation": "silu"}, "qwen2.5vl_merger")


def qwen3vl():
    """The table of positions is larger than the image's lines, and as large as its columns."""
    qwen("qwen3vl", "qwen3vl", "Qwen3VL", [4, 2, 2],
         dict(depth=3, hidden_size=WIDTH, intermediate_size=80, out_hidden_size=64, num_position_embeddings=144,
              deepstack_visual_indexes=[0, 1]),
         {"spatial_merge_size": 2, "is_deepstack_layers": [True, True, False], "activation": "gelu"}, "qwen3vl_merger",
         fused=True, num_hidden_layers=3, head_dim=16)


def pictures():
    folder = TARGET / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    x, y = np.meshgrid(np.arange(40), np.arange(30))
    rng = np.random.default_rng(3)
    pixels = np.stack([x * 6, y * 8, (x + y) * 3], axis=-1) + rng.integers(-20, 20, (30, 40, 3))
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    picture.save(folder / "photo.png")
    (folder / "photo.rgb").write_bytes(picture.tobytes())
    picture.save(folder / "photo.jpg", quality=92)
    (folder / "photo.jpg.rgb").write_bytes(Image.open(folder / "photo.jpg").tobytes())
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(folder / "turned.jpg", quality=92, exif=exif)
    clear = picture.convert("RGBA")
    clear.putalpha(Image.fromarray((np.indices((30, 40)).sum(0) % 2 * 255).astype(np.uint8)))
    clear.save(folder / "clear.png")
    for name, how in {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}.items():
        for width, height in [(16, 16), (64, 50), (7, 45)]:
            (folder / f"{name}-{width}x{height}.rgb").write_bytes(picture.resize((width, height), how).tobytes())


if __name__ == "__main__":
    packed_data.unpack()
    for make in (pictures, gemma3, idefics3, pixtral, qwen2vl, qwen25vl, qwen3vl):
        if make.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            make()
            if make is not pictures:
                packed_data.pack_folder(TARGET / make.__name__)
                packed_data.pack_folder(DATA / "convert_vision" / make.__name__)
