"""Further parts of ``torch.np``: storages of a dtype, streams, events, and deterministic memory."""

from __future__ import annotations

import itertools

import torch

from torchnp.interop.convert import NUMPY_DTYPE
from torchnp.tests.device.probes import D, raises, run


def storage_types():
    for dtype in NUMPY_DTYPE:
        here, there = torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=dtype, device=D)
        kind = there.storage_type()
        if here.storage_type() is None:
            assert kind is None
            continue
        assert kind is getattr(torch.np, here.storage_type().__name__)
        assert isinstance(there.storage(), kind) and not isinstance(here.storage(), kind)
        assert kind.dtype == dtype and there.type() == f"torch.np.{here.type().removeprefix('torch.')}"
    made = torch.np.FloatStorage([1.0, 2.0])
    assert made.device.type == D and made.tolist() == [1.0, 2.0] and len(torch.np.LongStorage(3)) == 3
    raises(RuntimeError, "Not available for np storage", lambda: torch.np.FloatStorage.from_buffer(b"1234"))


def streams():
    stream = torch.np.Stream()
    assert isinstance(stream, torch.Stream) and stream.device.type == D and stream.query()
    assert torch.np.current_stream() == torch.np.default_stream()
    with torch.np.stream(stream):
        assert torch.np.current_stream() is stream
        with torch.np.stream(None):
            assert torch.np.current_stream() is stream
    assert torch.np.current_stream() is torch.np.default_stream()
    event = stream.record_event()
    for wait in (
        lambda: stream.wait_event(event),
        lambda: stream.wait_stream(torch.np.default_stream()),
        stream.synchronize,
        lambda: torch.ones(2, device=D).record_stream(stream),
    ):
        assert wait() is None
    assert torch.np.get_device_name().startswith("NumPy ") and torch.np.get_device_name(0) == torch.np.get_device_name()


def events():
    first, second = torch.np.Event(enable_timing=True), torch.np.Event(enable_timing=True)
    assert isinstance(first, torch.Event) and first.device.type == D
    raises(ValueError, "Both events must be recorded", lambda: first.elapsed_time(second))
    first.record()
    second.record(torch.np.current_stream())
    assert first.elapsed_time(second) >= 0 and second.query() and second.synchronize() is None and second.wait() is None
    raises(ValueError, "enable_timing=True", lambda: first.elapsed_time(torch.np.Event()))


def _filled(dtype):
    return (
        torch.nan
        if dtype.is_floating_point or dtype.is_complex
        else True
        if dtype is torch.bool
        else torch.iinfo(dtype).max
    )


def resized_memory_is_deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.int16, torch.uint8, torch.bool):
            for grow in (
                lambda x: x.resize_(5),
                lambda x: x[1:].resize_(5),
                lambda x: x.resize_as_(x.new_empty(2, 3)),
                lambda x: torch.ones(4, 2, dtype=x.dtype, device=x.device).t().resize_(3, 4),
                lambda x: x.resize_(2),
                lambda x: x.new_empty(0).resize_(4),
                lambda x: x.new_empty(3),
            ):
                here = grow(torch.ones(3, dtype=dtype))
                there = grow(torch.ones(3, dtype=dtype, device=D))
                torch.testing.assert_close(there.cpu(), here, equal_nan=True, rtol=0, atol=0)
                assert there.stride() == here.stride()
            assert str(torch.ones(1, dtype=dtype, device=D).resize_(2)[1].item()) == str(
                torch.tensor(_filled(dtype), dtype=dtype).item()
            )
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert torch.ones(1, device=D).resize_(3).shape == (3,)
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def empty_tensors_have_torchs_strides():
    for shape in ((4, 0), (0, 4), (0, 2, 0), (2, 0, 3), (0,)):
        for strides in itertools.product((0, 1, 2, 6), repeat=len(shape)):
            here = torch.empty_strided(shape, strides)
            assert torch.empty_strided(shape, strides, device=D).stride() == here.stride()
            for call in (
                lambda x: x.sort(),
                lambda x: x.sort(stable=True, dim=0),
                lambda x: [
                    x.argsort(),
                    x.clone(),
                    x + 1,
                    x.long(),
                    x.cumsum(0),
                    x.flip(0),
                    x.contiguous(),
                    x.softmax(0),
                ],
                lambda x: [torch.zeros_like(x), torch.empty_like(x), torch.where(x > 1, x, x), torch.cat([x, x])],
            ):
                assert [t.stride() for t in call(here.to(D))] == [t.stride() for t in call(here)]


if __name__ == "__main__":
    run(globals())
