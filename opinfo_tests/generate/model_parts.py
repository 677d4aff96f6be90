"""Parts of well-known models in the sizes of their published configurations, for ``--tier large``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..case import Case
from ..schema_facts import all_schemas
from .samples.recording import Recorder
from .task import LARGE, reseed

Layer = Callable[[], torch.Tensor]


def vit_b_block() -> torch.Tensor:
    """Return the output of a ViT-B/16 block: 4 images of 196 patches and a class token, 768 features, 12 heads."""
    layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True, norm_first=True)
    return layer(torch.randn(4, 197, 768, requires_grad=True))


def resnet50_stage() -> torch.Tensor:
    """Return the output of ResNet-50's second stage: two bottlenecks of 512 features on 2 images of 56 x 56."""

    def block(wide: int, narrow: int, out: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(wide, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.Conv2d(narrow, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    shortcut = nn.Sequential(nn.Conv2d(256, 512, 1, 2, bias=False), nn.BatchNorm2d(512))
    images = F.max_pool2d(torch.randn(2, 256, 112, 112, requires_grad=True), 3, 2, 1)
    out = F.relu(block(256, 128, 512, 2)(images) + shortcut(images))
    return F.adaptive_avg_pool2d(F.relu(out + block(512, 128, 512, 1)(out)), 1)


def llama_1b_layer() -> torch.Tensor:
    """Return the output of a Llama 3.2 1B layer: 256 tokens, 2,048 features, 32 heads, 8 keys, gates of 8,192."""
    tokens, heads, shared, width = 256, 32, 8, 64
    x = torch.randn(1, tokens, 2048, requires_grad=True)
    q, k, v, o = (nn.Linear(2048, n * width, bias=False) for n in (heads, shared, shared, heads))
    gate, up, down = (
        nn.Linear(2048, 8192, bias=False),
        nn.Linear(2048, 8192, bias=False),
        nn.Linear(8192, 2048, bias=False),
    )
    angles = torch.outer(torch.arange(tokens), 500_000 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)

    def normal(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        half = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), -1)
        return x * angles.cos() + half * angles.sin()

    def split(linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return linear(x).view(1, tokens, -1, width).transpose(1, 2)

    h = normal(x)
    keys, values = (split(linear, h) for linear in (k, v))
    keys, values = rotated(keys).repeat_interleave(4, 1), values.repeat_interleave(4, 1)
    attended = F.scaled_dot_product_attention(rotated(split(q, h)), keys, values, is_causal=True)
    x = x + o(attended.transpose(1, 2).reshape(1, tokens, 2048))
    h = normal(x)
    return x + down(F.silu(gate(h)) * up(h))


def unet_level() -> torch.Tensor:
    """Return the output of the second level of Stable Diffusion's U-Net: 640 features, 32 x 32, attention."""
    x = torch.randn(1, 640, 32, 32, requires_grad=True)
    h = nn.Conv2d(640, 640, 3, padding=1)(F.silu(nn.GroupNorm(32, 640)(x)))
    h = x + nn.Conv2d(640, 640, 3, padding=1)(F.silu(nn.GroupNorm(32, 640)(h + torch.randn(1, 640, 1, 1))))
    places = nn.LayerNorm(640)(h.flatten(2).transpose(1, 2))
    q, k, v = (nn.Linear(640, 640)(places).view(1, 1024, 8, 80).transpose(1, 2) for _ in range(3))
    attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 1024, 640)
    wide, gate = nn.Linear(640, 5120)(attended).chunk(2, -1)
    h = h + nn.Linear(2560, 640)(wide * F.gelu(gate)).transpose(1, 2).view_as(h)
    return F.interpolate(h, scale_factor=2, mode="nearest")


def ctc_batch() -> torch.Tensor:
    """Return the CTC loss of 16 speech recordings: 500 frames, 32 letters, transcripts of up to 80 letters."""
    scores = torch.randn(500, 16, 32, requires_grad=True).log_softmax(-1)
    lengths = torch.randint(20, 81, (16,))
    return F.ctc_loss(scores, torch.randint(1, 32, (16, 80)), torch.full((16,), 500), lengths)


def embedding_tables() -> torch.Tensor:
    """Return the sum of GPT-2's embedding of 4 x 512 tokens and of an embedding bag with 200,000 rows of 16 numbers."""
    words = F.embedding(torch.randint(0, 50257, (4, 512)), torch.randn(50257, 768, requires_grad=True))
    table = torch.randn(200_000, 16, requires_grad=True)
    bags = F.embedding_bag(torch.randint(0, 200_000, (40_000,)), table, torch.arange(0, 40_000, 20), mode="sum")
    return words.sum() + bags.sum()


def lstm_batch() -> torch.Tensor:
    """Return the output of an LSTM with two layers of 512 features for 16 sequences of 64 steps."""
    return nn.LSTM(512, 512, 2)(torch.randn(64, 16, 512, requires_grad=True))[0]


def segmentation_head() -> torch.Tensor:
    """Return the loss of scores for 21 classes, which are resampled from 64 x 64 to 512 x 512."""
    scores = F.interpolate(torch.randn(1, 21, 64, 64, requires_grad=True), size=(512, 512), mode="bilinear")
    return F.cross_entropy(scores, torch.randint(0, 21, (1, 512, 512)), ignore_index=20)


LAYERS: dict[str, Layer] = {
    f.__name__: f
    for f in (
        vit_b_block, resnet50_stage, llama_1b_layer, unet_level, ctc_batch, embedding_tables, lstm_batch,
        segmentation_head,
    )
}  # fmt: skip


class AsCalled(Recorder):
    """Records calls only under their own names, and not also as their in-place and ``out=`` forms."""

    def see(self, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
        self.calls[name] += 1
        if self.wanted(name):
            self.offer(name, args, kwargs)


def run_layer(name: str, recorder: Recorder, least: int) -> Iterator[None]:
    """Pass the calls of a layer and its gradients on at least ``least`` elements to the sink, each shape once."""
    seen: set[Any] = set()

    def once(case: Case) -> None:
        key = case.op, tuple((a.shape, a.strides) for a in case.arrays())
        if key not in seen and max((a.size for a in case.arrays()), default=0) >= least:
            seen.add(key)
            recorder.sink(case)

    inner = AsCalled(lambda op: recorder.wanted(op) and not all_schemas()[op].is_view, once)
    inner.source, inner.sample_dtype = f"{LARGE}layers/{name}", "float32"
    reseed(name)
    with warnings.catch_warnings(), inner:
        warnings.simplefilter("ignore")
        out = LAYERS[name]()
        out.backward(torch.randn_like(out))
    yield
