"""A PyTorch device with NumPy kernels: ``import torchnp.device``, then ``model.to("np")``.

Its tensors are ordinary `torch.Tensor` objects on memory that NumPy allocates. torch itself handles views, in-place
writes, autograd, optimizers, saving and printing; a row of `torchnp.table` computes each operator. Random operators
draw from torch's CPU generator, so ``torch.manual_seed`` has its usual effect.

Examples
--------
>>> import torch, torchnp.device
>>> x = torch.randn(3, device="np", requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad.cpu()
"""

from __future__ import annotations

import torch

from torchnp.device import (
    autocast,
    convert,
    device_streams,
    dlpack,
    extension,
    kernels,
    legacy_storages,
    management,
    module,
    nested,
)
from torchnp.device._private import DeviceGuard, DeviceHooks, set_up_device

NAME = convert.DEVICE

_module = module.Module()
set_up_device(NAME, _module, DeviceHooks(), DeviceGuard())
extension.guard()
module.storages_here()
management.serve_accelerator(_module)
dlpack.share_with_others()
device_streams.make_default()
legacy_storages.add_to(_module)
nested.encode_without()
_libraries = kernels.register() + autocast.register()


def _try_backward() -> None:
    """Refuse the import if torch has already made its autograd device queues.

    Without this check, backward would fail later, with an unclear error.
    """
    x = torch.ones((), device=NAME, requires_grad=True)
    try:
        (x * 2).backward()
    except RuntimeError as error:
        raise RuntimeError(
            "import torchnp.device before the first backward() of the process: then torch's autograd makes a queue for each "
            "device that it knows, once"
        ) from error


_try_backward()
