"""Rows of large arrays, which kernels go through by strips and by tiles."""

_IMAGE, _ROWS = "70,1000", "131,1024"  # above a strip of 2**16 elements, above a tile of 2**17
_ZEROS = f"x({_ROWS}).abs() * torch.tensor([-0.0, 1.0])[torch.arange(131) % 2].to(x(1).dtype)[:,None]"

_ALL = [
    *(f"w    {op}  (x({_ROWS}), 1, False)" for op in ("_softmax", "_log_softmax")),
    *(
        f"w    {op}_backward_data  ({grad}, torch.softmax(x({_ROWS}), 1){log}, 1, x(1).dtype)"
        for op, log in (("_softmax", ""), ("_log_softmax", ".log()"))
        for grad in (f"x({_ROWS})", _ZEROS)
    ),
    f"w    native_layer_norm  (x({_ROWS}), [1024], x(1024), x(1024), 1e-5)",
    f"w    native_layer_norm_backward  (x({_ROWS}), x({_ROWS}), [1024], x(131,1), p(131,1), x(1024), x(1024), [True,True,True])",
    "w    native_group_norm  (x(2,6,150,80), x(6), x(6), 2, 6, 12000, 3, 1e-5)",
    *(f"w    {op}.Tensor  (x({_IMAGE}), x({_IMAGE}), alpha=0.3)" for op in ("add", "sub")),
    *(f"w    {op}  (x({_IMAGE}), x({_IMAGE}), p({_IMAGE}), value=0.3)" for op in ("addcmul", "addcdiv")),
    f"w    lerp.Scalar  (x({_IMAGE}), x({_IMAGE}), 0.3)",
    f"w    lerp.Tensor  (x({_IMAGE}), x({_IMAGE}), x({_IMAGE}))",
    f"w    where.self  (m({_IMAGE}), x({_IMAGE}), x({_IMAGE}))",
    *(f"f    {op}  (x({_IMAGE}))" for op in ("silu", "gelu", "sigmoid", "erf", "tanh", "exp")),
    f"f    gelu  (x({_IMAGE}), approximate='tanh')",
    f"w    gelu_backward  (x({_IMAGE}), x({_IMAGE}))",
    *(
        f"w    {op}  (x({_ROWS}), [{dim}])"
        for op in ("sum.dim_IntList", "mean.dim", "amax", "var.correction")
        for dim in (0, 1)
    ),
    *(f"w    {op}  (x({_ROWS}), {dim})" for op in ("cumsum", "argmax", "logcumsumexp", "max.dim") for dim in (0, 1)),
    f"w    linalg_vector_norm  (x({_ROWS}), 2, [1])",
    *(f"w    {op}  (x({_ROWS}))" for op in ("sum", "prod", "std", "max", "median")),
]

LARGE = "\n".join(_ALL)
