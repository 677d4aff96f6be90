"""Measured growth of operators: time and memory grow no faster with the size than torch's, apart from named
exceptions."""

import numpy as np
import pytest

from torchnp.tests.docs.site_modules import site_module

FROM = 100_000  # elements: below, the call itself takes most of the time
# Above, a first call may take ten times as long as the next ones, until the system has found the memory.
TO = 10_000_000
STEEPEST = 0.15  # slope of log(ratio) over log(elements): a ratio that doubles in two decades; machines vary as much
MUCH = 2.0  # smaller ratios may rise
TIME, MEMORY = 1, 2  # columns of a point
_, FAMILIES = site_module("plots").growth()
LINES = [(op, points) for ops in FAMILIES.values() for op, points in ops.items()]
# What grows faster, and why.
RISING = {
    ("sum.dim_IntList", MEMORY): "it holds the sums of 16 rows each",
}


def rises(points, column):
    large = [p for p in points if FROM <= p[0] <= (TO if column == TIME else p[0])]
    n, ratios = np.array([p[0] for p in large]), np.array([p[column] for p in large])
    return np.polyfit(np.log(n), np.log(ratios), 1)[0] > STEEPEST and ratios[-1] > MUCH


def test_sixty_operators_are_measured_at_large_sizes():
    assert len(LINES) >= 60
    assert all(len([p for p in points if p[0] >= FROM]) >= 2 for _, points in LINES)


@pytest.mark.parametrize("op, points", LINES, ids=[op for op, _ in LINES])
def test_no_operator_grows_faster_than_torchs(op, points):
    for column in (TIME, MEMORY):
        assert rises(points, column) == ((op, column) in RISING)


def test_a_line_that_rises_is_refused():
    assert rises([(10**k, 2.0**k, 1.0) for k in (5, 6, 7)], TIME)
    assert not rises([(10**k, float(k), 1.0) for k in (5, 6, 7)], TIME)
