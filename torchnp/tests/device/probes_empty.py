"""Tensors without elements on the device ``np``: probes like those of probes.py."""

from __future__ import annotations

import itertools

import torchnp.device  # noqa: F401  (it registers the device)
from torchnp.tests.device.probes import run
from torchnp.tests.interop.test_empty_strides import MAKERS


def empty_tensors_have_the_strides_asked_for():
    for make in MAKERS.values():
        for dims in (1, 2, 3):
            for size in itertools.product((0, 1, 2), repeat=dims):
                for stride in itertools.product((0, 1), repeat=dims):
                    assert make(size, stride, "np").stride() == make(size, stride, "cpu").stride(), (size, stride)


if __name__ == "__main__":
    run(globals())
