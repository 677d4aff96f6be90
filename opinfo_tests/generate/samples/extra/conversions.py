"""Rows for conversions between dtypes and layouts, and for ``out=`` arguments that torch resizes."""

INF, NAN = "float('inf')", "float('nan')"

# Indices of sparse layouts: unsorted, repeated, batched; empty blocks.
INDICES = [
    *(f"-    _convert_indices_from_coo_to_csr  (torch.tensor({rows}), 6, out_int32={narrow})"
      for rows in ("[0,3,1,5,2]", "[4,0,0,0,0,0,0,5]", "[2]", "[5,4,3,2,1,0]", "[0,0,3]", "[1,5,5,0,0,0,2]", "2")
      for narrow in (False, True)),
    *(f"-    _convert_indices_from_csr_to_coo  (torch.tensor({rows}), torch.tensor({columns}), out_int32={narrow}, "
          f"transpose={turned})"
      for rows, columns in (("[0,2,3]", "[0,1,1]"), ("[[0,2,3],[0,1,3]]", "[[0,1,1],[0,1,2]]"),
          ("[[[0,1],[0,1]],[[0,1],[0,1]],[[0,1],[0,1]]]", "[[[0],[1]],[[2],[3]],[[4],[5]]]"))
      for narrow in (False, True)
      for turned in (False, True)),
    *(f"-    _validate_sparse_bs{by}_tensor_args  (torch.tensor({starts}), torch.tensor({at}), "
          f"torch.zeros({values}), [{size}])"
      for by in "rc"
      for starts, at, values, size in (("[0,1,2]", "[0,1]", "2,2,2", "4,4"), ("[0,1,2]", "[0,1]", "2,0,2", "2,4"),
          ("[0,1,2]", "[0,1]", "2,2,0", "4,2"), ("[0,1,2]", "[0,1]", "2,0,0", "2,2"),
          ("[0,1,2]", "[0,1]", "2,3,2", "4,4"), ("[0,2,2]", "[0,0]", "2,2,2", "4,4"),
          ("[0,2,2]", "[1,0]", "2,2,2", "4,4"))),
    *(f"-    _validate_sparse_coo_tensor_args  (torch.tensor({indices}), torch.zeros({n}), [2,3], {merged})"
      for indices, n in (("[[0,1],[1,0]]", 2), ("[[0,0],[1,1]]", 2), ("[[1,0],[0,1]]", 2), ("[[0,0],[2,1]]", 2),
          ("[[0],[3]]", 1), ("[[-1],[0]]", 1))
      for merged in (None, True, False)),
    *(f"-    requires_grad_  (torch.ones(2, dtype=torch.{dtype}), {on})"
      for dtype in ("int64", "bool", "float32", "complex64", "float8_e5m2")
      for on in (True, False)),
]  # fmt: skip

# Conversions at the limits of dtypes, with numbers at the ends of their ranges and beyond.
ODD = (
    f"torch.tensor([{NAN}, -{NAN}, {INF}, -{INF}, 0., -0., 464., 480., 447.9, 240., 248., 57344., 61440., 65519.999, "
    f"65520., 1e-9, 2**-127, 2**-130, 1 + 2**-11 + 2**-30, 1 + 2**-8 + 2**-30, 1e300, 2**-9 + 2**-40, 448.0000001, "
    f"-3.5], dtype=torch.float64)"
)
NARROW = (
    "float16",
    "bfloat16",
    "float32",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
DTYPES = (*NARROW, "float64", "complex32", "complex64", "complex128", "bool")
NUMBERS = (
    "0.0",
    "-0.0",
    "complex(0.,-0.)",
    "complex(-0.,0.)",
    "complex(0,3e39)",
    "complex(1,1e300)",
    "1j",
    "complex(-0.,1.)",
    "complex(1.,-0.)",
    "complex(1.,0.)",
    INF,
    NAN,
    "-256",
    "-255",
    "256",
    "2**63",
    "2.0**63",
    "-2**63",
    "2**64-1",
    "2**64",
    "-2**63-1",
    "65504.",
    "65520.",
    "449.",
    "1e5",
)
CONVERTED = [
    *(f"-    _to_copy  ({ODD}, dtype=torch.{dtype})" for dtype in DTYPES),
    *(f"-    _to_copy  ({ODD}.to(torch.{one}), dtype=torch.{two})"
      for one in (*NARROW, "complex32", "complex64")
      for two in DTYPES if one != two),
    *(f"-    _to_copy  (torch.complex({ODD}, {ODD}.flip(0)), dtype=torch.{dtype})" for dtype in DTYPES),
    *(f"-    _to_copy  (torch.tensor([2**24+1, 2**53+1, 2049, 257, 2**62+2**38+1, -2**63, 65519, 65520, 465, "
          f"2**40+2**32+1]), dtype=torch.{dtype})"
      for dtype in DTYPES),
    *(f"-    _to_copy  (torch.tensor([{NAN},1.,0.]).to(torch.{one}), dtype=torch.{two})"
      for one in NARROW if one[:6] == "float8" and "uz" in one
      for two in ("int8", "uint8", "int16", "int64", "bool")),
    *(f"-    {op}  ({given}, {number})"
      for op, given in (("fill_.Scalar", "torch.ones(2, dtype=torch.{0})"),)
      for number in NUMBERS
      for given in [given.format(d) for d in ("float32", "uint8", "int64", "float16", "bool", "complex64", "complex32",
          "float8_e4m3fn", "float8_e5m2")]),
    *(f"-    scalar_tensor  ({number}, dtype=torch.{dtype})"
      for number in NUMBERS
      for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "uint8", "complex32")),
    *(f"-    full  ([2], {number}{dtype})"
      for number in NUMBERS
      for dtype in ("", ", dtype=torch.bool", ", dtype=torch.uint8", ", dtype=torch.float8_e4m3fn",
          ", dtype=torch.complex64")),
    *(f"-    {op}  (torch.ones({shape}, dtype=torch.{one}), {number})"
      for op in ("result_type.Scalar", "mul.Scalar")
      for shape in ("2", "0", "()")
      for one in ("uint8", "int64", "float32", "bfloat16", "bool", "float8_e5m2", "uint16")
      for number in ("2**63", "1j", "1.5", "True", "2")),
    *(f"-    {op}  (torch.ones({a}, dtype=torch.{one}), torch.ones({b}, dtype=torch.{two}))"
      for op in ("result_type.Tensor", "add.Tensor")
      for a, b in (("2", "()"), ("0", "2"), ("0", "()"))
      for one in ("uint8", "bfloat16", "float8_e5m2", "uint16", "bool", "float16")
      for two in ("complex128", "complex64", "float8_e5m2", "float64", "uint16", "int8", "bfloat16")),
]  # fmt: skip

# Calls whose ``out=`` or in-place argument has another shape or dtype than the result: torch resizes, broadcasts, casts
# or raises.
WRITTEN = [
    *(f"-    abs.out  (torch.ones(2, dtype=torch.{one}), out=torch.zeros(2, dtype=torch.{two}))"
      for one in ("complex64", "complex128", "float32", "int64")
      for two in ("complex64", "complex128", "float32", "float64", "int64", "bool")),
    *(f"-    {op}  (torch.tensor([1.,0.]), {rest}out=torch.zeros({n}, dtype=torch.{two}))"
      for op, rest, n in (("all.out", "0, ", "()"), ("any.out", "0, ", "()"), ("all.all_out", "", "()"),
          ("any.all_out", "", "()"), ("isposinf.out", "", "2"), ("isneginf.out", "", "2"), ("signbit.out", "", "2"),
          ("isinf.out", "", "2"))
      for two in ("bool", "uint8", "int64", "float32", "complex64")),
    *(f"-    {op}  ({given}, out=torch.zeros({n}, dtype=torch.{two}))"
      for op, given in (("sum.IntList_out", "torch.ones(2,3, dtype=torch.{0}), [1]"),
          ("mean.out", "torch.ones(2,3, dtype=torch.{0}), [1]"), ("prod.int_out",
          "torch.ones(2,3, dtype=torch.{0}), 1"), ("cumsum.out", "torch.ones(2, dtype=torch.{0}), 0"),
          ("norm.out", "torch.ones(2,3, dtype=torch.{0}), 2, [1]"),
          ("softmax.int_out", "torch.ones(2, dtype=torch.{0}), 0"))
      for given in [given.format(d) for d in ("int64", "float32", "bool", "complex64")]
        for n, two in (("2", "int64"), ("2", "float32"), ("2", "bool"), ("2", "float64"), ("3", "uint8"),
            ("0", "complex64"))),
    *(f"s    {op}  ({target}{rest})"
      for op, rest in (("neg_", ""), ("abs_", ""), ("ceil_", ""), ("sigmoid_", ""), ("erf_", ""), ("relu_", ""),
          ("clamp_", ", -9, 9"), ("clamp_", ", 0, 1"), ("fill_.Scalar", ", 2"), ("masked_fill_.Scalar", ", m(2,3), 2"),
          ("fill_diagonal_", ", 2."), ("index_fill_.int_Scalar", ", 0, torch.tensor([0]), 1"), ("copy_", ", x(2,3)"),
          ("div_.Tensor", ", x(2,3)"), ("div_.Tensor", ", x(4,2,3)"), ("logical_and_", ", x(4,2,3)"),
          ("bitwise_and_.Tensor", ", x(4,2,3)"))
      for target in ("x(1,3).expand(2,3)", "torch.ones(1,3,dtype=torch.int64).expand(2,3)", "x(2,1).expand(2,3)",
            "torch.ones(2,3,dtype=torch.bool)", "torch.ones(2,3,dtype=torch.int64)",
            "torch.ones(1,3).half().expand(2,3)")),
    *(f"s    {op}  ({target}, {p}, {train})"
      for op in ("dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_")
      for target in ("x(1,3).expand(2,3)", "x(1,3).half().expand(2,3)", "torch.ones(1,3,dtype=torch.int64).expand(2,3)")
      for p, train in ((0.5, False), (0.0, True), (1.0, True))),
    *(f"s    {op}  ({target}{rest})"
      for op, rest in (("float_power_.Scalar", ", 2"), ("cumsum_", ", 0"), ("cumsum_", ", 0, dtype=torch.float64"),
          ("cumprod_", ", 0"), ("mvlgamma_", ", 1"), ("addmv_", ", x(3,2), x(2)"),
          ("addmv_", ", x(3,2).double(), x(2).double()"), ("baddbmm_", ", x(1,3,2), x(1,2,2)"))
      for target in ("x(3)", "x(2)", "torch.ones(3, dtype=torch.int64)", "torch.ones(2, dtype=torch.int64)",
          "torch.ones(2, dtype=torch.bool)", "x(1).expand(3)", "x(1,3,2)", "x(3).double()", "x(1,2,2).int()")),
    *(f"-    {op}  ({given}, out=torch.zeros({n}, dtype=torch.{dtype}))"
      for op, given in (("linspace.out", "0., 1., 4"), ("arange.out", "4"), ("range.out", "0., 3."), ("eye.out", "2"),
          ("full.out", "[4], 2.5"), ("logspace.out", "0., 1., 4"))
      for n in ("4", "2,2", "0", "5", "4,1")
      for dtype in ("float32", "int64", "complex64")),
    *(f"-    {op}  (torch.ones(2,3, dtype=torch.{one}), [1], {rest}out=torch.zeros(2, dtype=torch.{two}))"
      for op, rest in (("mean.out", ""), ("sum.IntList_out", ""), ("std.out", "True, "), ("logsumexp.out", ""),
          ("nansum.out", ""))
      for one in ("int64", "bool", "float32")
      for two in ("bool", "int64", "float32")),
    *(f"s    {op}  ({given}, {out}={target})"
      for op, given, out in (*((f"_upsample_{kind}2d_aa.out", "x(1,1,2,2), [2,2], False", "out")
          for kind in ("bilinear", "bicubic", "lanczos")), ("upsample_bicubic2d_backward.grad_input",
          "x(1,1,2,2), [2,2], [1,1,2,2], False", "grad_input"))
      for target in ("x(1,1,1,2).expand(1,1,2,2)", "x(1,1,2,1).expand(1,1,2,2)", "x(1,1,2,2)", "x(1)")),
    *(f"s    {op}  (**(lambda m: {{'{first}': m[:, :, :2], 'output_size': [2,2], {size}'align_corners': False, "
          f"'{out}': m[:, :, {start}:{start}+2]}})(x(1,1,3,2)))"
      for op, first, size, out in (*((f"_upsample_{kind}2d_aa.out", "self", "", "out")
          for kind in ("bilinear", "bicubic", "lanczos")), ("upsample_bicubic2d_backward.grad_input", "grad_output",
          "'input_size': [1,1,2,2], ", "grad_input"))
      for start in (0, 1)),
    *(f"s    copy_  (*(lambda a: (a, a{turn}))(x(1,3).expand(3,3)))" for turn in ("", ".clone()", ".mT", "[:]")),
    *(f"s    {op}  ({self}, {rest})"
      for op, rest in (("addmm_", "x(2,4), x(4,3)"), ("addmm_", "x(2,4).double(), x(4,3).double()"),
          ("addbmm_", "x(2,2,4), x(2,4,3)"), ("addbmm_", "m(2,2,4), m(2,4,3)"), ("addr_", "x(2), x(3)"),
          ("addr_", "x(4), x(3)"), ("addmm_", "m(2,4), m(4,3)"), ("addmm_", "x(5,4), x(4,3)"))
      for self in ("x(1,3).expand(2,3)", "x(2,3)", "x(3)", "m(1,3).expand(2,3)", "x(1,1).expand(2,3)")),
    *(f"s    {op}  ({given}out=x({n}){grown})"
      for op, given, n in (("linalg_inv.out", "torch.eye(2), ", 2), ("linalg_cholesky.out", "torch.eye(2), ", 2),
          ("triu.out", "x(2,2), ", 2), ("renorm.out", "x(2,2), 2, 0, 1., ", 2), ("cumsum.out", "x(2,2), 0, ", 2),
          ("index_add.out", "x(2,2), 0, torch.tensor([0,1]), x(2,2), ", 2),
          ("scatter.src_out", "x(2,2), 0, torch.tensor([[0,1]]), x(1,2), ", 2), ("angle.out", "x(2,2), ", 4),
          ("dot.out", "x(2), x(2), ", 1), ("take.out", "x(4), torch.tensor([[0,1],[2,3]]), ", 4),
          ("masked_select.out", "x(2,2), torch.ones(2,2,dtype=torch.bool), ", 4))
      for grown in ("", ".expand(2,2)", "[:, None]", "[None]") if n < 4 or "(" not in grown),
    *(f"s    {op}.out  ({given}, out=torch.zeros({n}))"
      for op, given in (("mm", "x(2,3).t().contiguous().t(), x(3,2)"),
          ("matmul", "x(2,3), x(3,2).t().contiguous().t()"), ("linalg_inv", "torch.eye(2) * 2"),
          ("add", "x(2,3).t().contiguous().t(), x(2,3).t().contiguous().t()"), ("matmul", "x(2,3,2), x(2,2,2)"))
      for n in ("0", "5", "2,2,2")),
]  # fmt: skip

CONVERSIONS = "\n".join([*INDICES, *CONVERTED, *WRITTEN]) + "\n"
