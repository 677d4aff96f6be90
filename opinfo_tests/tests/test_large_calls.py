"""Large calls: how recorded calls are scaled, model layers, and what is measured."""

import json
import subprocess
import sys

import numpy as np
import pytest

from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import Array, Case, whole
from opinfo_tests.generate import large_calls, model_parts
from opinfo_tests.generate.large_calls import LEAST, MOST, large_tasks, recorded, scaled, source_of
from opinfo_tests.generate.samples.recording import Recorder
from opinfo_tests.generate.task import LARGE, Task
from opinfo_tests.report.ratios import memory_ratio, summary_of_ratios, time_ratio
from opinfo_tests.run import command, time_and_memory


def case_of(op, *arrays, rest=()):
    buffers, windows = zip(*(whole(a, i) for i, a in enumerate(arrays)), strict=True)
    return Case(op, (*windows, *rest), {}, list(buffers))


@pytest.mark.parametrize("op", ["aten::gelu", "aten::index_add", "aten::linalg_cholesky_ex", "aten::avg_pool2d"])
def test_calls_are_scaled_until_torch_takes_them(op):
    bases = recorded(Task(source_of()[op], large_calls.best_dtype(source_of()[op])), frozenset([op]), 0)[op]
    found = scaled(op, bases)
    rows = [case for case in found if large_calls.is_row_major(case)]
    assert 1 <= len(rows) <= large_calls.CALLS + large_calls.FORMS and len(found) > len(rows)
    for case in found:
        seen = TorchDevice("cpu").execute(case)
        sizes = [a.size for a in case.arrays()] + [r.size for r in seen.results if isinstance(r, np.ndarray)]
        assert not seen.error and LEAST <= max(sizes) <= MOST
    assert [c.digest for c in found] == [c.digest for c in scaled(op, bases)]  # the same in each run


def test_few_positions_in_large_arrays_of_either_layout():
    op = "aten::index_add_"
    source = source_of()[op]
    found = scaled(op, recorded(Task(source, large_calls.best_dtype(source)), frozenset([op]), 0)[op])
    few = [case.arrays() for case in found if case.arrays()[1].size < 100]
    assert len(few) == 2 and all(x.size >= LEAST for x, *_ in few)
    assert {x.strides[0] < x.strides[-1] for x, *_ in few} == {True, False}


def test_a_transposed_call_has_the_same_values():
    x = np.random.rand(300, 400).astype(np.float32)
    case = large_calls.transposed(case_of("aten::add.Tensor", x, x[0].copy()))
    a, b = case.arrays()
    assert a.strides == (4, 1200) and b.strides == (4,) and np.array_equal(a.on(case.buffers), x)
    assert large_calls.transposed(case_of("aten::exp", x[0].copy())) is None


def test_shapes_that_belong_together_are_scaled_together():
    x, y = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    large = large_calls.every_size(case_of("aten::mm", x, y), 120_000)
    a, b = large.arrays()
    assert a.shape[1] == b.shape[0] == 4 * (a.shape[0] // 3) > 4
    image = case_of("aten::avg_pool2d", np.ones((2, 3, 8, 8), np.float32), rest=([2, 2],))
    pooled = large_calls.sizes_of_images(image, 60_000)
    assert pooled.arrays()[0].shape[:2] == (2, 3) and pooled.args[1] == [2, 2]
    shape = case_of("aten::expand", np.ones((1, 4), np.float32), rest=([1, 4],))
    assert large_calls.last_size(shape, 40_000).args[1] == list(large_calls.last_size(shape, 40_000).arrays()[0].shape)


def test_values_and_layouts_are_like_those_recorded():
    values = np.array([[0.25, np.nan, 0.75]], np.float32)
    more = large_calls.values_like(values, (300, 500))
    assert more.shape == (300, 500) and more.dtype == np.float32
    assert 0.25 <= more.min() < more.max() <= 0.75 and len(np.unique(more)) > 50_000
    assert set(np.unique(large_calls.values_like(np.array([3, 7]), (1000,)))) == {3, 7}
    memory, window = large_calls.laid_out_like(Array(0, "float32", (2, 3), (4, 8)), np.ones((200, 300), np.float32))
    assert window.strides == (4, 800) and memory.size == 240_000
    _, flat = large_calls.laid_out_like(Array(0, "float32", (2, 3), (0, 4)), np.ones((200, 300), np.float32))
    assert flat.strides == (0, 4)
    matrices = large_calls.well_conditioned((3, 20, 20), np.dtype(np.float64))
    assert np.linalg.cond(matrices).max() < 10


def test_each_overload_has_one_source():
    tasks = large_tasks(frozenset(["aten::add.Tensor", "aten::add.out", "aten::mul.Tensor"]))
    sources = [t.source.removeprefix(LARGE) for t in tasks]
    assert sources[: len(model_parts.LAYERS)] == [f"layers/{name}" for name in model_parts.LAYERS]
    assert set(sources[len(model_parts.LAYERS) :]) == {
        source_of()[f"aten::{op}"] for op in ("add.Tensor", "add.out", "mul.Tensor")
    }


@pytest.mark.parametrize("name", ["ctc_batch", "segmentation_head"])
def test_a_layer_is_recorded_as_it_calls(name):
    found = []
    for _ in model_parts.run_layer(name, Recorder(lambda op: True, found.append), LEAST):
        pass
    ops = {case.op for case in found}
    expected = {
        "ctc_batch": "aten::_ctc_loss_backward.Tensor",
        "segmentation_head": "aten::upsample_bilinear2d_backward",
    }
    assert expected[name] in ops and not any(op.endswith("out") for op in ops)
    assert min(max(a.size for a in case.arrays()) for case in found) >= LEAST


MEASURE = """
import json
import numpy as np
from opinfo_tests.backends.load import load_backend
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.run import time_and_memory
from opinfo_tests.tests.test_large_calls import case_of

x = np.random.default_rng(0).random((1 << 22,), np.float32)
print(json.dumps(time_and_memory.measured(case_of("aten::exp", x), TorchDevice("cpu"), load_backend("table"))))
"""


def test_time_and_memory_of_a_call():
    """A new process measures, because threads of other tests might free memory in this one."""
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert found["ms"] > 0 < found["torch_ms"]
    if time_and_memory.can_measure_memory():
        assert 12 < found["torch_mib"] < 24  # the result takes 16 MiB


def test_the_summary_lists_what_takes_far_more():
    row = {"op": "aten::f", "ms": 30.0, "torch_ms": 1.0, "mib": 3.0, "torch_mib": 0.0, "call": "aten::f(float32[9])"}
    fine = {**row, "op": "aten::g", "ms": 0.01, "torch_ms": 0.001, "mib": 0.5}
    assert time_ratio(row) == 30 and memory_ratio(row) == 3 and time_ratio(fine) == memory_ratio(fine) == 1
    lines = list(summary_of_ratios([row, fine]))
    assert (
        lines[0].startswith("time over torch's, of 2 large calls: median 15.50")
        and "above 10: 1 of 1 overloads" in lines[0]
    )
    assert "f " in lines[1] and "peak memory" in lines[2] and len(lines) == 4
    assert list(summary_of_ratios([])) == []


def test_the_tier_judges_and_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(model_parts, "LAYERS", {})
    monkeypatch.setattr(command, "control", lambda *given: "")
    report = tmp_path / "report.jsonl"
    given = ["--tier", "large", "--ops", "aten::cdist,aten::softplus", "--jobs", "0", "--report", str(report)]
    assert command.main(given) == 0
    printed = capsys.readouterr().out
    assert "time over torch's" in printed and "2 overloads" in printed
    assert "skipped: all calls but large ones (--tier large)" in printed
    assert report.read_text().count('"torch_ms"') >= 4
