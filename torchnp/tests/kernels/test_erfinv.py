"""erfinv of float32 is rounded from double.

The test tries every pattern of the upper 16 bits, and the last values below 1.
"""

import numpy as np
import scipy.special

import torchnp


def test_erfinv_is_rounded_once():
    upper = np.arange(0, 0x3F80, dtype=np.uint32) << 16
    bits = np.concatenate([upper, 0x3F80_0000 - np.arange(20_000, dtype=np.uint32)])
    x = bits.view(np.float32)
    found = torchnp.table["aten::erfinv"](np.concatenate([x, -x]))
    expected = scipy.special.erfinv(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(found, np.concatenate([expected, -expected]), 1)
    assert np.array_equal(np.signbit(found), np.repeat([False, True], x.size))
    assert np.isnan(torchnp.table["aten::erfinv"](np.array([np.nan, 1.5, -2, np.inf], np.float32))).all()
