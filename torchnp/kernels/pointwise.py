"""Arithmetic and functions, element by element."""

from __future__ import annotations

import numpy as np

from torchnp.kernels._elementwise import binary, int_to_float, unary

# ---------------------------------------------------------------- functions of one tensor

unary("sin", np.sin, int_to_float)

# ---------------------------------------------------------------- arithmetic

binary("mul.Tensor", np.multiply)
