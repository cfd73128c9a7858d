"""Encoders that transformers has no class of: its BERTs with the parts in which these differ."""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertModel, NomicBertModel


class GatedPart(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)

    def forward(self, x):
        gate, up = self.dense(x).chunk(2, -1)
        return F.gelu(gate) * up


class JinaBertModel(BertModel):
    """Jina's BERT v2 (arXiv 2310.19923): ALiBi both ways, and gates."""

    def __init__(self, config):
        super().__init__(config, add_pooling_layer=False)
        for layer in self.encoder.layer:
            layer.intermediate = GatedPart(config)

    def forward(self, input_ids, **inputs):
        with torch.no_grad():
            self.embeddings.position_embeddings.weight.zero_()
        heads, n = self.config.num_attention_heads, input_ids.shape[1]
        slopes = torch.tensor([2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)])
        away = (torch.arange(n)[:, None] - torch.arange(n)[None, :]).abs()
        return super().forward(input_ids, attention_mask=(-slopes[:, None, None] * away)[None], **inputs)


class Plain(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Experts(nn.Module):
    N, USED = 6, 2

    def __init__(self, config):
        super().__init__()
        self.gate = nn.Linear(config.hidden_size, self.N, bias=False)
        self.up, self.down = nn.Module(), nn.Module()
        self.up.weight = nn.Parameter(torch.empty(self.N, config.intermediate_size, config.hidden_size))
        self.down.weight = nn.Parameter(torch.empty(self.N, config.hidden_size, config.intermediate_size))

    def forward(self, x):
        best = self.gate(x).softmax(-1).topk(self.USED)
        up = F.gelu(torch.einsum("brkfn,brn->brkf", self.up.weight[best.indices], x))
        return (torch.einsum("brknf,brkf->brkn", self.down.weight[best.indices], up) * best.values[..., None]).sum(2)


class NomicBertMoeModel(NomicBertModel):
    """Nomic's BERT v2 (arXiv 2502.07972): experts in every other layer, plain parts in the others."""

    def __init__(self, config):
        super().__init__(config)
        for i, layer in enumerate(self.layers):
            layer.mlp = Experts(config) if i % 2 == 1 else Plain(config)
