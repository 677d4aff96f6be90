"""Compare the time of whole models with torch eager's: ``python scripts/bench_models.py [NAME ...]``.

Both sides run in one process. ``--onnx`` compares with ONNX's evaluator instead.

For inference, `torchnp.load` reads the model and runs it; for training, the step is compiled with the backend
``torchnp``. Rounds alternate. Before each there are an untimed call, and a pause in which idle threads of the other
library's matrix products stop spinning. The script prints the ratios of medians and of minima; below 1, torchnp is
faster than torch. On a machine with other work, ``--cpu --threads 1`` compares processor times with one thread for
each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 2
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)  # set before NumPy starts its threads

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import torchnp  # noqa: E402


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm, whose result is added to the input."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made))
        self.second = nn.Sequential(nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made))
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or given != made:
            self.skip = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.skip(x))


def resnet18() -> nn.Module:
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for g, m, s in widths for b in (Block(g, m, s), Block(m, m, 1))]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Attention(nn.Module):
    """Causal attention with eight heads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class GPT(nn.Module):
    """Four layers of width 256, with a vocabulary of 8,000."""

    def __init__(self, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(8000, width), nn.Embedding(128, width)
        self.attention = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), Attention(width)) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 8000, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for attention, mlp in zip(self.attention, self.mlp):
            x = x + attention(x)
            x = x + mlp(x)
        return self.head(self.norm(x))


class LSTM(nn.Module):
    """Two layers of width 256, over 64 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


INFERENCE: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "ResNet-18 b1": (resnet18, lambda: torch.randn(1, 3, 224, 224)),
    "ResNet-18 b8": (resnet18, lambda: torch.randn(8, 3, 224, 224)),
    "GPT": (GPT, lambda: torch.randint(8000, (2, 128))),
    "LSTM": (LSTM, lambda: torch.randn(8, 64, 128)),
}
MODELS = [*INFERENCE, "MLP step"]
Call = Callable[[], object]


def inference(name: str, exact: bool, rival: str = "torch") -> tuple[Call, Call]:
    """Return the calls of torch (or ONNX's evaluator) and of torchnp, after checking that they give the same."""
    torch.manual_seed(0)
    make, data = INFERENCE[name]
    model, x = make().eval(), data()
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file, torch.no_grad():
        torch.export.save(torch.export.export(model, (x,)), file.name)
        program = torchnp.load(file.name, exact=exact)
        array = x.numpy()
        error = np.abs(program(array) - model(x).numpy()).max()
        assert error < 1e-3, f"{name} is off by {error}"

    def theirs() -> object:
        with torch.no_grad():
            return model(x)

    if rival == "onnx":
        theirs = _evaluated(model, x)
    return theirs, lambda: program(array)


def _evaluated(model: nn.Module, x: Tensor) -> Call:
    """Return a call of the model in ONNX's evaluator, which is written in NumPy."""
    try:
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise SystemExit(f"--onnx compares with onnx.reference: pip install onnx onnxscript ({error})") from None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        torch.onnx.export(model, (x,), f"{folder}/model.onnx", dynamo=True, verbose=False)
        evaluator = ReferenceEvaluator(f"{folder}/model.onnx")
        inputs = {evaluator.input_names[0]: x.numpy()}
        error = np.abs(evaluator.run(None, inputs)[0] - model(x).numpy()).max()
        assert error < 1e-3, f"ONNX's evaluator is off by {error}"
    return lambda: evaluator.run(None, inputs)


def training(exact: bool, backend: str = "torchnp") -> tuple[Call, Call]:
    """Return a training step of an MLP, eager and compiled: forward, backward, and an update with momentum."""

    def step(compiled: bool) -> Call:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        x, labels = torch.randn(128, 256), torch.randint(10, (128,))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def loss() -> Tensor:
            return F.cross_entropy(model(x), labels)

        options = {"exact": exact} if backend == "torchnp" else None
        forward = torch.compile(loss, backend=backend, options=options) if compiled else loss

        def run() -> object:
            optimizer.zero_grad()
            found = forward()
            found.backward()
            optimizer.step()
            return found

        return run

    return step(False), step(True)


def measured(theirs: Call, ours: Call, rounds: int, clock: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Return the seconds of each call, by round."""
    found: tuple[list[float], list[float]] = ([], [])
    for i in range(rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            run = (theirs, ours)[which]
            time.sleep(0.035 if THREADS > 1 else 0)
            run()
            start = clock()
            run()
            found[which].append(clock() - start)
    return found


def bench(
    names: Sequence[str], rounds: int, clock: Callable[[], float], exact: bool = False, backend: str = "torchnp",
    rival: str = "torch",
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Print the times of models; return the ratios of medians and of minima."""
    print(f"{'':14}{f'{rival} ms':>10}{'ours ms':>10}{'ratio':>8}{'of minima':>11}")
    found = {}
    for name in names:
        theirs, ours = training(exact, backend) if name == "MLP step" else inference(name, exact, rival)
        a, b = measured(theirs, ours, rounds, clock)
        middle = [1e3 * statistics.median(x) for x in (a, b)]
        found[name] = middle[1] / middle[0], min(b) / min(a)
        print("{:14}{:10.2f}{:10.2f}{:8.2f}{:11.2f}".format(name, *middle, *found[name]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which models (all): {', '.join(map(repr, MODELS))}")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="of both, in alternation (20)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of each (2)")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine that others use")
    parser.add_argument("--exact", action="store_true", help="run programs with exact=True")
    parser.add_argument(
        "--backend", default="torchnp", metavar="NAME",
        help="of torch.compile; with aot_eager torch's own kernels run behind the same compiler (torchnp)",
    )  # fmt: skip
    parser.add_argument(
        "--onnx", action="store_true",
        help="compare with ONNX's ReferenceEvaluator in place of torch eager, of models that are loaded; needs onnx and onnxscript",
    )  # fmt: skip
    args = parser.parse_args()
    known = [*INFERENCE] if args.onnx else MODELS
    if wrong := [name for name in args.names if name not in known]:
        parser.error(f"no model {wrong[0]!r}; there are {', '.join(map(repr, known))}")
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.cpu else time.perf_counter
    bench(args.names or known, args.rounds, clock, args.exact, args.backend, "onnx" if args.onnx else "torch")


if __name__ == "__main__":
    main()
