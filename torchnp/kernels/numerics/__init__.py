"""Numerical routines for kernels: fused and compensated arithmetic, polynomials, blocks, products.

These modules declare no operators.
"""
