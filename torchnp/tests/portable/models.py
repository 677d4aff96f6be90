"""Small models of many kinds, which the tests of portable programs export."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from torchnp.tests.portable.more_models import MORE


class MLP(nn.Module):
    """Linear layers, ReLU and GELU."""

    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.l(x)


class Block(nn.Module):
    """A residual block."""

    def __init__(self, i, o, st=1):
        super().__init__()
        self.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.b1 = nn.BatchNorm2d(o)
        self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(o)
        self.d = (
            nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if st > 1 or i != o else nn.Identity()
        )

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + self.d(x))


class ResNet(nn.Module):
    """Residual convolutions and a pool."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.b = nn.Sequential(Block(16, 16), Block(16, 32, 2), Block(32, 64, 2))
        self.p = nn.AdaptiveAvgPool2d(1)
        self.f = nn.Linear(64, 10)

    def forward(self, x):
        return self.f(torch.flatten(self.p(self.b(self.stem(x))), 1))


class Mobile(nn.Module):
    """Depthwise convolutions, squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
            nn.Conv2d(16, 16, 3, 1, 1, groups=16),
            nn.ReLU6(),
            nn.Conv2d(16, 32, 1),
            nn.SiLU(),
            nn.AvgPool2d(2),
            nn.Conv2d(32, 32, 3, padding=2, dilation=2),
            nn.LeakyReLU(0.1),
        )
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(32, 8, 1), nn.ReLU(), nn.Conv2d(8, 32, 1), nn.Hardsigmoid()
        )

    def forward(self, x):
        x = self.m(x)
        return (x * self.se(x)).mean((2, 3))


class ViT(nn.Module):
    """Patches and attention."""

    def __init__(self, d=64, n=17):
        super().__init__()
        self.p = nn.Conv2d(3, d, 8, 8)
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, n, d) * 0.02)
        self.e = nn.ModuleList([TransformerBlock(d, 4) for _ in range(2)])
        self.n = nn.LayerNorm(d)
        self.h = nn.Linear(d, 10)

    def forward(self, x):
        x = self.p(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for b in self.e:
            x = b(x)
        return self.h(self.n(x)[:, 0])


class TransformerBlock(nn.Module):
    """A transformer's block."""

    def __init__(self, d, h, causal=False):
        super().__init__()
        self.h = h
        self.c = causal
        self.n1 = nn.LayerNorm(d)
        self.n2 = nn.LayerNorm(d)
        self.q = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.m = nn.Sequential(
            nn.Linear(d, 4 * d), nn.GELU(approximate="tanh" if causal else "none"), nn.Linear(4 * d, d)
        )

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.q(self.n1(x)).reshape(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.c).transpose(1, 2).reshape(B, T, D)
        x = x + self.o(y)
        return x + self.m(self.n2(x))


class GPT(nn.Module):
    """A causal language model."""

    def __init__(self, d=64, v=128, t=32):
        super().__init__()
        self.w = nn.Embedding(v, d)
        self.p = nn.Embedding(t, d)
        self.b = nn.ModuleList([TransformerBlock(d, 4, True) for _ in range(2)])
        self.n = nn.LayerNorm(d)
        self.h = nn.Linear(d, v, bias=False)

    def forward(self, i):
        x = self.w(i) + self.p(torch.arange(i.shape[1], device=i.device))
        for b in self.b:
            x = b(x)
        return self.h(self.n(x))


class Llama(nn.Module):
    """RMSNorm, rotary embeddings, SwiGLU, a mask."""

    def __init__(self, d=64, v=100, h=4):
        super().__init__()
        self.d = d
        self.h = h
        self.e = nn.Embedding(v, d)
        self.n = nn.RMSNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.g = nn.Linear(d, 2 * d, bias=False)
        self.w2 = nn.Linear(d, d, bias=False)
        f = 1 / 10000 ** (torch.arange(0, d // h, 2).float() / (d // h))
        self.register_buffer("f", f)

    def rot(self, x, c, sn):
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * sn, b * c + a * sn], -1)

    def forward(self, i):
        x = self.e(i)
        B, T, D = x.shape
        ang = torch.outer(torch.arange(T).float(), self.f)
        c, sn = ang.cos(), ang.sin()
        y = self.n(x)
        q = self.q(y).view(B, T, self.h, -1).transpose(1, 2)
        k, v = self.kv(y).view(B, T, 2, self.h, -1).unbind(2)
        k = k.transpose(1, 2)
        v = v.transpose(1, 2)
        q = self.rot(q, c, sn)
        k = self.rot(k, c, sn)
        m = torch.full((T, T), float("-inf")).triu(1)
        a = (q @ k.transpose(-1, -2)) / (D // self.h) ** 0.5 + m
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)
        x = x + self.o(y)
        g, u = self.g(self.n(x)).chunk(2, -1)
        return x + self.w2(F.silu(g) * u)


class LSTM(nn.Module):
    """Two bidirectional layers."""

    def __init__(self):
        super().__init__()
        self.r = nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)
        self.f = nn.Linear(64, 5)

    def forward(self, x):
        return self.f(self.r(x)[0][:, -1])


class GRU(nn.Module):
    """One layer, whose state is a result."""

    def __init__(self):
        super().__init__()
        self.r = nn.GRU(16, 32, 1, batch_first=True)
        self.f = nn.Linear(32, 5)

    def forward(self, x):
        y, h = self.r(x)
        return self.f(y.mean(1)), h


class UNet(nn.Module):
    """Convolutions down and up."""

    def __init__(self):
        super().__init__()
        c = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())
        self.d1, self.d2, self.m = c(3, 16), c(16, 32), c(32, 32)
        self.u = nn.ConvTranspose2d(32, 16, 2, 2)
        self.c = c(32, 16)
        self.o = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        b = self.m(b)
        return torch.sigmoid(self.o(self.c(torch.cat([a, self.u(b)], 1))))


class UNetUp(nn.Module):
    """Resampling and padding."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        y = F.interpolate(F.elu(self.a(x)), scale_factor=2, mode="bilinear", align_corners=False)
        y = F.interpolate(y, scale_factor=0.5, mode="nearest")
        return F.pixel_shuffle(self.b(F.pad(y, (1, 1, 1, 1), value=0.5)).repeat(1, 4, 1, 1), 2)


class Conv1d(nn.Module):
    """1-d convolutions, ELU, softplus, pools."""

    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv1d(4, 16, 5, padding=2),
            nn.ELU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 16, 3, dilation=2),
            nn.Softplus(),
            nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
            nn.Linear(64, 3),
        )

    def forward(self, x):
        return F.log_softmax(self.m(x), -1)


class Conv3d(nn.Module):
    """3-d convolutions."""

    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv3d(1, 4, 3, padding=1),
            nn.BatchNorm3d(4),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(4, 8, 3),
            nn.InstanceNorm3d(8),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.m(x).amax((2, 3, 4))


class FFTNet(nn.Module):
    """Fourier transforms."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 17, dtype=torch.complex64) * 0.1)
        self.l = nn.Linear(32, 32)

    def forward(self, x):
        f = torch.fft.rfft(x, norm="ortho") * self.w
        return self.l(torch.fft.irfft(f, n=32, norm="ortho")) + torch.fft.fft2(x).real, f.abs()


class MoE(nn.Module):
    """A mixture of experts: topk, scatter, einsum."""

    def __init__(self, d=32, e=4):
        super().__init__()
        self.g = nn.Linear(d, e)
        self.w1 = nn.Parameter(torch.randn(e, d, 64) * 0.1)
        self.w2 = nn.Parameter(torch.randn(e, 64, d) * 0.1)
        self.e = e

    def forward(self, x):
        p = self.g(x).softmax(-1)
        v, i = p.topk(2, -1)
        v = v / v.sum(-1, keepdim=True)
        g = torch.zeros_like(p).scatter(-1, i, v)
        h = F.silu(torch.einsum("bd,edf->ebf", x, self.w1))
        return torch.einsum("ebf,efd,be->bd", h, self.w2, g)


class Einsum(nn.Module):
    """Einsum, tensordot, cumsum."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 8, 8))
        self.b = nn.Parameter(torch.randn(8, 16))

    def forward(self, x, y):
        t = torch.einsum("bhqd,bhkd->bhqk", x, y)
        u = torch.einsum("bhqk,hkl->bhql", t, self.a)
        w = torch.einsum("bhql,lm->bqhm", u, self.b)
        return torch.tensordot(w, self.b, ([3], [1])).cumsum(1), torch.einsum("bii->b", t[:, 0])


class Diffusion(nn.Module):
    """A diffusion block: group norm, attention, embeddings of time."""

    def __init__(self, c=32):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(32, c), nn.SiLU(), nn.Linear(c, 2 * c))
        self.n = nn.GroupNorm(8, c)
        self.c1 = nn.Conv2d(4, c, 3, padding=1)
        self.c2 = nn.Conv2d(c, c, 3, padding=1)
        self.a = nn.MultiheadAttention(c, 4, batch_first=True)
        self.o = nn.Conv2d(c, 4, 3, padding=1)

    def forward(self, x, t):
        f = torch.exp(-torch.arange(16) * (9.2 / 16))
        e = t[:, None].float() * f[None]
        e = self.t(torch.cat([e.sin(), e.cos()], -1))
        sc, sh = e.chunk(2, 1)
        h = self.c1(x)
        h = self.c2(F.silu(self.n(h) * (1 + sc[:, :, None, None]) + sh[:, :, None, None])) + h
        B, C, H, W = h.shape
        z = h.flatten(2).transpose(1, 2)
        z = z + self.a(z, z, z, need_weights=False)[0]
        return self.o(z.transpose(1, 2).reshape(B, C, H, W))


class GNN(nn.Module):
    """Messages along edges: index, index_add, scatter_reduce."""

    def __init__(self):
        super().__init__()
        self.m = nn.Linear(32, 16)
        self.u = nn.Linear(32, 16)

    def forward(self, x, e):
        src, dst = e[0], e[1]
        m = F.relu(self.m(torch.cat([x[src], x[dst]], -1)))
        a = torch.zeros_like(x).index_add(0, dst, m)
        d = torch.zeros(x.shape[0]).scatter_add(0, dst, torch.ones(dst.shape[0]))
        mx = torch.zeros_like(x).scatter_reduce(0, dst[:, None].expand(-1, 16), m, "amax")
        return self.u(torch.cat([x, a / d.clamp(min=1)[:, None]], -1)) + mx


class Detection(nn.Module):
    """Boxes, topk, gather."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(8, 8, 3, padding=1)
        self.k = nn.Conv2d(8, 5, 1)
        self.b = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        h = F.relu(self.c(x))
        k = self.k(h).flatten(2).transpose(1, 2).sigmoid()
        b = self.b(h).flatten(2).transpose(1, 2)
        ys, xs = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        an = torch.stack([xs, ys], -1).reshape(-1, 2)
        ctr = an + b[..., :2]
        wh = b[..., 2:].exp()
        bx = torch.cat([ctr - wh / 2, ctr + wh / 2], -1).clamp(0, 8)
        sc, cl = k.max(-1)
        top, ix = sc.topk(10, 1)
        bb = bx.gather(1, ix[..., None].expand(-1, -1, 4))
        lt = torch.maximum(bb[:, :, None, :2], bb[:, None, :, :2])
        rb = torch.minimum(bb[:, :, None, 2:], bb[:, None, :, 2:])
        inter = (rb - lt).clamp(min=0).prod(-1)
        return bb, top, cl.gather(1, ix), inter


class DataDependent(nn.Module):
    """Sizes that depend on values."""

    def forward(self, x):
        k = x.sum(-1) > 0
        return x[k], torch.nonzero(k)


class VAE(nn.Module):
    """A variational autoencoder draws random numbers."""

    def __init__(self):
        super().__init__()
        self.e = nn.Linear(32, 16)
        self.d = nn.Linear(8, 32)

    def forward(self, x):
        m, l = self.e(x).chunk(2, -1)
        z = m + torch.exp(0.5 * l) * torch.randn_like(m)
        return torch.sigmoid(self.d(z)), -0.5 * (1 + l - m**2 - l.exp()).sum(-1).mean()


class BatchNormTraining(nn.Module):
    """Batch norm in training writes its statistics."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 16)
        self.b = nn.BatchNorm1d(16)

    def forward(self, x):
        return F.dropout(self.b(self.l(x)), 0.0)


class Losses(nn.Module):
    """Losses."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(16, 7)

    def forward(self, x, t):
        return (
            F.cross_entropy(self.l(x), t, label_smoothing=0.1),
            F.smooth_l1_loss(x, x.flip(1)),
            F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
        )


class Inplace(nn.Module):
    """Writes to parts of an array and to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(4, 8))

    def forward(self, x):
        y = x.clone()
        y[:, 1:3] = 0
        y[0] += 1
        y.view(-1)[::2].mul_(2)
        self.h.add_(y[:4])
        return y + self.h.sum()


class Stats(nn.Module):
    """Statistics."""

    def forward(self, x):
        v, i = x.sort(-1, descending=True)
        return (
            v,
            i,
            x.std(0),
            x.var(1, correction=0),
            x.argmax(-1),
            x.logsumexp(-1),
            x.norm(dim=1),
            torch.where(x > 0, x, -x).cumsum(-1),
            x.median(-1).values,
            x.roll(2, 1),
            x.tril(),
            (x > 0).any(1),
        )


class Linalg(nn.Module):
    """Linear algebra."""

    def forward(self, x):
        a = x @ x.mT + torch.eye(4) * 4
        return torch.linalg.solve(a, x), torch.linalg.cholesky(a), torch.linalg.det(a)


class BFloat16(nn.Module):
    """bfloat16."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(32, 32).bfloat16()
        self.n = nn.LayerNorm(32).bfloat16()

    def forward(self, x):
        return F.gelu(self.n(self.l(x)))


class WaveNet(nn.Module):
    """Dilated causal convolutions."""

    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(1, 8, 1)
        self.f = nn.ModuleList([nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(3)])
        self.r = nn.ModuleList([nn.Conv1d(8, 8, 1) for k in range(3)])

    def forward(self, x):
        x = self.i(x)
        o = 0
        for f, r in zip(self.f, self.r):
            a, b = f(F.pad(x, (f.dilation[0], 0))).chunk(2, 1)
            y = r(a.tanh() * b.sigmoid())
            o = o + y
            x = x + y
        return o


class Cond(nn.Module):
    """A branch."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


class Example(NamedTuple):
    """A model's class, its arguments, and whether their first dimension is a dynamic batch."""

    make: Any
    arguments: Any
    batched: bool


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def ri(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


EXAMPLES = {
    "mlp": Example(MLP, lambda: (r(4, 64),), True),
    "resnet": Example(ResNet, lambda: (r(4, 3, 32, 32),), True),
    "mobile": Example(Mobile, lambda: (r(4, 3, 32, 32),), True),
    "vit": Example(ViT, lambda: (r(4, 3, 32, 32),), True),
    "gpt": Example(GPT, lambda: (ri(128, 4, 16),), True),
    "llama": Example(Llama, lambda: (ri(100, 4, 16),), True),
    "lstm": Example(LSTM, lambda: (r(4, 8, 16),), True),
    "gru": Example(GRU, lambda: (r(4, 8, 16),), True),
    "unet": Example(UNet, lambda: (r(4, 3, 16, 16),), True),
    "unetup": Example(UNetUp, lambda: (r(4, 3, 8, 8),), True),
    "conv1d": Example(Conv1d, lambda: (r(4, 4, 32),), True),
    "conv3d": Example(Conv3d, lambda: (r(4, 1, 8, 8, 8),), True),
    "fftnet": Example(FFTNet, lambda: (r(4, 8, 32),), True),
    "moe": Example(MoE, lambda: (r(4, 32),), True),
    "einsum": Example(Einsum, lambda: (r(4, 4, 8, 8), r(4, 4, 8, 8)), True),
    "diffusion": Example(Diffusion, lambda: (r(4, 4, 8, 8), ri(100, 4)), True),
    "gnn": Example(GNN, lambda: (r(10, 16), ri(10, 2, 30)), False),
    "detection": Example(Detection, lambda: (r(4, 8, 8, 8),), True),
    "datadep": Example(DataDependent, lambda: (r(8, 4),), False),
    "vae": Example(VAE, lambda: (r(4, 32),), True),
    "bntrain": Example(BatchNormTraining, lambda: (r(8, 16),), False),
    "losses": Example(Losses, lambda: (r(4, 16).abs(), ri(7, 4)), True),
    "inplace": Example(Inplace, lambda: (r(4, 8),), False),
    "stats": Example(Stats, lambda: (r(4, 6),), True),
    "linalg": Example(Linalg, lambda: (r(3, 4, 4),), True),
    "bf16": Example(BFloat16, lambda: (r(4, 32).bfloat16(),), True),
    "wavenet": Example(WaveNet, lambda: (r(4, 1, 32),), True),
    "cond": Example(Cond, lambda: (r(4, 4),), False),
}
EXAMPLES |= {name: Example(*made) for name, made in MORE.items()}
