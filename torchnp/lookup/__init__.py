"""Lookup of names and of what is known about them, for ``torchnp explain`` and the pages of the docs.

Nothing here imports torch or the kernels. Facts about the table come from ``torchnp/data/ops.json``, which
``scripts/make_lookup.py`` writes.
"""
