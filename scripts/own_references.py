"""Decoders in PyTorch that transformers has no class of, as their papers and model cards say.

Parameters have the names that GGUF files give their tensors; a layer is a step of a few lines over what all share.
"""
import copy
from types import SimpleNamespace

import torch
import transformers
from torch import nn
from torch.nn import functional as F


class Config(SimpleNamespace):
    def __init__(self, **values):
        super().__init__(**(dict(rms_norm_eps=1e-6, rope_theta=10000.0, rope="pairs", head_dim=None, num_experts=0) | values))
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads

    def of(self, name, layer):
        """A count that is one for all layers, or a list."""
        value = getattr(self, name)
        return value[layer] if isinstance(value, list) else value


def linear(n_in, n_out):
    layer = nn.Linear(n_in, n_out, bias=False)
    nn.init.normal_(layer.weight, std=0.1)
    return layer


def turned(x, config):
    """Rope over {tokens, heads, dim}."""
    dim = x.shape[-1]
    angles = torch.arange(len(x))[:, None] * config.rope_theta ** (-torch.arange(0, dim, 2) / dim)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if config.rope == "pairs" else x.chunk(2, -1)
    parts = [a * cos - b * sin, b * cos + a * sin]
    return torch.stack(parts, -1).flatten(-2) if config.rope == "pairs" else torch.cat(parts, -1)


class Layer(nn.Module):
    """Llama's; others put in or leave out parts of it."""

    def __init__(self, config, i):
        super().__init__()
        self.config, self.i = config, i
        n, n_ff = config.hidden_size, config.of("intermediate_size", i)
        self.heads, self.kv_heads = config.of("num_attention_heads", i), config.of("num_key_value_heads", i)
        if self.heads:
            self.attn_norm = nn.RMSNorm(n, config.rms_norm_eps)
        if self.kv_heads:
            self.attn_q = linear(n, self.heads * config.head_dim)
            self.attn_k = linear(n, self.kv_heads * config.head_dim)
            self.attn_v = linear(n, self.kv_heads * config.head_dim)
        if self.heads:
            self.attn_output = linear(self.heads * config.head_dim if self.kv_heads else n, n)
        if n_ff:
            self.ffn_norm = nn.RMSNorm(n, config.rms_norm_eps)
            self.ffn_gate, self.ffn_up, self.ffn_down = linear(n, n_ff), linear(n, n_ff), linear(n_ff, n)

    def add_experts(self, activation=F.silu):
        c = self.config
        n, n_ff = c.hidden_size, c.moe_intermediate_size
        self.activation = activation
        self.ffn_gate_inp = linear(n, c.num_experts)
        self.ffn_gate_exps = nn.Parameter(0.1 * torch.randn(c.num_experts, n_ff, n))
        self.ffn_up_exps = nn.Parameter(0.1 * torch.randn(c.num_experts, n_ff, n))
        self.ffn_down_exps = nn.Parameter(0.1 * torch.randn(c.num_experts, n, n_ff))

    def experts(self, x, shares, normalise):
        """The best of each row, by their shares."""
        best = shares.topk(self.config.num_experts_per_tok, dim=-1)
        weights = best.values / best.values.sum(-1, keepdim=True) if normalise else best.values
        gate, up = (torch.einsum("rkfn,rn->rkf", w[best.indices], x) for w in (self.ffn_gate_exps, self.ffn_up_exps))
        down = torch.einsum("rknf,rkf->rkn", self.ffn_down_exps[best.indices], self.activation(gate) * up)
        return (down * weights[..., None]).sum(1)

    def normed_heads(self, q, k):
        return q, k

    def scores(self, q, k):
        """Scores {heads, tokens, tokens} from tokens' heads {tokens, heads, dim}."""
        return torch.einsum("ihd,jhd->hij", q, k) / self.config.head_dim ** 0.5

    def attention(self, x, rope=True, window=None):
        dim, rows = self.config.head_dim, len(x)
        q, k, v = self.attn_q(x), self.attn_k(x), self.attn_v(x)
        q, k, v = q.view(rows, -1, dim), k.view(rows, -1, dim), v.view(rows, -1, dim)
        q, k = self.normed_heads(q, k)
        if rope:
            q, k = turned(q, self.config), turned(k, self.config)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = self.scores(q, k)
        away = torch.arange(rows)[:, None] - torch.arange(rows)[None, :]
        seen = (away >= 0) & (away < (window or rows))
        scores = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.attn_output(torch.einsum("hij,jhd->ihd", scores, v).flatten(1))

    def feed_forward(self, x):
        return self.ffn_down(F.silu(self.ffn_gate(x)) * self.ffn_up(x))

    def forward(self, x):
        x = x + self.attention(self.attn_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Model(nn.Module):
    layer = Layer
    norm = nn.RMSNorm

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab_size, config.hidden_size)
        nn.init.normal_(self.token_embd.weight, std=0.1)
        self.layers = nn.ModuleList(self.layer(config, i) for i in range(config.num_hidden_layers))
        self.output_norm = self.norm(config.hidden_size, config.rms_norm_eps or config.layer_norm_eps)
        self.output = linear(config.hidden_size, config.vocab_size)

    def forward(self, ids):
        x = self.token_embd(ids[0])
        for layer in self.layers:
            x = layer(x)
        return SimpleNamespace(logits=self.output(self.output_norm(x))[None])


class DeepseekLayer(Layer):
    """Experts after the first layers, and shared experts for all rows."""

    def __init__(self, config, i):
        dense = i < config.first_k_dense_replace
        super().__init__(config if dense else Config(**(vars(config) | dict(intermediate_size=0))), i)
        if dense:
            return
        n, n_ff = config.hidden_size, config.n_shared_experts * config.moe_intermediate_size
        self.ffn_norm = nn.RMSNorm(n, config.rms_norm_eps)
        self.add_experts()
        self.ffn_gate_shexp, self.ffn_up_shexp = linear(n, n_ff), linear(n, n_ff)
        self.ffn_down_shexp = linear(n_ff, n)

    def feed_forward(self, x):
        if self.i < self.config.first_k_dense_replace:
            return super().feed_forward(x)
        shared = self.ffn_down_shexp(F.silu(self.ffn_gate_shexp(x)) * self.ffn_up_shexp(x))
        return self.experts(x, self.ffn_gate_inp(x).softmax(-1), False) + shared


class DeciLayer(Layer):
    """A matrix in place of attention, or none; a feed-forward part, or none."""

    def forward(self, x):
        if self.heads:
            normed = self.attn_norm(x)
            x = x + (self.attention(normed) if self.kv_heads else self.attn_output(normed))
        return x + self.feed_forward(self.ffn_norm(x)) if hasattr(self, "ffn_norm") else x


class SmallThinkerLayer(Layer):
    """The router reads the layer's input."""

    def __init__(self, config, i):
        super().__init__(Config(**(vars(config) | dict(intermediate_size=0))), i)
        self.ffn_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.add_experts(torch.relu)

    def forward(self, x):
        shares = self.ffn_gate_inp(x).sigmoid()
        slides = self.i % 4 != 0
        x = x + self.attention(self.attn_norm(x), slides, self.config.sliding_window if slides else None)
        return x + self.experts(self.ffn_norm(x), shares, True)


class GroveMoeLayer(Layer):
    """Norms of heads; the experts of a group share a small one, which joins in for each of them that is chosen."""

    def __init__(self, config, i):
        super().__init__(Config(**(vars(config) | dict(intermediate_size=0))), i)
        self.attn_q_norm = nn.RMSNorm(config.head_dim, config.rms_norm_eps)
        self.attn_k_norm = nn.RMSNorm(config.head_dim, config.rms_norm_eps)
        self.ffn_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.add_experts()
        n, n_ff, chunks = config.hidden_size, config.chunk_intermediate_size, config.num_experts // config.experts_per_group
        self.ffn_gate_chexps = nn.Parameter(0.1 * torch.randn(chunks, n_ff, n))
        self.ffn_up_chexps = nn.Parameter(0.1 * torch.randn(chunks, n_ff, n))
        self.ffn_down_chexps = nn.Parameter(0.1 * torch.randn(chunks, n, n_ff))

    def normed_heads(self, q, k):
        return self.attn_q_norm(q), self.attn_k_norm(k)

    def feed_forward(self, x):
        c, shares = self.config, self.ffn_gate_inp(x).softmax(-1)
        best = shares.topk(c.num_experts_per_tok, dim=-1)
        weights = best.values / best.values.sum(-1, keepdim=True)
        # Of each group the weights of its experts together.
        of_groups = torch.zeros(len(x), len(self.ffn_up_chexps)).scatter_add(1, best.indices // c.experts_per_group, weights)
        small = 0.0
        for i, (gate, up, down) in enumerate(zip(self.ffn_gate_chexps, self.ffn_up_chexps, self.ffn_down_chexps)):
            small = small + of_groups[:, i:i + 1] * F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
        return self.experts(x, shares, True) + c.chunk_scale * small


class ArcticLayer(Layer):
    """Experts in parallel to attention and the feed-forward part."""

    def __init__(self, config, i):
        super().__init__(Config(**(vars(config) | dict(intermediate_size=config.hidden_size))), i)
        self.ffn_norm_exps = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.add_experts()

    def forward(self, x):
        normed = self.ffn_norm_exps(x)
        return super().forward(x) + self.experts(normed, self.ffn_gate_inp(normed).softmax(-1), True)


class OpenElmLayer(Layer):
    """Norms of heads; Q, K and V in one matrix."""

    def __init__(self, config, i):
        super().__init__(config, i)
        self.attn_q_norm = nn.RMSNorm(config.head_dim, config.rms_norm_eps)
        self.attn_k_norm = nn.RMSNorm(config.head_dim, config.rms_norm_eps)

    def normed_heads(self, q, k):
        return self.attn_q_norm(q), self.attn_k_norm(k)


class PlamoLayer(Layer):
    """Both parts read the same row, after one norm."""

    def __init__(self, config, i):
        super().__init__(config, i)
        del self.ffn_norm

    def forward(self, x):
        normed = self.attn_norm(x)
        return x + self.attention(normed) + self.feed_forward(normed)


class JaisLayer(Layer):
    """Layer norms, biases everywhere, ALiBi, and scores that are divided by the length of a head."""

    def __init__(self, config, i):
        super().__init__(config, i)
        for name, part in list(self.named_children()):
            if name.endswith("norm"):
                setattr(self, name, nn.LayerNorm(config.hidden_size, config.layer_norm_eps))
            else:
                part.bias = nn.Parameter(torch.empty(part.out_features))

    def scores(self, q, k):
        rows, heads = torch.arange(len(q)), q.shape[1]
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        return torch.einsum("ihd,jhd->hij", q, k) / q.shape[2] - slopes[:, None, None] * (rows[:, None] - rows)

    def forward(self, x):
        x = x + self.attention(self.attn_norm(x), rope=False)
        return x + self.feed_forward(self.ffn_norm(x))


class GrokLayer(Layer):
    """Norms before and after blocks, capped scores, experts, and in Grok 2 a dense part in parallel to them."""

    def __init__(self, config, i):
        super().__init__(config, i)
        n = config.hidden_size
        self.ffn_norm = nn.RMSNorm(n, config.rms_norm_eps)
        self.attn_output_norm = nn.RMSNorm(n, config.rms_norm_eps)
        setattr(self, config.norm_behind, nn.RMSNorm(n, config.rms_norm_eps))
        self.add_experts(lambda x: F.gelu(x, approximate="tanh"))

    def scores(self, q, k):
        cap = 30.0
        return cap * torch.tanh(torch.einsum("ihd,jhd->hij", q, k) * self.config.attention_scale / cap)

    def forward(self, x):
        c = self.config
        x = x + self.attn_output_norm(self.attention(self.attn_norm(x)))
        normed = self.ffn_norm(x)
        logits = self.ffn_gate_inp(normed)
        if c.router_softcap:
            logits = c.router_softcap * torch.tanh(logits / c.router_softcap)
        out = self.experts(normed, logits.softmax(-1), False)
        if c.intermediate_size:
            beside = self.ffn_down(self.activation(self.ffn_gate(normed)) * self.ffn_up(normed))
            out = (beside + out) * 0.5 ** 0.5
        return x + getattr(self, c.norm_behind)(out)


class Plamo2Layer(Layer):
    """Attention with norms of heads, or a scan with one step of each head; norms before and after both parts."""

    def __init__(self, config, i):
        super().__init__(config, i)
        c, n = config, config.hidden_size
        self.attn_norm = nn.RMSNorm(n, c.rms_norm_eps)
        self.post_attention_norm, self.post_ffw_norm = (nn.RMSNorm(n, c.rms_norm_eps) for _ in range(2))
        if self.heads:
            self.attn_q_norm, self.attn_k_norm = nn.Module(), nn.Module()
            self.attn_q_norm.weight = nn.Parameter(torch.empty(self.heads, c.head_dim))
            self.attn_k_norm.weight = nn.Parameter(torch.empty(self.kv_heads, c.head_dim))
            return
        inner, rank = c.scan_heads * c.scan_dim, max(64, n // 16)
        self.ssm_in = linear(n, 2 * inner)
        self.ssm_conv1d = nn.Conv1d(inner, inner, c.taps, groups=inner, padding=c.taps - 1, bias=False)
        self.ssm_x = linear(inner, 2 * c.scan_state + rank)
        self.ssm_b_norm, self.ssm_c_norm = (nn.RMSNorm(c.scan_state, c.rms_norm_eps) for _ in range(2))
        self.ssm_dt_norm = nn.RMSNorm(rank, c.rms_norm_eps)
        self.ssm_dt = nn.Linear(rank, c.scan_heads)
        self.ssm_a, self.ssm_d = (nn.Parameter(torch.empty(c.scan_heads)) for _ in range(2))
        self.ssm_out = linear(inner, n)

    def normed_heads(self, q, k):
        def normed(x, weight):
            return F.rms_norm(x, x.shape[-1:], eps=self.config.rms_norm_eps) * weight

        return normed(q, self.attn_q_norm.weight), normed(k, self.attn_k_norm.weight)

    def scan(self, x):
        c, rows = self.config, len(x)
        gate, x = self.ssm_in(x).view(rows, c.scan_heads, 2, c.scan_dim).unbind(2)
        x = F.silu(self.ssm_conv1d(x.reshape(rows, -1).T)[:, :rows].T)
        into, out_of, steps = self.ssm_x(x).split([c.scan_state, c.scan_state, self.ssm_dt.in_features], -1)
        into, out_of = self.ssm_b_norm(into), self.ssm_c_norm(out_of)
        dt = F.softplus(self.ssm_dt(self.ssm_dt_norm(steps)))
        x, state, y = x.view(rows, c.scan_heads, c.scan_dim), torch.zeros(c.scan_heads, c.scan_dim, c.scan_state), []
        for t in range(rows):
            kept = torch.exp(-dt[t] * torch.exp(self.ssm_a))[:, None, None]
            state = kept * state + (dt[t][:, None] * x[t])[:, :, None] * into[t]
            y.append(state @ out_of[t] + self.ssm_d[:, None] * x[t])
        return self.ssm_out((F.silu(gate) * torch.stack(y)).flatten(1))

    def forward(self, x):
        normed = self.attn_norm(x)
        x = x + self.post_attention_norm(self.attention(normed) if self.heads else self.scan(normed))
        return x + self.post_ffw_norm(self.feed_forward(self.ffn_norm(x)))


class NemotronHPuzzleForCausalLM(transformers.NemotronHForCausalLM):
    """Nemotron-H whose layers of experts have widths of their own, and use as many of them as each says."""

    def __init__(self, config):
        super().__init__(config)
        for i, (width, used) in enumerate(zip(config.moe_widths, config.experts_used)):
            if width:
                own = copy.deepcopy(config)
                own.moe_intermediate_size, own.num_experts_per_tok = width, used
                self.model.layers[i].mixer = type(self.model.layers[i].mixer)(own)
        for layer in self.model.layers:
            for weight in layer.mixer.parameters():
                if weight.dim() == 2:
                    nn.init.normal_(weight, std=0.1)


class Step35ForCausalLM(nn.Module):
    """transformers has the language model only within the multimodal one."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = transformers.models.step3p7.modeling_step3p7.Step3p7TextModel(config)
        self.lm_head = linear(config.hidden_size, config.vocab_size)
        for weight in self.model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.1)

    def forward(self, ids):
        return SimpleNamespace(logits=self.lm_head(self.model(input_ids=ids).last_hidden_state))


class GroveMoeForCausalLM(Model):
    layer = GroveMoeLayer


class DeepseekForCausalLM(Model):
    layer = DeepseekLayer


class DeciForCausalLM(Model):
    layer = DeciLayer


class SmallThinkerForCausalLM(Model):
    layer = SmallThinkerLayer


class ArcticForCausalLM(Model):
    layer = ArcticLayer


class OpenElmForCausalLM(Model):
    layer = OpenElmLayer


class PlamoForCausalLM(Model):
    layer = PlamoLayer


class JaisForCausalLM(Model):
    layer, norm = JaisLayer, nn.LayerNorm


class GrokForCausalLM(Model):
    layer = GrokLayer

    def forward(self, ids):
        x = self.token_embd(ids[0]) * self.config.embedding_scale
        for layer in self.layers:
            x = layer(x)
        logits, cap = self.output(self.output_norm(x)) * self.config.logit_scale, self.config.logit_softcap
        return SimpleNamespace(logits=(cap * torch.tanh(logits / cap) if cap else logits)[None])


class Plamo2ForCausalLM(Model):
    layer = Plamo2Layer


Step35Config = transformers.models.step3p7.configuration_step3p7.Step3p7TextConfig
NemotronHPuzzleConfig = transformers.NemotronHConfig
PlamoConfig = Plamo2Config = JaisConfig = GrokConfig = Config
DeepseekConfig = DeciConfig = SmallThinkerConfig = ArcticConfig = OpenElmConfig = GroveMoeConfig = Config
