"""The kernels, one module per family. Importing a module declares its rows with `torchnp.core.registry.kernel`."""
