"""Rows with large arrays, which kernels process in parts (strips and tiles)."""

_IMAGE, _ROWS = "70,1000", "131,1024"  # more elements than a strip (2**16), and more than a tile (2**17)
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
    f"f    where.self  (m({_IMAGE}), x({_IMAGE}), x({_IMAGE}))",
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
    *(
        f"f    {op}  (x({_IMAGE}), {limits})"
        for op, limits in (("clamp", "-1, 1"), ("hardtanh", "-1, 1"), ("leaky_relu", "0.1"), ("threshold", "0.5, -1"))
    ),
    *(
        f"f    {op}  (x({_IMAGE}))"
        for op in (
            "relu",
            "hardswish",
            "hardsigmoid",
            "log_sigmoid_forward",
            "elu",
            "mish",
            "softplus",
            "log1p",
            "sin",
            "rsqrt",
            "sign",
            "isnan",
            "abs",
            "neg",
            "round",
        )
    ),
    f"w    clamp.Tensor  (x({_IMAGE}), x({_IMAGE}), x({_IMAGE}))",
    *(
        f"w    {op}  (x({_IMAGE}), x({_IMAGE}))"
        for op in (
            "maximum",
            "minimum",
            "atan2",
            "pow.Tensor_Tensor",
            "fmod.Tensor",
            "remainder.Tensor",
            "floor_divide",
            "eq.Tensor",
            "copysign.Tensor",
            "hypot",
            "nextafter",
        )
    ),
    *(
        f"w    native_batch_norm  (x(4,6,60,60), x(6), x(6), x(6), p(6), {training}, 0.1, 1e-5)"
        for training in (True, False)
    ),
    "w    native_batch_norm_backward  (x(4,6,60,60), x(4,6,60,60), x(6), x(6), p(6), x(6), p(6), True, 1e-5, [True,True,True])",
    *(
        f"w    convolution  (x({image}), x({weight}), x({out}), [{step},{step}], [{pad},{pad}], [1,1], False, [0,0], {groups})"
        for image, weight, out, step, pad, groups in (
            ("1,16,64,64", "16,16,3,3", 16, 1, 1, 1),
            ("2,16,40,40", "8,16,5,5", 8, 2, 2, 1),
            ("2,16,64,64", "32,16,1,1", 32, 1, 0, 1),
            ("1,32,64,64", "32,1,3,3", 32, 1, 1, 32),
            ("1,8,130,130", "12,4,7,7", 12, 3, 3, 2),
        )
    ),
    "w    convolution  (x(1,8,40,40), x(8,6,4,4), x(6), [2,2], [1,1], [1,1], True, [0,0], 1)",
    "w    convolution_backward  (x(1,16,64,64), x(1,16,64,64), x(16,16,3,3), [16], [1,1], [1,1], [1,1], False, [0,0], 1, [True,True,True])",
    "w    max_pool2d_with_indices  (x(2,8,96,96), [3,3], [2,2], [1,1])",
    "w    avg_pool2d  (x(2,8,96,96), [3,3], [2,2], [1,1], True, False)",
    "w    upsample_bilinear2d  (x(1,4,90,90), [200,133], False)",
    *(f"i    {op}  (x(70,1000))" for op in ("sum", "max", "abs", "bitwise_not", "neg")),
    *(f"fi   {op}  (x({_IMAGE}), 1)" for op in ("sort", "argsort", "cumsum", "cumprod")),
    f"fi   topk  (x({_IMAGE}), 7, 1)",
    f"fi   kthvalue  (x({_IMAGE}), 500, 1)",
    "fi   _unique2  (x(300,100), True, True, True)",
    "fi   mm  (x(80,90), x(90,100))",
    "fi   bmm  (x(3,40,50), x(3,50,60))",
    "i    index_select  (x(70,1000), 0, torch.arange(500) % 70)",
    "f    index_add  (x(70,1000), 0, torch.arange(300) % 70, x(300,1000))",
    "f    scatter_add  (x(70,1000), 1, torch.arange(70000).reshape(70,1000) * 7 % 1000, x(70,1000))",
    "f    embedding  (x(500,200), torch.arange(900) % 500)",
    "f    embedding_dense_backward  (x(900,100), torch.arange(900) * 7 % 50, 50, -1, False)",
]

LARGE = "\n".join(_ALL)
