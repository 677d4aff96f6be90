"""Models exported for the tests of the runtime, each with its arguments and its dynamic sizes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from torchnp.tests.interop import models

BATCH = Dim("batch", min=2, max=64)


class UNet3d(nn.Module):
    """3-d convolutions down and up, with group norm and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.LeakyReLU(0.1))
        self.down = nn.Sequential(nn.MaxPool3d(2), nn.Conv3d(4, 8, 3, padding=1), nn.ELU())
        self.up = nn.ConvTranspose3d(8, 4, 2, stride=2)
        self.last = nn.Conv3d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.first(x)
        return self.last(torch.cat([skip, self.up(self.down(skip))], 1))


class Attention(nn.Module):
    """Causal attention over a cache that the caller owns and the program writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor, *, cache: dict[str, Tensor]) -> dict[str, Any]:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        cache["k"].copy_(k)
        cache["v"].add_(v)
        y = F.scaled_dot_product_attention(q, cache["k"], cache["v"], is_causal=True)
        return {"y": self.out(y.transpose(1, 2).flatten(2)), "last": [k[..., -1, :], (v.mean(),)]}


class Tied(nn.Module):
    """A language model of one block, whose embedding is also its head, with a lifted constant and a counter of its
    calls."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = torch.tensor([1.5, -1.0, 2.0, 0.5, 1.0, 3.0])
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        x = self.embedding(tokens) * self.scale + torch.tensor(0.25)
        return self.head(F.rms_norm(x, (6,))).log_softmax(-1), self.calls + 0


class GRU(nn.Module):
    """A recurrent net with a dynamic batch, so that its first state is made from a size."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 5, 2, bidirectional=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.rnn(x)


class Experts(nn.Module):
    """A mixture of experts: a gate selects the best two."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 6)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.gate(x).softmax(-1).topk(2)
        weights = torch.zeros(x.shape[0], 4).scatter(1, chosen, weight)
        return sum(weights[:, i, None] * expert(x) for i, expert in enumerate(self.experts))


class Fourier(nn.Module):
    """A filter of the frequencies of the last dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=8)


class Messages(nn.Module):
    """Message passing over a list of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        sums = torch.zeros(nodes.shape[0], 6).index_add(0, edges[1], self.other(nodes)[edges[0]])
        return F.gelu(self.own(nodes) + sums, approximate="tanh")


class Pyramid(nn.Module):
    """Convolutions in channels-last memory, resampling, padding, pooling and bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1, padding_mode="reflect").to(
            memory_format=torch.channels_last
        )
        self.fine = nn.Conv2d(6, 6, 3, groups=3).bfloat16()

    def forward(self, x: Tensor) -> list[Tensor]:
        y = F.hardswish(self.conv(x.contiguous(memory_format=torch.channels_last)))
        z = F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        return [F.avg_pool2d(z, 2), F.adaptive_max_pool2d(z, (2, 3)), self.fine(y.bfloat16())]


class StateSpace(nn.Module):
    """A linear recurrence by a scan of cumulative sums."""

    def __init__(self) -> None:
        super().__init__()
        self.rate, self.mix = nn.Parameter(torch.rand(5)), nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        decay = torch.exp(-self.rate * steps)
        return self.mix(torch.cumsum(x / decay, 1) * decay).tanh()


class Sizes(nn.Module):
    """Arithmetic with sizes, an integer argument, fixed arguments, gradients switched off, and results that are
    numbers."""

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], k: int, mode: str = "mean", extra: None = None) -> tuple:
        n = x.shape[0]
        with torch.no_grad():
            y = x.new_ones((n * 3) // 2).to(torch.float64) * float("inf")
        return y, x.new_ones(n + 1, k), pair[1] - pair[0].sum() * n, (n, 2 * n - 1, None, 3)


class Lookup(nn.Module):
    """Sizes that depend on values, with assertions about them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.max().item()
        torch._check(n >= 2)
        torch._check(n < 10)
        return torch.zeros(n, 3), x.nonzero()


class Exported(NamedTuple):
    """A model with its arguments for the export, its dynamic sizes, and a second batch of another size."""

    model: Callable[[], nn.Module]
    args: Callable[[], tuple]
    kwargs: Callable[[], dict] = dict
    dynamic: Any = None
    more: Callable[[], tuple] | None = None
    train: bool = False


def _small(name: str) -> Exported:
    return Exported(lambda: models.build(name, torch.float32)[0], lambda: (models.build(name, torch.float32)[1],))


def _cache() -> dict[str, Any]:
    return {"cache": {"k": torch.zeros(2, 2, 5, 4), "v": torch.ones(2, 2, 5, 4)}}


def _residual() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


AUTO = Dim.AUTO
CASES = {
    **{name: _small(name) for name in models.CASES},
    "unet3d": Exported(UNet3d, lambda: (torch.randn(1, 1, 4, 6, 4),)),
    "attention": Exported(Attention, lambda: (torch.randn(2, 5, 8),), _cache),
    "tied": Exported(Tied, lambda: (torch.randint(11, (3, 4)),)),
    "gru": Exported(GRU, lambda: (torch.randn(3, 4, 4),), dynamic=({1: BATCH},), more=lambda: (torch.randn(3, 7, 4),)),
    "experts": Exported(
        Experts, lambda: (torch.randn(5, 6),), dynamic=({0: BATCH},), more=lambda: (torch.randn(9, 6),)
    ),
    "fourier": Exported(Fourier, lambda: (torch.randn(2, 3, 8),)),
    "messages": Exported(Messages, lambda: (torch.randn(5, 4), torch.randint(5, (2, 9)))),
    "pyramid": Exported(Pyramid, lambda: (torch.randn(2, 3, 8, 10),)),
    "state space": Exported(StateSpace, lambda: (torch.randn(2, 6, 5),)),
    "encoder": Exported(
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: (torch.randn(2, 3, 8),)
    ),
    "training": Exported(
        _residual,
        lambda: (torch.randn(5, 4),),
        dynamic=({0: BATCH},),
        more=lambda: (torch.randn(8, 4),),
        train=True,
    ),
    "sizes": Exported(
        Sizes,
        lambda: (torch.randn(4, 3), (torch.randn(2), torch.randn(4)), 3, "mean", None),
        dynamic=({0: BATCH}, ({}, {0: BATCH}), Dim.DYNAMIC, None, None),
        more=lambda: (torch.randn(6, 3), (torch.randn(2), torch.randn(6)), 5, "mean", None),
    ),
    "lookup": Exported(Lookup, lambda: (torch.tensor([3, 4, 0]),), dynamic=({0: AUTO},)),
}


def export(name: str) -> torch.export.ExportedProgram:
    """Return the exported program of a case, the same each time."""
    torch.manual_seed(7)
    case = CASES[name]
    model = case.model().train(case.train)
    return torch.export.export(model, case.args(), case.kwargs(), dynamic_shapes=case.dynamic)


def archive(program: torch.export.ExportedProgram) -> io.BytesIO:
    """Return the bytes that ``torch.export.save`` writes."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return file
