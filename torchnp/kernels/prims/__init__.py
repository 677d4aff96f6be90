"""The prims: the portable layer.

An ndarray is computed by the aten kernel of the same meaning, as torch does it; any other array goes by the array API
standard, through the namespace that the array itself names. Prims take operands of one dtype and shape: promotion and
broadcasting are aten's business.
"""
