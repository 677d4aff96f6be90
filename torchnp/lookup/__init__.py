"""What people call things, and what is known by those names: behind ``torchnp explain`` and the pages of the docs.

Nothing here imports torch or the kernels: what the table knows is read from ``torchnp/data/ops.json``, which
``scripts/make_lookup.py`` writes.
"""
