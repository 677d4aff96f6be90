"""Five small models in torch.nn, each with a batch and a loss, which together use what ordinary training uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Linear layers with layer norm, two activations and dropout."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(12, 24),
            nn.LayerNorm(24),
            nn.ReLU(),
            nn.Dropout(p),
            nn.Linear(24, 16),
            nn.GELU(),
            nn.Linear(16, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class CNN(nn.Module):
    """Convolutions (plain, strided, depthwise) with batch norm, max pooling and a residual sum."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 1, bias=False)
        )
        self.down = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.SiLU()
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(p), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.body(x)
        return self.head(self.down(x))


class Transformer(nn.Module):
    """Embedded tokens with sinusoidal positions, two encoder layers, mean over the tokens that are not padding."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=p, batch_first=True, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        padding = tokens == 0
        width = self.embedding.embedding_dim
        weight = self.embedding.weight
        angle = torch.arange(tokens.shape[1], dtype=weight.dtype)[:, None] * torch.exp(
            torch.arange(0, width, 2, dtype=weight.dtype) * (-math.log(1000.0) / width)
        )
        position = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        x = self.encoder(self.embedding(tokens) * math.sqrt(width) + position, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        return self.head((x * keep).sum(1) / keep.sum(1))


class LSTM(nn.Module):
    """A bidirectional LSTM with two layers; its last step is classified."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.rnn = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=p)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        out, (h, _) = self.rnn(x)
        return self.head(out[:, -1] + torch.cat([h[-2], h[-1]], dim=1))


class BagOfWords(nn.Module):
    """Embeddings, masked mean and max, and two linear layers."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 10, padding_idx=0)
        self.hidden = nn.Linear(20, 16)
        self.out = nn.Linear(16, 5)
        self.drop = nn.Dropout(p)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != 0).unsqueeze(-1)
        x = self.embedding(tokens)
        mean = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
        top = x.masked_fill(~mask, float("-inf")).amax(1)
        return self.out(self.drop(torch.tanh(self.hidden(torch.cat([mean, top], -1)))))


class Case(NamedTuple):
    """A model's class, a function that makes its batch for a dtype, and its loss."""

    model: Callable[[float], nn.Module]
    batch: Callable[[torch.dtype], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]


def tokens(_: torch.dtype) -> Tensor:
    ids = torch.randint(1, 20, (6, 7))
    ids[::2, 5:] = 0
    return ids


CASES = {
    "mlp": Case(MLP, lambda dtype: torch.randn(6, 12, dtype=dtype), F.cross_entropy),
    "cnn": Case(CNN, lambda dtype: torch.randn(6, 1, 8, 8, dtype=dtype), F.cross_entropy),
    "transformer": Case(Transformer, tokens, F.cross_entropy),
    "lstm": Case(LSTM, lambda dtype: torch.randn(6, 7, 6, dtype=dtype), F.cross_entropy),
    "bag": Case(BagOfWords, tokens, lambda y, t: F.nll_loss(F.log_softmax(y, -1), t)),
}
LABELS = torch.tensor([0, 1, 2, 3, 4, 1])

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p, **kw: torch.optim.SGD(p, lr=0.05, **kw),
    "sgd-momentum": lambda p, **kw: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-2, **kw),
    "sgd-nesterov": lambda p, **kw: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, **kw),
    "adam": lambda p, **kw: torch.optim.Adam(p, lr=1e-2, **kw),
    "adam-amsgrad": lambda p, **kw: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-2, amsgrad=True, **kw),
    "adamw": lambda p, **kw: torch.optim.AdamW(p, lr=1e-2, **kw),
}


def build(name: str, dtype: torch.dtype, p: float = 0.0, *, train: bool = True) -> tuple[nn.Module, Tensor]:
    """Return the model and its batch, the same for the same arguments."""
    torch.manual_seed(7)
    case = CASES[name]
    return case.model(p).to(dtype).train(train), case.batch(dtype)


def step(name: str, model: nn.Module, batch: Tensor) -> Tensor:
    """Return the loss of one forward pass; in training, leave gradients in the parameters."""
    loss = CASES[name].loss(model(batch), LABELS)
    if model.training:
        loss.backward()
    return loss
