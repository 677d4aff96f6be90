"""Attention computed in blocks of queries gives torch's results, whatever the block size."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop.convert import to_numpy
from torchnp.kernels import attention
from torchnp.kernels.backward import attention as gradients

FLASH = "_scaled_dot_product_flash_attention_for_cpu"
SIZES = {"one block": (1, 1, 5, 7, 4), "few queries": (2, 3, 33, 40, 8), "many queries": (1, 2, 300, 70, 4)}
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2}  # a rounding to bfloat16 is 2**-8


def numbers(shape, seed, dtype):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(found, wanted, dtype):
    assert found.strides == tuple(s * found.itemsize for s in wanted.stride())
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(found.astype(np.float64), wanted.double().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("budget", [1 << 20, 1 << 14, 1], ids=lambda n: f"{n} bytes")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", ["no", "causal", "queries and keys", "keys", "heads"])
def test_attention(masked, size, dtype, budget, monkeypatch):
    """Results and gradients. Each mask has some dimensions of its own, and is broadcast over the others."""
    monkeypatch.setattr(attention, "BUDGET", budget)
    monkeypatch.setattr(attention, "_FEW", 3)
    monkeypatch.setattr(gradients, "BUDGET", budget)
    batch, heads, rows, columns, each = SIZES[size]
    q, k, v = (numbers((batch, heads, n, each), i, dtype) for i, n in enumerate((rows, columns, columns)))
    shape = {"queries and keys": (rows, columns), "keys": (batch, 1, 1, columns), "heads": (1, heads, rows, columns)}
    mask = numbers(shape[masked], 3, dtype) if masked in shape else None
    rest = 0.0, masked == "causal"
    given, own = [to_numpy(x) for x in (q, k, v)], None if mask is None else to_numpy(mask)
    out, log_sum = getattr(torch.ops.aten, FLASH)(q, k, v, *rest, attn_mask=mask)
    found = torchnp.table[f"aten::{FLASH}"](*given, *rest, attn_mask=own)
    check(found[0], out, dtype)
    check(found[1], log_sum, dtype)  # float32; bfloat16 uses approximate exponentials
    saved = numbers(out.shape, 4, dtype), q, k, v, out, log_sum
    wanted = getattr(torch.ops.aten, FLASH + "_backward")(*saved, *rest, attn_mask=mask)
    found = torchnp.table[f"aten::{FLASH}_backward"](*map(to_numpy, saved), *rest, attn_mask=own)
    for x, y in zip(found, wanted, strict=True):
        check(x, y, dtype)
