#!/usr/bin/env python3
"""make_gpt2_folder.py FOLDER: a tiny GPT-2 with random weights as transformers saves it, with outputs of transformers.
The file expected.json has prompts, their tokens, and the most probable tokens after them. The file logits.f32 has the
logits after each token of the prompts. tests/data/gpt2 was made with it, by transformers 5.23 and torch 2.15.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

TEXTS = ["The sea is wide, isn't it?  Twelve ships of 1897 say so.", "Über den Dächern:\n\n\tno words", "a"]
CORPUS = ["The sea is wide and the ships are small; it isn't the wind that they fear, it's the rocks. " * 3,
          "In 1897 twelve words were said over the roofs of the old town, and nobody heard them. " * 3, *TEXTS]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"],
        show_progress=False))
    tokenizer.save(str(folder / "tokenizer.json"))

    torch.manual_seed(16)
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=64, n_embd=32, n_layer=2, n_head=4,
                        bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.1 if name.endswith("bias") else 0.3
            centre = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            parameter.copy_((centre + scale * torch.randn_like(parameter)).half().float())
        model.half().save_pretrained(folder)  # Loses nothing.
        model.float()
        ids = [tokenizer.encode(text).ids for text in TEXTS]
        logits = [model(torch.tensor([row])).logits[0].numpy() for row in ids]
        written = [model.generate(torch.tensor([row]), max_new_tokens=16, do_sample=False,
                                  attention_mask=torch.ones(1, len(row)))[0][len(row):].tolist() for row in ids]
    np.concatenate(logits).astype("<f4").tofile(folder / "logits.f32")
    (folder / "generation_config.json").unlink(missing_ok=True)
    expected = {"texts": TEXTS, "ids": ids, "written": written}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
