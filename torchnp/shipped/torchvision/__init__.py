"""Rows of torchnp for torchvision's operators: importing this package declares them.

They follow torchvision's CPU kernels operation by operation, so that results have the same bits; only the products with
the weight in `deform_conv2d` and in its gradients are added up in NumPy's own order.
"""

from torchnp.shipped.torchvision import deform_gradients, gradients
from torchnp.shipped.torchvision.boxes import nms
from torchnp.shipped.torchvision.deform import deform_conv2d
from torchnp.shipped.torchvision.pooling import ps_roi_align, ps_roi_pool, roi_align, roi_pool

__all__ = [
    "deform_conv2d", "deform_gradients", "gradients", "nms", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool",
]  # fmt: skip
