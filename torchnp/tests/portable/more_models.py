"""Twelve more small models, with other architectures than those in `torchnp.tests.portable.models`."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


class ConvNeXt(nn.Module):
    """Depthwise 7x7 convolutions, layer norm with channels last, a scale for each channel."""

    def __init__(self, d=16):
        super().__init__()
        self.stem = nn.Conv2d(3, d, 4, 4)
        self.depthwise = nn.Conv2d(d, d, 7, padding=3, groups=d)
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.gamma = nn.Parameter(torch.full((d,), 0.1))
        self.head = nn.Linear(d, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        x = x + (self.gamma * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        return self.head(F.normalize(x.mean((-2, -1)), dim=-1))


class DenseNet(nn.Module):
    """Each layer gets the results of all layers before it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(3 + 4 * i) for i in range(3)])
        self.transition = nn.Conv2d(15, 8, 1)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = torch.cat([x, layer(F.relu(norm(x)))], 1)
        x = F.avg_pool2d(self.transition(x), 3, 2, 1, count_include_pad=False)
        return F.adaptive_max_pool2d(x, 1).flatten(1), F.adaptive_avg_pool2d(x, (3, 2))


class ShuffleNet(nn.Module):
    """Grouped convolutions and a shuffle of channels."""

    def __init__(self, c=12, groups=3):
        super().__init__()
        self.groups = groups
        self.a = nn.Conv2d(c, c, 1, groups=groups)
        self.b = nn.Conv2d(c, c, 3, 2, 1, groups=c)

    def forward(self, x):
        y = F.channel_shuffle(F.relu6(self.a(x)), self.groups)
        return F.hardtanh(self.b(y)) * F.max_pool2d(x, 3, 2, 1)


class EncoderDecoder(nn.Module):
    """torch's own transformer: self attention, cross attention, a causal mask."""

    def __init__(self):
        super().__init__()
        self.t = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)

    def forward(self, source, target):
        mask = torch.full((target.shape[1], target.shape[1]), -math.inf).triu(1)
        return self.t(source, target, tgt_mask=mask, tgt_is_causal=True)


class Recurrence(nn.Module):
    """A selective state space: a recurrence over time, written as a loop."""

    def __init__(self, d=8, n=4):
        super().__init__()
        self.a = nn.Parameter(torch.rand(d, n) + 0.5)
        self.step, self.b, self.c = nn.Linear(d, d), nn.Linear(d, n), nn.Linear(d, n)

    def forward(self, x):
        step, b, c = F.softplus(self.step(x)), self.b(x), self.c(x)
        state = x.new_zeros(x.shape[0], x.shape[2], self.a.shape[1])
        rows = []
        for i in range(x.shape[1]):
            decay = torch.exp(-step[:, i, :, None] * self.a)
            state = torch.addcmul(decay * state, step[:, i, :, None] * x[:, i, :, None], b[:, i, None])
            rows.append(torch.einsum("bdn,bn->bd", state, c[:, i]))
        return torch.stack(rows, 1)


class PointNet(nn.Module):
    """A learned rotation of points, and the largest features of all points."""

    def __init__(self):
        super().__init__()
        self.t, self.f = nn.Conv1d(3, 9, 1), nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.h = nn.Linear(16, 4)

    def forward(self, x):
        turn = self.t(x).amax(-1).view(-1, 3, 3) + torch.eye(3)
        features, at = self.f(torch.bmm(turn, x)).max(-1)
        return self.h(features).log_softmax(-1), at


class Swin(nn.Module):
    """Attention in shifted windows, with a bias by relative position."""

    def __init__(self, d=8, w=2):
        super().__init__()
        self.w, self.qkv = w, nn.Linear(d, 3 * d)
        self.table = nn.Parameter(torch.randn((2 * w - 1) ** 2, 2))
        at = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        gap = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + w - 1
        self.register_buffer("index", gap[..., 0] * (2 * w - 1) + gap[..., 1])

    def forward(self, x):
        n, h, w, d = x.shape
        s = self.w
        x = torch.roll(x, (-1, -1), (1, 2))
        x = x.view(n, h // s, s, w // s, s, d).permute(0, 1, 3, 2, 4, 5).reshape(-1, s * s, d)
        q, k, v = self.qkv(x).view(-1, s * s, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(s * s, s * s, 2).permute(2, 0, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None]).transpose(1, 2).reshape(-1, s, s, d)
        y = y.view(n, h // s, w // s, s, s, d).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, d)
        return torch.roll(y, (1, 1), (1, 2))


class Generator(nn.Module):
    """Transposed convolutions that make an image from noise."""

    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8),
            nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3, padding="same"), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z):
        return self.m(z[:, :, None, None])


class CrossAttention(nn.Module):
    """Latents attend to inputs, some of which are masked."""

    def __init__(self, d=16):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(3, d))
        self.a = nn.MultiheadAttention(d, 2, batch_first=True)

    def forward(self, x, lengths):
        hidden = torch.arange(x.shape[1]) >= lengths[:, None]
        q = self.latents.expand(x.shape[0], -1, -1)
        y, weights = self.a(q, x, x, key_padding_mask=hidden)
        return F.layer_norm(y, (y.shape[-1],)), weights.argmax(-1)


class Cells(nn.Module):
    """Cells of recurrent layers, called step by step."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(6, 8), nn.GRUCell(8, 8)

    def forward(self, x):
        h = c = g = x.new_zeros(x.shape[0], 8)
        for row in x.unbind(1):
            h, c = self.lstm(row, (h, c))
            g = self.gru(h, g)
        return g, c.clamp(-1, 1)


class Radiance(nn.Module):
    """Volume rendering: encoded positions, and the remaining light along a ray."""

    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origin, direction):
        t = torch.linspace(0.1, 2, 12)
        p = origin[:, None] + direction[:, None] * t[:, None]
        waves = p[..., None] * 2.0 ** torch.arange(4)
        y = self.m(torch.cat([waves.sin(), waves.cos()], -1).flatten(-2))
        alpha = 1 - torch.exp(-F.softplus(y[..., 3]) * torch.diff(t, prepend=t.new_zeros(1)))
        left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
        weights = alpha * left
        return (weights[..., None] * y[..., :3].sigmoid()).sum(1), (weights * t).sum(1)


class Recommender(nn.Module):
    """Embeddings of categories, and products of all pairs of features."""

    def __init__(self, d=8):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(20, d, padding_idx=0) for _ in range(3)])
        self.bottom, self.top = nn.Linear(5, d), nn.Linear(d + 6, 1)

    def forward(self, x, categories):
        x = F.relu(self.bottom(x))
        vectors = torch.stack([x, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        i, j = torch.tril_indices(4, 4, -1)
        pairs = torch.bmm(vectors, vectors.mT)[:, i, j]
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1))).squeeze(-1)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


MORE = {
    "convnext": (ConvNeXt, lambda: (r(4, 3, 16, 16),), True),
    "densenet": (DenseNet, lambda: (r(4, 3, 9, 9),), True),
    "shufflenet": (ShuffleNet, lambda: (r(4, 12, 8, 8),), True),
    "encoderdecoder": (EncoderDecoder, lambda: (r(4, 5, 16), r(4, 6, 16)), True),
    "recurrence": (Recurrence, lambda: (r(4, 6, 8),), True),
    "pointnet": (PointNet, lambda: (r(4, 3, 12),), True),
    "swin": (Swin, lambda: (r(4, 4, 4, 8),), True),
    "generator": (Generator, lambda: (r(4, 8),), True),
    "crossattention": (CrossAttention, lambda: (r(4, 7, 16), torch.tensor([7, 3, 5, 1])), True),
    "cells": (Cells, lambda: (r(4, 5, 6),), True),
    "radiance": (Radiance, lambda: (r(4, 3), r(4, 3)), True),
    "recommender": (Recommender, lambda: (r(4, 5), torch.randint(0, 20, (4, 3))), True),
}
"""For each model its class, its arguments, and whether their first dimension is a dynamic batch."""
