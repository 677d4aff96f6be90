"""A PyTorch device whose kernels are NumPy's: ``import torchnp.device``, then ``model.to("np")``.

Its tensors are ordinary `torch.Tensor` objects on memory that NumPy holds, so views, in-place writes, autograd, optimizers,
saving and printing are torch's own, and each operator is computed by a row of `torchnp.table`. Random operators
continue torch's CPU generator: ``torch.manual_seed`` has its usual effect.

Examples
--------
>>> import torch, torchnp.device
>>> x = torch.randn(3, device="np", requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad.cpu()
"""

from __future__ import annotations

from torchnp.device import autocast, kernels, module, storages
from torchnp.device._private import DeviceHooks, set_up_device

NAME = storages.DEVICE

set_up_device(NAME, module.Module(), DeviceHooks())
module.storages_here()
_libraries = kernels.register() + autocast.register()
