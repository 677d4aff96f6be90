"""The measured growth of operators: no time and no memory grows faster than torch's."""

import numpy as np
import pytest

from torchnp.tests.docs.site_modules import site_module

FROM = 100_000  # elements: below, the call itself takes most of the time
STEEPEST = 0.15  # of log(ratio) over log(elements): a ratio that doubles in two decades, where machines vary by as much
plots = site_module("plots")
_, FAMILIES = plots.growth()
LINES = [(op, points) for ops in FAMILIES.values() for op, points in ops.items()]


def slope(points, column):
    large = [p for p in points if p[0] >= FROM]
    n, ratios = np.array([p[0] for p in large]), np.array([p[column] for p in large])
    return np.polyfit(np.log(n), np.log(ratios), 1)[0]


def test_sixty_operators_are_measured_at_large_sizes():
    assert len(LINES) >= 60
    assert all(len([p for p in points if p[0] >= FROM]) >= 2 for _, points in LINES)


@pytest.mark.parametrize("op, points", LINES, ids=[op for op, _ in LINES])
def test_no_operator_grows_faster_than_torchs(op, points):
    assert slope(points, 1) <= STEEPEST
    assert slope(points, 2) <= STEEPEST


def test_a_line_that_rises_is_refused():
    assert (
        slope([(10**k, float(k), 1.0) for k in (5, 6, 7)], 1)
        < STEEPEST
        < slope([(10**k, 2.0**k, 1.0) for k in (5, 6, 7)], 1)
    )
