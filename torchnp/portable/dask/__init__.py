"""Rows for Dask: the table's NumPy kernels, called for one block of the batch at a time."""
