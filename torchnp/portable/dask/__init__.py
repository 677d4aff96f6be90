"""Rows for Dask: NumPy kernels of the table, block by block of the batch."""
