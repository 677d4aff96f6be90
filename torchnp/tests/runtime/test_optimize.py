"""Optimized programs give torch's results; with ``exact=True`` they have the same bits as the table's kernels."""

import io

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torchnp
from torchnp.core.target import parse
from torchnp.runtime.fast_conv_pooling import Convolution
from torchnp.tests.runtime import exported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def norm(n):
    made = nn.BatchNorm2d(n)
    made.running_mean.uniform_(-1, 1)
    made.running_var.uniform_(0.5, 2)
    nn.init.uniform_(made.weight)
    nn.init.uniform_(made.bias)
    return made


class Residual(nn.Module):
    """Convolutions of all kinds with batch norm, sums in place and out of place, and pooling to one point."""

    def __init__(self, inplace=False):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), norm(8), nn.ReLU(inplace), nn.MaxPool2d(3, 2, 1))
        self.one = nn.Sequential(nn.Conv2d(8, 128, 1, 2, bias=False), norm(128))
        self.wide = nn.Conv2d(8, 128, (3, 1), 2, (1, 0))
        self.both = nn.Sequential(nn.Conv2d(128, 128, 3, 1, 1, bias=False), norm(128), nn.ReLU(inplace))
        self.inplace, self.head = inplace, nn.Linear(128, 4)

    def forward(self, x):
        x = self.stem(x)
        y = self.one(x)
        y += self.wide(x)
        z = F.relu(self.both(y) + y, self.inplace)
        return self.head(F.adaptive_avg_pool2d(z, 1).flatten(1))


class Shown(nn.Module):
    """Results whose memory layout is visible, and a result that two nodes read."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.grouped = nn.Conv2d(4, 6, 3, padding=1), norm(6), nn.Conv2d(6, 6, 3, groups=2)

    def forward(self, x):
        y = self.conv(x)
        z = self.norm(y)
        return F.relu(y), z, z.flatten(2).transpose(1, 2), F.max_pool2d(z, 2), self.grouped(F.relu(z)) + 1


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, size=7, **options):
        super().__init__()
        self.rnn = kind(5, size, **options)

    def forward(self, x):
        return self.rnn(x)


class Attention(nn.Module):
    """Attention heads with a causal mask, and a layer norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(64), nn.Linear(64, 3 * 64)

    def forward(self, x):
        q, k, v = self.heads(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Constants(nn.Module):
    """Numbers that do not depend on any input; one is written to, and one is returned."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("step", torch.zeros(6))

    def forward(self, x):
        scale = torch.arange(6).float().cos()
        w = (self.weight.T * scale).tril()
        count = torch.zeros(6)
        count += x[0]
        self.step.add_(1)
        return x @ w + self.step, scale.sin(), count


IMAGE = lambda n=2, c=3, h=37, w=34: torch.randn(n, c, h, w)
CASES = {
    "residual": (Residual, lambda: IMAGE()),
    "residual in place": (lambda: Residual(True), lambda: IMAGE(1)),
    "seen": (Shown, lambda: IMAGE(c=4)),
    "channels last": (Shown, lambda: IMAGE(c=4).to(memory_format=torch.channels_last)),
    "gelu": (lambda: nn.Sequential(nn.Linear(6, 99), nn.GELU(), nn.Linear(99, 5), nn.GELU("tanh")), lambda: torch.randn(3, 50, 6)),
    "lstm": (lambda: Recurrent(num_layers=2, bidirectional=True), lambda: torch.randn(6, 3, 5)),
    "lstm of one": (lambda: Recurrent(batch_first=True, bias=False), lambda: torch.randn(1, 4, 5)),
    "lstm projected": (lambda: Recurrent(proj_size=3), lambda: torch.randn(4, 2, 5)),
    "lstm in parts": (lambda: Recurrent(size=256, num_layers=2), lambda: torch.randn(5, 8, 5)),
    "gru": (lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True), lambda: torch.randn(6, 3, 5)),
    "gru of one": (lambda: Recurrent(nn.GRU, batch_first=True, bias=False), lambda: torch.randn(1, 4, 5)),
    "gru in parts": (lambda: Recurrent(nn.GRU, size=256), lambda: torch.randn(5, 8, 5)),
    "attention": (Attention, lambda: torch.randn(2, 150, 64)),
    "doubles": (lambda: Residual().double(), lambda: IMAGE().double()),
    "constants": (Constants, lambda: torch.randn(2, 6)),
}  # fmt: skip


def load(name, decomposed=False, **options):
    torch.manual_seed(0)
    make, data = CASES[name]
    model, x = make().eval(), data()
    program = torch.export.export(model, (x,))
    program = program.run_decompositions() if decomposed else program
    return torchnp.load(exported.archive(program), **options), program.module(), x


def leaves(tree):
    return [y for x in tree for y in leaves(x)] if isinstance(tree, (list, tuple)) else [tree]


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_are_torchs(name, decomposed):
    ours, theirs, x = load(name, decomposed)
    for _ in range(2):  # a second call: tensors written in place must not be kept as constants
        given = x.numpy().copy(order="K")
        with torch.no_grad():
            expected = leaves(theirs(x))
        for found, wanted in zip(leaves(ours(given)), expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(found), wanted, check_stride=True, rtol=1e-5, atol=1e-5)
        assert np.array_equal(given, x.numpy())


class ByTable(torch.fx.Interpreter):
    """Calls the table's kernel for each node of an exported program."""

    def fetch_attr(self, target):
        found = super().fetch_attr(target)
        return found.detach().numpy() if isinstance(found, torch.Tensor) else found

    def call_module(self, target, args, kwargs):
        assert target == "_guards_fn", target

    def call_function(self, target, args, kwargs):
        if isinstance(target, torch._ops.OpOverload):
            target = torchnp.table[target.name()]
        return super().call_function(target, args, kwargs)


@pytest.mark.parametrize("name", CASES)
def test_exact_programs_have_the_bits_of_the_table(name):
    ours, theirs, x = load(name, exact=True)
    called = set()
    found = leaves(ours.run((x.numpy(),), {}, lambda node, seconds: called.add((node.function, node.label))))
    assert called == {(None, "")}
    wanted = leaves(ByTable(theirs).run(x.numpy()))
    assert len(wanted) == len(found) and all(map(np.array_equal, found, wanted))


def functions(name):
    ours, _, x = load(name)
    seen = []
    ours.run((x.numpy(),), {}, lambda node, seconds: seen.append((node.target, node.label, node.function)))
    return seen


def test_neighbours_become_one_call():
    seen = functions("residual")
    assert not [target for target, *_ in seen if target in ("aten::batch_norm", "aten::relu", "aten::relu_")]
    assert [label for _, label, _ in seen if label] == [
        "aten::conv2d batch_norm relu", "aten::conv2d batch_norm", "aten::conv2d batch_norm relu", "aten::add.Tensor relu",
    ]  # fmt: skip
    convolutions = [f for _, _, f in seen if isinstance(f, Convolution)]
    assert [f.channels_last for f in convolutions] == [True] * 4  # their layout is not visible
    convolutions = [f for _, _, f in functions("seen") if isinstance(f, Convolution)]
    assert [f.channels_last for f in convolutions] == [False]
    kept = {target for target, *_ in functions("seen")}
    assert {"aten::batch_norm", "aten::relu", "aten::conv2d"} <= kept  # two nodes read these results


def test_constants_are_computed_once():
    kept = [target for target, *_ in functions("constants")]
    assert "aten::tril" not in kept and "aten::arange" not in kept
    assert {"aten::add_.Tensor", "aten::zeros", "aten::sin"} <= {*kept}  # not constants: written to, or returned


def test_what_training_writes_is_no_constant():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x):
            return self.norm(x) + self.norm.running_mean[:, None, None]

    torch.manual_seed(0)
    model, x = Normed().train(), torch.randn(2, 4, 3, 3)
    ours = torchnp.load(exported.archive(torch.export.export(model, (x,))))
    for _ in range(2):
        torch.testing.assert_close(torch.from_numpy(ours(x.numpy())), model(x).detach(), rtol=1e-5, atol=1e-5)


def test_what_a_large_constant_would_take_is_not_taken():
    class Large(nn.Module):
        def forward(self, x):
            return x + torch.ones(600, 600).sum()

    file = exported.archive(torch.export.export(Large(), (torch.ones(2),)))
    seen = []
    torchnp.load(file).run((np.ones(2, "f4"),), {}, lambda node, seconds: seen.append(node.target))
    assert seen == ["aten::ones", "aten::sum", "aten::add.Tensor"]


def test_arrays_that_are_exchanged_change_the_program():
    ours, theirs, x = load("residual")
    before = ours(x.numpy())
    name = "both.0.weight"
    with pytest.raises(ValueError, match="read-only"):
        ours.state[name][:] = 0
    ours.state[name] = ours.state[name] * 2
    after = ours(x.numpy())
    with torch.no_grad():
        theirs.state_dict()[name].mul_(2)
        torch.testing.assert_close(torch.from_numpy(after), theirs(x), rtol=1e-5, atol=1e-5)
    assert not np.allclose(before, after)


def test_dynamic_sizes():
    torch.manual_seed(0)
    auto = torch.export.Dim.AUTO
    program = torch.export.export(Residual().eval(), (IMAGE(),), dynamic_shapes=({0: auto, 2: auto, 3: auto},))
    ours, theirs = torchnp.load(exported.archive(program)), program.module()
    later = ((3, 3, 64, 40),) if parse(torch.__version__) >= (2, 13) else ()  # torch 2.12 adds a guard against it
    for sizes in ((2, 3, 37, 34), (3, 3, 65, 41), *later):
        x = IMAGE(*sizes)
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(ours(x.numpy())), theirs(x), rtol=1e-5, atol=1e-5)


def test_calls_do_not_grow_the_process():
    import resource

    ours, _, x = load("residual")
    array = x.numpy()
    for _ in range(50):
        ours(array)
    growth = []
    for _ in range(3):  # memory that calls leak grows each time; what other tests left is freed once
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(450):
            ours(array)
        growth.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert min(growth) < 8_000, growth  # KiB


def test_a_compiled_model_can_be_exact():
    from torchnp import compiler

    torch.manual_seed(0)
    x = torch.randn(2, 4, 150, 16)
    model = lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)
    with torch.no_grad():
        torch._dynamo.reset()
        exact = torch.compile(model, backend=compiler.backend, options={"exact": True})(x)
        torch._dynamo.reset()
        quick = torch.compile(model, backend=compiler.backend)(x)
    wanted = torchnp.aten.scaled_dot_product_attention(*[x.numpy()] * 3, is_causal=True)
    assert np.array_equal(exact.numpy(), wanted)
    assert not np.array_equal(quick.numpy(), exact.numpy())
    torch.testing.assert_close(quick, exact)


def test_a_program_can_be_read_from_bytes_and_be_exact():
    torch.manual_seed(0)
    file = io.BytesIO(exported.archive(torch.export.export(nn.GELU(), (torch.randn(500),))).getvalue())
    x = np.linspace(-3, 3, 500, dtype="f4")
    assert np.array_equal(torchnp.load(file, exact=True)(x), torchnp.aten.gelu(x))
