"""Rows for elementwise operators that expose wrong kernels."""

ELEMENTS = """
-    mul.Scalar  (x(9).to(torch.complex32), 0.3)
f    add.Tensor  (x(4), ints(4).long(), alpha=3)
i    add.Tensor  (x(4), torch.ones(4, dtype=torch.bool), alpha=3)
f    mul.Tensor  (0.3, x(1))
f    div.Tensor  (0.3, x(1))
-    mul.Tensor  (x(2,3).to(torch.float8_e5m2), x(1).to(torch.float8_e5m2).expand(2,3))
-    div.Tensor  (x(2,3).to(torch.float8_e5m2), x(1).to(torch.float8_e5m2).expand(2,3))
-    floor_divide  (x(2,3).to(torch.float8_e5m2), x(1).to(torch.float8_e5m2).expand(2,3))
-    add.Tensor  (ints(3).to(torch.uint16), ints(4).to(torch.uint16))
-    sub.Tensor  (ints(3).to(torch.uint16), ints(4).to(torch.uint16))
f    sqrt  (p(32).repeat(32768))
f    lerp.Scalar  (ends(1.0), x(7), 0.5 - 1e-9)
f    lerp.Scalar  (x(7), ends(1.0), 0.5 - 1e-9)
f    lerp.Tensor  (ends(1.0), x(7), torch.full((7,), 0.5).to(x(1).dtype))
f    hardswish  (ends(1e38, 3e38, 6e4, 3e4))
i    hardtanh  (x(5), 0, -1)
-    _add_relu.Tensor  (torch.tensor([1e30, 3.0]), torch.tensor([1e300, 1.0], dtype=torch.float64))
f    _add_relu.Scalar  (-torch.zeros((), dtype=x(1).dtype), -7.25, 0)
f    leaky_relu_backward  (x(3), x(3), float('nan'), True)
f    elu_backward  (x(3), float('nan'), 1, 1, True, x(3))
-    equal  (x(3).to(torch.complex32), x(3))
f    isclose  (ends(1.0), ends(1.0), 0.0, 0.0, True)
f    allclose  (ends(1.0), ends(1.0), 0.0, 0.0, True)
f    nan_to_num  (ends(1.0), float('nan'))
f    nan_to_num  (ends(1.0), 0.0, float('nan'), float('nan'))
-    log1p  (torch.tensor([complex(1e-20, 1e-40), complex(-1e-20, 2e-39), complex(1e-9, 1e-39)], dtype=torch.complex64))
-    log1p  (torch.tensor([complex(0.1, 1e200), complex(-0.3, -1e300)], dtype=torch.complex128))
i    prims::div  (True, p(3))
f    prims::div  (True, p(3))
i    prims::div  (2.5, p(3))
"""

# Polynomials of fractional degree, and close to the ends of [-1, 1], where a quotient is 0 / 0.
KINDS = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w")
DEGREES = [
    f"s    special_{name}  (x(4), torch.tensor([-0.5, -0.9, 0.5, 1.9]))"
    for name in (
        *KINDS,
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )
]
BESIDE = "torch.tensor([-0.99999994, 0.99999994, -0.9999999, 0.9999999])"
EDGES = [
    *(f"s    special_{name}  ({BESIDE}, torch.tensor(9.0))" for name in KINDS),
    *(f"s    special_shifted_{name}  (({BESIDE} + 1) / 2, torch.tensor(10.0))" for name in KINDS[2:]),
]

# Several errors at once, results that exceed float16, and ``out=`` of another shape.
MIXED = """
-    ldexp_  (x(3,1).to(torch.float8_e5m2), torch.tensor([3,1], dtype=torch.int16))
-    div.Tensor_mode  (x(1,4).half(), x(0).to(torch.complex64), rounding_mode='floor')
-    logspace.Tensor_Scalar  (torch.tensor(-0.001), 4, 3, dtype=torch.float16)
-    logspace  (-2, 4, 3, dtype=torch.float16)
s    hardtanh  (torch.tensor([-100., 1.]), float('nan'), 1e39)
-    xlogy.OutTensor  (x(3,1,2,3).half(), x(1,1,2,3).half(), out=torch.zeros(2,3,1,2,3, dtype=torch.complex64))
-    xlogy.OutTensor  (x(2,3).half(), p(2,3).half(), out=torch.zeros(2,3, dtype=torch.complex64))
"""

ELEMENTWISE = ELEMENTS + "\n".join([*DEGREES, *EDGES]) + MIXED
