"""The prims, which also run on arrays of other libraries.

For an ndarray, a prim calls the matching aten kernel, as torch does. For any other array it calls array API functions
from the array's own namespace. Prims take operands of one dtype and shape; promotion and broadcasting are left to aten
ops.
"""
