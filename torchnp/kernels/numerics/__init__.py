"""Numerical building blocks of kernels: fused and compensated arithmetic, polynomials, blocks, products. No rows."""
