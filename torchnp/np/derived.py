"""Rows that run NumPy's own Python code on this package's functions, and replacements of the C functions it needs."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnp.np.arrays import on_arrays
from torchnp.np.products import correlate_1d, slide
from torchnp.np.rebind_numpy_functions import OVERRIDES, rebound_row
from torchnp.np.selection import interp_1d, monotonicity, place
from torchnp.np.shapes import concatenate
from torchnp.np.ufunc import write


def _middle_of_numbers(a: Tensor, axis: int, out: Tensor | None = None, overwrite_input: bool = False) -> Tensor:
    """Return the median along an axis without nans; NumPy computes it with masked arrays if the axis is short."""
    a = a if a.is_floating_point() else a.to(torch.float64)
    ordered, counts = torch.sort(a, axis).values, (~torch.isnan(a)).sum(axis, keepdim=True)
    low, high = (ordered.gather(axis, k.clamp(0, a.shape[axis] - 1)) for k in ((counts - 1) // 2, counts // 2))
    found = torch.where(counts % 2 == 1, low, (low + high) / 2).squeeze(axis)
    return found if out is None else write(out, found)


OVERRIDES["compiled_interp"] = OVERRIDES["compiled_interp_complex"] = on_arrays(interp_1d)
OVERRIDES["_monotonicity"] = on_arrays(monotonicity)
OVERRIDES["_nanmedian_small"] = on_arrays(_middle_of_numbers)
OVERRIDES["_place"] = on_arrays(place)
OVERRIDES["_concatenate"] = on_arrays(concatenate)
OVERRIDES["_unique_hash"] = lambda *args, **kwargs: NotImplemented  # NumPy then sorts

# ---------------------------------------------------------------- elementwise

rebound_row("isclose", "no-mixed-dtypes isclose-of-integers negative-tolerance")
rebound_row("allclose array_equal array_equiv", "no-mixed-dtypes")
rebound_row("angle", "angle-of-negative-zero")
rebound_row("nan_to_num real_if_close iscomplex isreal iscomplexobj isrealobj isneginf isposinf fix sinc i0")
rebound_row("unwrap", "no-integers")

# ---------------------------------------------------------------- statistics

rebound_row("average", "no-integers")
rebound_row("cov corrcoef", "cov-dtype cov-weights correction")
rebound_row("quantile percentile", "quantile-dtypes quantile-methods quantile-size no-integers")
rebound_row(
    "nanquantile nanpercentile", "quantile-dtypes quantile-methods nanquantile-of-nothing quantile-of-negative-zero"
)
rebound_row("nansum", "no-complex sum-dtype")
rebound_row("nanmedian", "no-integers lower-median")
rebound_row("nanmax nanmin nanargmax nanargmin nanprod nancumsum nancumprod")
rebound_row("histogram", "histc-dtype histc-range histogram-bins histogram-of-one-edge histogram-edges-unsorted")
rebound_row("histogram2d histogramdd histogram_bin_edges", "histogramdd-batches")
rebound_row("digitize", "bucketize-side bucketize-unsorted")
rebound_row("trapezoid", "trapezoid-ends trapezoid-of-nothing")
rebound_row("gradient", "derivatives-no-bytes derivatives-in-integers derivatives-spacings derivatives-of-one-point")
rebound_row("diff", "diff-of-number no-bool-subtraction")
rebound_row("ediff1d interp")
rebound_row("correlate", "conv-layout")
rebound_row("convolve", "correlation")
OVERRIDES["multiarray.correlate2"], OVERRIDES["multiarray.correlate"] = on_arrays(correlate_1d), on_arrays(slide)

# ---------------------------------------------------------------- shapes and joins

rebound_row("atleast_1d atleast_2d atleast_3d hstack vstack row_stack dstack column_stack stack block unstack")
rebound_row("split", "split-by-size split-takes-sizes")
rebound_row("array_split", "chunk-count tensor-split-long")
rebound_row("hsplit vsplit dsplit", "split-takes-sizes")
rebound_row("moveaxis rollaxis rot90 fliplr flipud tile")
rebound_row("pad", "pad-order pad-crops pad-mode-names pad-needs-batch pad-reflect-once")
rebound_row("kron", "kron-of-strided")
rebound_row("insert append delete trim_zeros apply_along_axis apply_over_axes")

# ---------------------------------------------------------------- indexing and sets

rebound_row("take_along_axis", "take-along-flat take-along-wraps gather-crops")
rebound_row("argwhere", "nonzero-static-size")
rebound_row("flatnonzero ix_ select fill_diagonal diag_indices diag_indices_from mask_indices indices")
rebound_row("extract", "masks-broadcast")
rebound_row("tril_indices triu_indices tril_indices_from triu_indices_from", "triangle-indices")
rebound_row("unique_all unique_counts unique_inverse unique_values union1d intersect1d setdiff1d setxor1d")
rebound_row("isin sort_complex")

# ---------------------------------------------------------------- creation

rebound_row("linspace", "linspace-truncates linspace-two-ended linspace-ends default-dtype")
rebound_row("logspace", "logspace-truncates default-dtype")
rebound_row("geomspace identity fromfunction", "default-dtype")
rebound_row("tri diag")
rebound_row("diagflat", "diag-embed-batches")
rebound_row("vander", "vander-increasing vander-dtype vander-of-rows vander-needs-two")
rebound_row("meshgrid", "meshgrid-ij")
rebound_row("bartlett blackman hanning", "periodic-windows windows-in-dtype")
rebound_row("hamming", "hamming-coefficients periodic-windows")
rebound_row("kaiser", "periodic-windows")
rebound_row("asarray_chkfinite require")

# ---------------------------------------------------------------- products and polynomials

rebound_row("outer", "outer-vectors")
rebound_row("tensordot", "tensordot-broadcasts no-mixed-products")
rebound_row("cross", "cross-default-dim cross-broadcast")
rebound_row("poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots")
rebound_row("lib.stride_tricks.sliding_window_view", "unfold-step unfold-of-number")
rebound_row("isfortran")
