"""RWKV-6 (arXiv 2404.05892), RWKV-7 (arXiv 2503.14456) and what put their attention into Qwen's layers, QRWKV-6 (Recursal,
2025) and ARWKV-7 (arXiv 2501.15570), in PyTorch, token by token as the papers' formulas say.

transformers has no class of them. Parameters have the names that GGUF files give their tensors.
"""
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


class Config(SimpleNamespace):
    def __init__(self, **values):
        super().__init__(**(dict(head_size=32, decay_rank=8, rate_rank=12, value_rank=16, gate_rank=20, gated=True, fused=False, mix_rank=12, n_per_halving=0,
                                 num_attention_heads=None, num_key_value_heads=None) | values))


class TimeMix(nn.Module):
    def __init__(self, config, first):
        super().__init__()
        self.config, self.first = config, first
        n, ranks = config.hidden_size, {"w": config.decay_rank, "a": config.rate_rank}
        if not first:
            ranks["v"] = config.value_rank
        self.time_mix_lerp_fused = nn.Parameter(torch.rand(6 if config.gated else 5, 1, 1, n))
        for part, rank in ranks.items():
            setattr(self, f"time_mix_{part}0", nn.Parameter(torch.empty(n)))
            setattr(self, f"time_mix_{part}1", nn.Parameter(torch.empty(rank, n)))
            setattr(self, f"time_mix_{part}2", nn.Parameter(torch.empty(n, rank)))
        if config.gated:
            self.time_mix_g1 = nn.Parameter(torch.empty(config.gate_rank, n))
            self.time_mix_g2 = nn.Parameter(torch.empty(n, config.gate_rank))
        for part in ("k_k", "k_a", "r_k"):
            setattr(self, f"time_mix_{part}", nn.Parameter(torch.empty(n)))
        for part in ("receptance", "key", "value", "output"):
            setattr(self, f"time_mix_{part}", nn.Linear(n, n, bias=False))
        self.time_mix_ln = nn.Module()
        self.time_mix_ln.weight, self.time_mix_ln.bias = nn.Parameter(torch.empty(n)), nn.Parameter(torch.empty(n))

    def low_rank(self, part, x, active=lambda low: low):
        one, two = getattr(self, f"time_mix_{part}1"), getattr(self, f"time_mix_{part}2")
        return getattr(self, f"time_mix_{part}0") + active(x @ one.T) @ two.T

    def forward(self, x, first_values):
        size = self.config.head_size
        heads = x.shape[1] // size
        last = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        mixed = [x + (last - x) * share[0, 0] for share in self.time_mix_lerp_fused]
        r, w, k, v, a = mixed[:5]
        r, k, v = self.time_mix_receptance(r), self.time_mix_key(k), self.time_mix_value(v)
        w = torch.exp(-torch.exp(torch.tensor(-0.5)) * torch.sigmoid(self.low_rank("w", w, torch.tanh)))
        a = torch.sigmoid(self.low_rank("a", a))
        if self.first:
            first_values = v
        else:
            v = v + (first_values - v) * torch.sigmoid(self.low_rank("v", mixed[3]))
        removed = F.normalize((k * self.time_mix_k_k).view(-1, heads, size), dim=-1)
        k = k * (1 + (a - 1) * self.time_mix_k_a)
        r, w, k, a, v_heads = (t.view(-1, heads, size) for t in (r, w, k, a, v))
        state, rows = torch.zeros(heads, size, size), []  # Of a head, value by key.
        for t in range(len(x)):
            change = torch.diag_embed(w[t]) - removed[t][:, :, None] * (a[t] * removed[t])[:, None, :]
            state = state @ change + v_heads[t][:, :, None] * k[t][:, None, :]
            rows.append((state @ r[t][:, :, None])[:, :, 0])
        y = F.group_norm(torch.stack(rows).view(-1, heads * size), heads, self.time_mix_ln.weight, self.time_mix_ln.bias,
                         eps=64e-5)
        own = (r * k * self.time_mix_r_k.view(heads, size)).sum(-1, keepdim=True) * v_heads
        y = y + own.reshape(y.shape)
        if self.config.gated:
            y = y * (torch.sigmoid(mixed[5] @ self.time_mix_g1.T) @ self.time_mix_g2.T)
        return self.time_mix_output(y), first_values


class Layer(TimeMix):
    """A layer of RWKV-7."""

    def __init__(self, config, first):
        super().__init__(config, first)
        n = config.hidden_size
        self.attn_norm, self.attn_norm_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.channel_mix_lerp_k = nn.Parameter(torch.rand(1, 1, n))
        self.channel_mix_key = nn.Linear(n, config.intermediate_size, bias=False)
        self.channel_mix_value = nn.Linear(config.intermediate_size, n, bias=False)

    def forward(self, x, first_values):
        mixed, first_values = super().forward(self.attn_norm(x), first_values)
        x = x + mixed
        normed = self.attn_norm_2(x)
        last = torch.cat([torch.zeros_like(normed[:1]), normed[:-1]])
        k = self.channel_mix_key(normed + (last - normed) * self.channel_mix_lerp_k[0, 0])
        return x + self.channel_mix_value(torch.relu(k) ** 2), first_values


class HybridLayer(TimeMix):
    """A layer of ARWKV-7."""

    def __init__(self, config, first):
        super().__init__(config, first)
        n, n_ff = config.hidden_size, config.intermediate_size
        self.attn_norm, self.ffn_norm = nn.RMSNorm(n, config.rms_norm_eps), nn.RMSNorm(n, config.rms_norm_eps)
        self.ffn_gate, self.ffn_up = nn.Linear(n, n_ff, bias=False), nn.Linear(n, n_ff, bias=False)
        self.ffn_down = nn.Linear(n_ff, n, bias=False)

    def forward(self, x, first_values):
        mixed, first_values = super().forward(self.attn_norm(x), first_values)
        x = x + mixed
        normed = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(normed)) * self.ffn_up(normed)), first_values


class Rwkv7ForCausalLM(nn.Module):
    layer, with_layer_norms = Layer, True

    def __init__(self, config):
        super().__init__()
        self.config = config
        n = config.hidden_size
        self.token_embd = nn.Embedding(config.vocab_size, n)
        if self.with_layer_norms:
            self.token_embd_norm = nn.LayerNorm(n)
        self.layers = nn.ModuleList(self.layer(config, i == 0) for i in range(config.num_hidden_layers))
        self.output_norm = nn.LayerNorm(n) if self.with_layer_norms else nn.RMSNorm(n, config.rms_norm_eps)
        self.output = nn.Linear(n, config.vocab_size, bias=False)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.1)

    def forward(self, ids):
        x, first_values = self.token_embd(ids[0]), None
        if self.with_layer_norms:
            x = self.token_embd_norm(x)
        for layer in self.layers:
            x, first_values = layer(x, first_values)
        return SimpleNamespace(logits=self.output(self.output_norm(x))[None])


class Arwkv7ForCausalLM(Rwkv7ForCausalLM):
    layer, with_layer_norms = HybridLayer, False


class TimeMix6(nn.Module):
    """Of RWKV-6; of QRWKV-6 where `shared` heads share keys and values."""

    def __init__(self, config, shared=0):
        super().__init__()
        self.config, self.shared = config, shared
        n, rank, size = config.hidden_size, config.mix_rank, config.head_size
        self.time_mix_lerp_x = nn.Parameter(torch.rand(1, 1, n))
        if config.fused:
            self.time_mix_lerp_fused = nn.Parameter(torch.rand(5, 1, 1, n))
        else:
            for part in "wkvrg":
                setattr(self, f"time_mix_lerp_{part}", nn.Parameter(torch.rand(1, 1, n)))
        self.time_mix_w1 = nn.Parameter(torch.empty(5 * rank, n))
        self.time_mix_w2 = nn.Parameter(torch.empty(5, n, rank))
        self.time_mix_decay = nn.Parameter(torch.empty(n))
        self.time_mix_decay_w1 = nn.Parameter(torch.empty(config.decay_rank, n))
        self.time_mix_decay_w2 = nn.Parameter(torch.empty(n, config.decay_rank))
        n_kv = n // (shared or 1)
        for part, n_out in {"receptance": n, "key": n_kv, "value": n_kv, "gate": n, "output": n}.items():
            setattr(self, f"time_mix_{part}", nn.Linear(n, n_out, bias=bool(shared) and part not in ("gate", "output")))
        if not shared:
            self.time_mix_first = nn.Parameter(torch.empty(n // size, size))
            self.time_mix_ln = nn.Module()
            self.time_mix_ln.weight, self.time_mix_ln.bias = nn.Parameter(torch.empty(n)), nn.Parameter(torch.empty(n))

    def mixed(self, x):
        away = torch.cat([torch.zeros_like(x[:1]), x[:-1]]) - x
        low = torch.tanh((x + away * self.time_mix_lerp_x[0]) @ self.time_mix_w1.T).view(len(x), 5, -1)
        own = (self.time_mix_lerp_fused[:, 0, 0] if self.config.fused else
               torch.cat([getattr(self, f"time_mix_lerp_{part}")[0] for part in "wkvrg"]))
        return [x + away * (own[i] + low[:, i] @ self.time_mix_w2[i].T) for i in range(5)]

    def forward(self, x):
        size = self.config.head_size
        heads = x.shape[1] // size
        w, k, v, r, g = self.mixed(x)
        w = torch.exp(-torch.exp(self.time_mix_decay + torch.tanh(w @ self.time_mix_decay_w1.T) @ self.time_mix_decay_w2.T))
        r, w = self.time_mix_receptance(r).view(-1, heads, size), w.view(-1, heads, size)
        k, v = (part.view(len(x), -1, size).repeat_interleave(self.shared or 1, 1)
                for part in (self.time_mix_key(k), self.time_mix_value(v)))
        g = self.time_mix_gate(g)
        state, rows = torch.zeros(heads, size, size), []  # Of a head, key by value.
        for t in range(len(x)):
            if self.shared:
                state = w[t][:, :, None] * state + (k[t] * (1 - w[t]))[:, :, None] * v[t][:, None, :]
                seen = state * size ** -0.5
            else:
                seen = state + (self.time_mix_first * k[t])[:, :, None] * v[t][:, None, :]
                state = w[t][:, :, None] * state + k[t][:, :, None] * v[t][:, None, :]
            rows.append((r[t][:, None, :] @ seen)[:, 0])
        y = torch.stack(rows).view(-1, heads * size)
        if self.shared:
            return self.time_mix_output(y * torch.sigmoid(g))
        y = F.group_norm(y, heads, self.time_mix_ln.weight, self.time_mix_ln.bias, eps=64e-5)
        return self.time_mix_output(y * F.silu(g))


class Layer6(TimeMix6):
    """A layer of RWKV-6."""

    def __init__(self, config, i):
        super().__init__(config)
        n = config.hidden_size
        self.attn_norm, self.attn_norm_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.channel_mix_lerp_k, self.channel_mix_lerp_r = (nn.Parameter(torch.rand(1, 1, n)) for _ in "kr")
        self.channel_mix_key = nn.Linear(n, config.intermediate_size, bias=False)
        self.channel_mix_value = nn.Linear(config.intermediate_size, n, bias=False)
        self.channel_mix_receptance = nn.Linear(n, n, bias=False)

    def forward(self, x, first_values):
        x = x + super().forward(self.attn_norm(x))
        normed = self.attn_norm_2(x)
        away = torch.cat([torch.zeros_like(normed[:1]), normed[:-1]]) - normed
        k = self.channel_mix_key(normed + away * self.channel_mix_lerp_k[0])
        r = self.channel_mix_receptance(normed + away * self.channel_mix_lerp_r[0])
        return x + torch.sigmoid(r) * self.channel_mix_value(torch.relu(k) ** 2), first_values


class HybridLayer6(TimeMix6):
    """A layer of QRWKV-6."""

    def __init__(self, config, i):
        super().__init__(config, config.hidden_size // config.head_size // config.num_key_value_heads)
        n, n_ff = config.hidden_size, config.intermediate_size
        self.attn_norm, self.ffn_norm = nn.RMSNorm(n, config.rms_norm_eps), nn.RMSNorm(n, config.rms_norm_eps)
        self.ffn_gate, self.ffn_up = nn.Linear(n, n_ff, bias=False), nn.Linear(n, n_ff, bias=False)
        self.ffn_down = nn.Linear(n_ff, n, bias=False)

    def forward(self, x, first_values):
        x = x + super().forward(self.attn_norm(x))
        normed = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(normed)) * self.ffn_up(normed)), first_values


class Rwkv6ForCausalLM(Rwkv7ForCausalLM):
    layer, with_layer_norms = Layer6, True


class Rwkv6Qwen2ForCausalLM(Rwkv7ForCausalLM):
    layer, with_layer_norms = HybridLayer6, False


Rwkv6Config = Rwkv6Qwen2Config = Rwkv7Config = Arwkv7Config = Config
