"""Rows that show which error torch raises first, and which memory it writes."""

from __future__ import annotations

_STARTS = ("[1,1,2]), torch.tensor([0,1]", "[0,1,2,4]), torch.tensor([0,1,2,3]", "[[0,1,2]]), torch.tensor([0,1]")

# ``out=`` forms of operators for which OpInfo has only the functional form.
OUT = """
s    _softmax.out  (x(3,4), 1, True, out=x(0))
s    _log_softmax.out  (x(3,4), 1, True, out=x(0))
s    hash_tensor.out  (x(3,4), mode=1, out=torch.zeros(0,dtype=torch.uint64))
s    segment_reduce.out  (x(4,2), 'sum', indices=torch.tensor([0,1,1,2]), out=x(0))
s    linalg_lu.out  (x(3,3), pivot=False, P=x(0), L=x(0), U=x(0))
s    linalg_lu_factor.out  (x(3,3), pivot=False, LU=x(0), pivots=ints(0).int())
s    linalg_lu_factor_ex.out  (x(3,3), pivot=False, LU=x(0), pivots=ints(0).int(), info=ints(0).int())
s    _embedding_bag_per_sample_weights_backward.out  (x(2,3), x(4,3), torch.tensor([0,1,2]), torch.tensor([0,2]),
         torch.tensor([0,0,1]), 1, out=x(0))
"""

# Parts of sparse tensors with more than one fault, or with too few or too many values.
SPARSE = [
    *(f"-    _convert_indices_from_csr_to_coo  (torch.tensor({starts}))" for starts in _STARTS),
    "-    _convert_indices_from_csr_to_coo  (torch.tensor([[0,1,2],[0,2,2]]), torch.arange(6).reshape(3,2))",
    "-    _validate_sparse_bsr_tensor_args  (torch.tensor([0,1]), torch.tensor([0]), torch.ones(2,2,2), [2,3])",
    "-    _validate_sparse_csr_tensor_args  (torch.tensor([0,1,1,1]), torch.tensor([0]), torch.ones(2), [2,2])",
    "-    _validate_sparse_csr_tensor_args  (torch.tensor([[0,1,1]]), torch.tensor([[0]]), torch.ones(2,1), [2,2,2])",
    *(
        f"-    _validate_sparse_coo_tensor_args  (torch.tensor([[1,0],[0,0]]), torch.ones({n}), [2,2], True)"
        for n in (0, 1, 2)
    ),
]

# Tensors that take the memory of another tensor, or another memory format; ``out=`` of other shapes and dtypes.
MEMORY = [
    "s    set.source_Tensor  (x(4).double(), x(4))",
    "s    set_.source_Tensor_storage_offset  (x(4).double(), x(4), 0, [4])",
    "s    resize_  (x(1,2,3,4).to(memory_format=torch.channels_last), [1,2,3,4], memory_format=torch.channels_last)",
    "s    resize_as_  (x(1,2,3,4).to(memory_format=torch.channels_last), x(1,2,3,4), memory_format=torch.channels_last)",
    *(f"f    _compute_linear_combination.out  (x(3,4), x(2,3), out=x({out}))" for out in ("1", "2,4", "1,4", "2,2,4")),
    "f    _compute_linear_combination.out  (x(3,4,1), x(2,3), out=x(2,4,3))",
    "s    _compute_linear_combination  (x(3,4), x(1,2,3))",
    *(
        f"s    addbmm.out  (x(2,3), x(0,2,4), x(0,4,3), beta={beta}, out=x(2,3).to(torch.{out}))"
        for beta in (1, 0.5)
        for out in ("float64", "int64", "float16")
    ),
    *(f"-    {op}_.Tensor  ({a}, {b})" for op in ("add", "mul") for a, b in ((2.0, 3), (2, "torch.tensor(3)"))),
    *(
        f"-    {op}_.Tensor  ({', '.join(given)})"
        for op in ("add", "sub")
        for given in (
            ("3", "2", "alpha=1.5"),
            ("1.5", "2", "alpha=1j"),
            ("3", "1.5"),
            ("3", "1.5", "alpha=2"),
            ("ints(1).expand(3)", "1.5", "alpha=1j"),
            ("torch.ones(1).to(torch.float8_e5m2).expand(3)", "2+1j"),
            ("x(2).half()", "x(1,2).half()", "alpha=1e5"),
            ("ints(2)", "x(2)", "alpha=1e300"),
        )
    ),
    "-    add.Tensor  (3, 1.5)",
    *(f"-    cholesky_solve.out  (x({b}).half(), x(3,3).half(), out=ints(3,2))" for b in ("3,2", "3")),
    "-    cholesky_solve.out  (ints(3,2), ints(3,3), out=ints(3,2) > 1)",
    "-    logsumexp.out  (x(3,4), [0], out=ints(1).expand(4))",
    "-    logsumexp.out  (x(3,4), [0], out=x(1).expand(4))",
    "-    mean.out  (ints(3,4), [0], out=x(1).expand(4))",
    "-    mean.out  (x(3,4), [0], out=x(1).expand(4))",
    "-    std.correction_out  (ints(3,4), [], out=x())",
    "-    special_digamma.out  (x(3).to(torch.complex64), out=ints(3))",
    "-    special_ndtr.out  (x(3).to(torch.complex64), out=ints(3))",
    "-    special_airy_ai.out  (x(3).half(), out=ints(3))",
    "-    divide.out  (x(3).to(torch.float8_e5m2), x(3).to(torch.float8_e5m2), out=ints(3))",
    "-    mse_loss.out  (ints(3), ints(3), 0, out=ints(3) > 1)",
    "-    sub.Tensor  (3, 1.5, alpha=2)",
    "s    fused_moving_avg_obs_fake_quant  (p(2,3), torch.tensor([1]), torch.tensor([1]), x(0), x(0), x(0), "
    "torch.zeros(0).to(torch.int8), 0.1, 0, 255, 0, True, False)",
]


def _half(*shape: int) -> str:
    return f"x({','.join(map(str, shape))}).bfloat16()"


_PART = [_half(20, 4), _half(20, 5), _half(20), _half(20)]
_STATE = _half(1, 2, 5)

# bfloat16 LSTMs, which oneDNN rounds after each step, with bfloat16 or float32 cell states.
LAYERS = [
    *(
        f"s    mkldnn_rnn_layer  ({_half(6, 2, 4)}, {', '.join(_PART)}, {_STATE}, {_STATE}{cell}, {back}, [], 2, "
        f"5, 1, True, False, False, False)"
        for cell in ("", ".float()")
        for back in (False, True)
    ),
    *(
        f"s    lstm.{kind}  ({data}, [{_STATE}, {_STATE}{cell}], [{', '.join(_PART)}], True, 1, 0.0, False, False{last})"
        for kind, data, last in (
            ("input", _half(6, 2, 4), ", False"),
            ("data", f"{_half(6, 4)}, torch.tensor([2,2,2])", ""),
        )
        for cell in ("", ".float()")
    ),
]

_NOWHERE = "torch.tensor([float('nan'),0,0, 0,float('nan'),0.5, float('inf'),0,0.5, 3e9,0,0]).to(x(1).dtype)"

# Coordinates that are NaN, infinite or far outside images and volumes; grids whose values torch does not read.
GRIDS = [
    *(f"f    grid_sampler_3d  (p(1,2,3,3,3), {_NOWHERE}.reshape(1,1,2,2,3), {mode}, 0, False)" for mode in (0, 1)),
    *(f"f    grid_sampler_2d  (p(1,2,3,3), {_NOWHERE}.reshape(1,2,3,2), {mode}, 0, False)" for mode in (0, 1)),
    "-    grid_sampler_2d  (x(1,0,3,4).long(), x(1,1,3,2), 0, 0, False)",
    "-    grid_sampler_3d  (x(1,0,3,4,5), x(1,1,3,2,3).double(), 0, 0, False)",
    "-    grid_sampler_2d_backward  (x(1,0,1,3), x(1,0,3,4), x(1,1,3,2).double(), 0, 0, False, [True,True])",
    "-    grid_sampler_3d_backward  (x(1,2,0,3,2), x(1,2,3,4,3), x(1,0,3,2,3).double(), 0, 0, False, [True,True])",
]

_UNSIGNED = [f"torch.{d}" for d in ("uint16", "uint32", "uint64")]

# Dtypes for which torch has no kernel, with another fault or for empty tensors; limits that the dtype cannot represent.
CODE = [
    *(
        f"-    index_copy  (torch.zeros(3, dtype={d}), 0, torch.tensor([0,5]), torch.zeros(2, dtype={d}))"
        for d in _UNSIGNED
    ),
    *(
        f"-    index_copy  (torch.zeros(3,0, dtype={d}), 0, torch.tensor([7]), torch.zeros(1,0, dtype={d}))"
        for d in _UNSIGNED
    ),
    *(f"-    index_fill.int_Scalar  (torch.zeros(0, dtype={d}), 0, torch.tensor([0]), 1)" for d in _UNSIGNED),
    *(
        f"-    index_put  (torch.zeros(3,0, dtype={d}), [torch.tensor([0])], torch.zeros(0, dtype={d}))"
        for d in _UNSIGNED
    ),
    *(f"f    huber_loss_backward  (ends(), x(6), x(6), {reduction}, 1e-30)" for reduction in (0, 1)),
    "f    huber_loss_backward  (x(40), x(40), ends(*range(34)), 0, 1e-30)",
    *(
        f"f    {op}_backward  (x(3,100){laid}, x(3,100){laid} * (x(3,100){laid} > 0), torch.zeros(3,100).to(x(1).dtype){laid}, 0, {limit})"
        for op in ("huber_loss", "smooth_l1_loss")
        for laid in ("", ".t()", "[:,::2]", "[:,:70]")
        for limit in (1e-46, 1e-30, 0.1)
    ),
    *(
        f"f    {op}  (x(3,100){laid}, (x(3,100){laid} * float('inf')) * 0, {limits})"
        for op, limits in (
            ("hardtanh_backward", "-1, 1"),
            ("softshrink_backward", "0.5"),
            ("hardshrink_backward", "0.5"),
        )
        for laid in (".t()", "[:,:70]", "[:,::2]")
    ),
]

# ``out=`` and in-place arguments whose dtype cannot hold the result, with another fault.
HELD = [
    "s    float_power_.Tensor  (x(3), x(4))",
    "s    float_power.Tensor_Tensor_out  (x(3), x(4), out=x(3))",
    "s    logsumexp.out  (x(3,4), [5], out=x(3).long())",
    "s    logsumexp.out  (x(3,4).to(torch.float8_e5m2), [1], out=x(3))",
    *(f"s    fft_{op}.out  ({n}, 1., out=x(5))" for op in ("fftfreq", "rfftfreq") for n in (-5, -1)),
]

# Attention without queries or keys, in dtypes that torch cannot sum or add.
NOTHING = [
    f"-    scaled_dot_product_attention  (x(1,2,{n},4).to(torch.{d}), *[x(1,2,{k},4).to(torch.{d})] * 2)"
    for d in ("complex32", "float8_e5m2", "uint16")
    for n, k in ((0, 3), (3, 0), (0, 0))
]

# Reductions that torch computes partly in the dtype of ``out=``: real and imaginary parts, sums of exponentials, roots.
_PARTS = "torch.complex(x(3,4), x(3,4)).to(torch.{0})"
INTO = [
    *(
        f"-    {op}.correction_out  ({_PARTS.format(given)}, {dim}, out=torch.zeros(0, dtype=torch.{out}))"
        for op in ("std", "var")
        for given in ("complex64", "complex32", "complex128")
        for dim in ("[0]", "[0,1]")
        for out in ("float64", "float32", "float16", "complex128", "float8_e5m2")
    ),
    *(
        f"-    std.correction_out  (torch.zeros(0,4, dtype=torch.complex64), [0], out=torch.zeros(0, dtype=torch.{out}))"
        for out in ("complex64", "complex32", "float8_e5m2", "float32")
    ),
    *(f"-    {op}.correction_out  ({big}, [0], out=torch.zeros((), dtype=torch.{out}))"
      for op in ("std", "var")
      for big in ("x(4).double() * 1e30", "x(4).double() * 1e200", "x(4).to(torch.complex128) * 1e30")
      for out in ("float32", "complex64", "complex32", "float8_e5m2")),
    *(
        f"-    logsumexp.out  ({given}, [0], out=torch.zeros(0, dtype=torch.{out}))"
        for given in (_PARTS.format("complex64"), "x(3,4)", "x(3,4).half()", "x(0,4)", "ints(3,4)")
        for out in ("float32", "float16", "complex64", "complex32", "float8_e5m2")
    ),
]  # fmt: skip

# Bins between numbers whose difference overflows, and between infinities.
BINS = [
    *(f"w    histc  (x(9) * {far} / 3, {bins}, {ends})"
      for far, ends in (("3e38", "0, 0"), ("3e38", "-3e38, 3e38"), ("1e308", "0, 0"), ("1e308", "-1e308, 1e308"))
      for bins in (1, 4)),
    *(f"fc   histc  (x({n}), 4, {ends})"
      for n in (0, 3)
      for ends in ("float('inf'), float('inf')", "-float('inf'), -float('inf')", "1e30, 1e30", "-60000, 60000")),
]  # fmt: skip

# Values near the largest number, whose squares overflow in torch's intermediate steps, and equal values.
LARGE = [
    *(
        f"s    native_group_norm  (({x.format(scale)}){laid}, {given}, 2, 4, 9, {g}, 1e-5)"
        for x in ("x(2,4,3,3) * {0}", "x(2,4,3,3).sign() * {0}", "torch.ones(2,4,3,3) * {0}")
        for scale in ("1e18", "6e18", "1e25", "1e38")
        for given in ("None, None", "p(4), x(4)")
        for g in (1, 2)
        # In channels_last, the order of torch's sums decides whether they overflow, except for values of equal
        # magnitude.
        for laid in ("", *((".to(memory_format=torch.channels_last)",) if scale == "1e18" and "sign" in x else ()))
    ),
    *(f"f    group_norm  (x(2,4,{n}), 2, x(4), {bias}, 1e-5)" for n in (1, 2, 3, 9, 70) for bias in ("x(4)", "None")),
    *(f"s    native_layer_norm  (x(9,{n}).sign() * {scale}, [{n}], None, None, 1e-5)"
      for n in (3, 7, 17, 64)
      for scale in ("1e19", "1e38")),
]  # fmt: skip

# Expanded ``out=`` with another fault: they show which errors torch raises before it checks memory.
_OVER = "torch.zeros(1).to(torch.{0}).expand({1})"
EXPANDED = [
    f"-    {op}  ({args.format(given)}, out={_OVER.format(out, shape)})"
    for op, args, shape in (
        ("sum.IntList_out", "torch.ones(3,4).to(torch.{0}), [0]", "4"),
        ("argmax.out", "torch.ones(3,4).to(torch.{0}), 0", "4"),
        ("std.correction_out", "torch.ones(3,4).to(torch.{0}), [0]", "4"),
        ("mean.out", "torch.ones(3,4).to(torch.{0}), [0]", "4"),
        ("any.out", "torch.ones(3,4).to(torch.{0}), 0", "4"),
        ("cumsum.out", "torch.ones(3,4).to(torch.{0}), 5", "3,4"),
        ("add.out", "torch.ones(3,4).to(torch.{0}), torch.ones(5)", "3,4"),
        ("sub.out", "torch.ones(3,4).to(torch.{0}), torch.ones(3,4).to(torch.{0})", "3,4"),
        ("floor.out", "torch.ones(3,4).to(torch.{0})", "3,4"),
        ("mm.out", "torch.ones(3,4).to(torch.{0}), torch.ones(4,2).to(torch.{0})", "3,2"),
        ("addmm.out", "torch.ones(2).to(torch.{0}), torch.ones(3,4).to(torch.{0}), torch.ones(4,2).to(torch.{0})", "3,2"),
        ("scatter.src_out", "torch.ones(3,4).to(torch.{0}), 0, ints(3,4)*0, torch.ones(3,4).to(torch.{0})", "3,4"),
    )
    for given in ("float32", "int64", "complex64")
    for out in ("float32", "int32")
]  # fmt: skip

# Calls found in a blind audit: error codes of several matrices, integers with floats, strides of size-1 images in
# groups, strided channels_last memory, quantized weights close to a half, complex biases.
_CODES = "torch.stack([torch.eye(2), {0}]).to(x(1).dtype)"
AUDITED = [
    *(
        f"sc   {op}  ({_CODES.format(codes)}{rest}, check_errors=True)"
        for op, rest in (("linalg_cholesky_ex", ""), ("linalg_inv_ex", ""), ("linalg_solve_ex", ", x(3,2,1)"))
        for codes in (
            "-torch.eye(2), torch.diag(torch.tensor([1.,-1.]))",
            "torch.zeros(2,2), torch.diag(torch.tensor([1.,0.]))",
        )
    ),
    *(f"s    replication_pad3d_backward  (x(1,{c},5,5,5), x(1,3,3,3,3), [1]*6)" for c in (2, 4)),
    "s    gru_cell  (ints(1,2), x(1,1), ints(3,2), x(3,1), None, None)",
    "s    rnn_tanh_cell  (ints(1,2), x(1,1), ints(1,2), x(1,1), None, None)",
    "s    lstm_cell  (ints(1,2), [x(1,1), x(1,1)], ints(4,2), x(4,1), None, None)",
    *(
        f"s    convolution_backward  (x(2,2,1,1), x(2,2,1,1).to(memory_format=torch.channels_last){more}, "
        f"x(2,{2 // g},1,1), [0], [1,1], [0,0], [1,1], False, [0,0], {g}, [True,True,False])"
        for g in (1, 2)
        for more in ("", ".contiguous()")
    ),
    *(
        f"s    convolution  (x({n},2,{h},{h}).to(memory_format=torch.channels_last), x({o},{2 // g},1,1){laid}, "
        f"None, [1,1], [0,0], [1,1], False, [0,0], {g})"
        for n, h in ((1, 1), (2, 1), (2, 2))
        for o, g in ((2, 2), (4, 2), (2, 1))
        for laid in ("", ".to(memory_format=torch.channels_last)")
    ),
    *(
        f"s    convolution_backward  (x(2,2,{h},{h},{h}), x(2,2,{h},{h},{h}){laid}, x(2,{2 // g},{k},{k},{k}), "
        f"[0], [1]*3, [{k // 2}]*3, [1]*3, False, [0]*3, {g}, [True,True,False])"
        for h, k in ((1, 1), (2, 1), (3, 3))
        for g in (1, 2)
        for laid in ("", ".to(memory_format=torch.channels_last_3d)")
    ),
    *(
        f"f    native_batch_norm  ((x(2,3,4,4) / 2 + 100).to(memory_format=torch.channels_last){cut}, None, "
        f"None, None, None, True, 0.1, 1e-5)"
        for cut in ("[:,:,::2]", "[:,:,:,::2]", "[:,:2]", "")
    ),
    "-    fbgemm_linear_quantize_weight  (torch.tensor([[0.13333866, 3.4603429], [5.085807, 0.0]]))",
    "-    fbgemm_linear_quantize_weight  (torch.cat([torch.tensor([-1., 1.]), (torch.arange(-300, "
    "300) + 0.5) / 127.5 / 3]).reshape(2, -1))",
    "-    fbgemm_linear_quantize_weight  (torch.cat([torch.tensor([-1., 1.54]), torch.arange(-99, 153) * 0.01 + 0.005]).reshape(2, -1))",
    *(
        f"-    _scaled_mm  (torch.ones(16,16).to(torch.float8_e4m3fn), "
        f"torch.ones(16,16).to(torch.float8_e4m3fn).t(), {scales}, bias=x(16).to(torch.{d}), "
        f"out_dtype=torch.bfloat16)"
        for d in ("complex64", "float64", "int64", "half")
        for scales in ("torch.ones(16,1), torch.ones(1,16)", "torch.tensor(2.0), torch.tensor(0.5)")
    ),
]

# Operands that overlap the written argument: shifted by a column or row in either direction, broadcast, transposed,
# interleaved, in rows longer than a vector, and dense, for which torch raises an error.
_SHIFTED = [
    "(y := p(3,5))[:,1:], y[:,:-1]",
    "(y := p(3,5))[:,:-1], y[:,1:]",
    "(y := p(4,3))[1:,:2], y[:-1,:2]",
    "(y := p(4,3,2))[:,1:], y[:,:-1]",
    "(y := p(3,4)), y[:,:1]",
    "(y := p(3,4))[:,:3], y[0,0]",
    "(y := p(4,5))[:,:4], y[:,:4].t()",
    "(y := p(9))[2::2], y[:-2:2]",
    "(y := p(3,90))[:,1:], y[:,:-1]",
    "(y := p(3,4)), y[0]",
    "(y := p(5))[1:], y[:-1]",
]
OVERLAPPING = [
    *(
        f"{kinds}   {op}  ({given}{more})"
        for kinds, op, more in (
            ("fibc", "copy_", ""),
            ("fibc", "add_.Tensor", ""),
            ("fi", "add_.Tensor", ", alpha=2"),
            ("fic", "sub_.Tensor", ""),
            ("fi", "mul_.Tensor", ""),
            ("f", "div_.Tensor", ""),
            ("fi", "lt_.Tensor", ""),
            ("fi", "logical_and_", ""),
            ("i", "bitwise_xor_.Tensor", ""),
            ("i", "gcd_", ""),
            ("f", "heaviside_", ""),
            ("f", "clamp_min_.Tensor", ""),
            ("f", "lerp_.Scalar", ", 0.5"),
            ("b", "masked_fill_.Scalar", ", True"),
        )
        for given in _SHIFTED
    ),
    *(
        f"fi   {op}  ([{first}], [{other}])"
        for op in ("_foreach_add_.List", "_foreach_copy_", "_foreach_mul_.List")
        for first, other in (given.rsplit(", ", 1) for given in _SHIFTED[:4])
    ),
    *(f"f   addcmul_  ({given}, p(1))" for given in _SHIFTED),
]

TARGETS = OUT + "\n".join(
    (
        *OVERLAPPING,
        *AUDITED,
        *SPARSE,
        *MEMORY,
        *LAYERS,
        *GRIDS,
        *CODE,
        *HELD,
        *NOTHING,
        *INTO,
        *BINS,
        *LARGE,
        *EXPANDED,
        "",
    )
)
