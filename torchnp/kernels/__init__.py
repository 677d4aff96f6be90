"""The kernels, one module for each family of operators. Importing a module declares its rows with `kernel`."""
