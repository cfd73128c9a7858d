#!/usr/bin/env python3
"""make_onnx_data.py: tests/data/onnx, small nets as torch.onnx.export writes them, with random weights. Needs the
packages onnx, onnxscript and torch.

NAME.onnx is of the exporter that torch has now, with sizes that are symbols; NAME_static.onnx has numbers instead."""
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "onnx"


class Pictures(nn.Module):
    """Convolutions of all kinds, between norms and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.Hardswish(), nn.Conv2d(8, 16, 1))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.SiLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid())
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.LeakyReLU(0.1), nn.Upsample(scale_factor=2, mode="bilinear"))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 8 * 8, 10))

    def forward(self, x):
        y = self.deep(self.stem(x))
        y = self.up(y * self.gate(y))
        return self.head(nn.functional.avg_pool2d(y, 8)), y[:, :, ::7, 1:-1:9]


class Block(nn.Module):
    """A decoder's layer, with positions, a causal mask and a head whose matrix is the table of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, ids):
        b, t = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(t))
        q, k, v = (one.view(b, t, 4, 8).transpose(1, 2) for one in self.qkv(self.norm1(x)).chunk(3, -1))
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(~seen, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, 32)
        x = x + self.out(y)
        x = x + self.mlp(self.norm2(x))
        return x @ self.tokens.weight.T


class Encoder(nn.Module):
    """torch's own layer, over patches of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)

    def forward(self, x):
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.first.expand(x.shape[0], -1, -1), rows], 1)
        return self.layer(rows)[:, 0]


class Attention(nn.Module):
    """scaled_dot_product_attention of grouped heads, and a norm by the mean square."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(32, 32, bias=False), nn.Linear(32, 16), nn.Linear(32, 16)
        self.norm = nn.RMSNorm(32)

    def forward(self, x):
        b, t, _ = x.shape
        y = self.norm(x)
        q, k, v = (make(y).view(b, t, -1, 8).transpose(1, 2) for make in (self.q, self.k, self.v))
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + made.transpose(1, 2).flatten(2)


class Signals(nn.Module):
    """A signal's convolutions, and recurrent cells in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.listen = nn.Sequential(nn.Conv1d(4, 16, 5, 2, 2), nn.ELU(), nn.Conv1d(16, 16, 3, padding=2, dilation=2))
        self.lstm = nn.LSTM(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(24, 10, batch_first=True)

    def forward(self, x):
        y, (h, _) = self.lstm(self.listen(x).transpose(1, 2))
        z, _ = self.gru(y)
        return z, h


def main() -> None:
    batch, time = Dim("batch", min=1, max=8), Dim("time", min=2, max=32)
    ids = torch.randint(0, 50, (2, 7))
    cases = {
        "pictures": (Pictures(), torch.randn(2, 3, 64, 64), {0: batch}),
        "block": (Block(), ids, {0: batch, 1: time}),
        "encoder": (Encoder(), torch.randn(2, 3, 16, 16), {0: batch}),
        "attention": (Attention(), torch.randn(2, 6, 32), {0: batch, 1: time}),
        "signals": (Signals(), torch.randn(3, 4, 40), None),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (net, x, symbols) in cases.items():
        torch.manual_seed(7)
        for one in net.parameters():
            nn.init.normal_(one, std=0.2)
        for one in net.modules():
            if isinstance(one, nn.BatchNorm2d):
                nn.init.normal_(one.running_mean), nn.init.uniform_(one.running_var, 0.5, 2.0)
        net.eval()
        for suffix, dims in (("", symbols), ("_static", None)):
            if suffix == "" and symbols is None:
                continue
            torch.onnx.export(net, (x,), str(FOLDER / f"{name}{suffix}.onnx"), input_names=["x"], dynamo=True, external_data=False,
                              verbose=False, **({"dynamic_shapes": (dims,)} if dims else {}))  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
