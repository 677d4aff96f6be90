"""What kernels compute with: fused and compensated arithmetic, polynomials, blocks, products. No row stands here."""
