"""Rows for the operators of other libraries, which torchnp imports when it meets the first operator of one.

They need NumPy alone, neither torch nor the library. A package with rows of the same namespace takes the place of these.
"""

MODULES = {space: f"{__name__}.{space}" for space in ("torchvision", "transformers")}
