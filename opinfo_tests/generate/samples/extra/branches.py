"""Rows that run branches of kernels, or expose mutants, that no other sample runs or exposes."""

from itertools import product

LAST = ".to(memory_format=torch.channels_last)"

# Branches of kernels that no other sample takes: singular matrices, rows of unequal size, batches that are processed in
# parts, many elements, two fill values of a mask.
HOLED = "x(3,3).{half}() * (1 - torch.diag(torch.tensor({row}))).to(x(1).dtype)"
# Calls whose ``out=`` has another dtype than the result. In some of these dtypes torch computes the reduction, for
# others it fills ``out=`` with a number, and for the rest it raises an error late.
_DTYPES = ("uint8", "int8", "uint16", "float16", "float32", "float64", "complex32", "complex64", "float8_e4m3fn")
_FEW = "torch.tensor([0.5, 1e-45, 256.0, -7.25])"
_FAR = "(1e6 + torch.arange(4.0, dtype=torch.float64))"
INTO = [
    f"s    {op}  ({args}, out=torch.zeros({size}, dtype=torch.{dtype}))"
    for (op, args, size), dtype in product(
        [
            *((f"{op}.{way}", f"{_FEW}{more}", "()")
              for op in ("any", "all")
              for way, more in (("all_out", ""), ("out", ", 0"), ("dims_out", ", [0]"))),
            *((f"{op}.out", f"p(40).bfloat16(), x(40).bfloat16(), {reduction}{more}", "()")
              for op, more in (("mse_loss", ""), ("huber_loss", ", 0.5"), ("smooth_l1_loss", ", 0.5"))
              for reduction in (1, 2)),
            *((f"{op}.unary_out", x, "()")
              for op in ("min", "max")
              for x in ("torch.tensor([300, 301])", "torch.tensor([1e200, 1e201]).double()")),
            *((f"{op}.out", f"{x}, [-1]", size)
              for op in ("std", "var")
              for x, size in ((_FAR, "()"), (f"torch.complex({_FAR}, {_FAR})", "()"), ("x(3,4)", "3"))),
            *((f"{op}.correction_out", f"{_FAR}, None, correction=0", "()") for op in ("std", "var")),
            ("mean.out", "x(3,4).half(), [1]", "3"), ("logsumexp.out", "x(3,4), [1]", "3"), ("bernoulli.out", "p(4)*0", "4"),
            ("logical_not.out", "x(4)", "4"), ("linalg_matrix_rank.out", "torch.eye(3), 0.5", "()"), ("mv.out", "x(3,4), x(4)", "3"),
        ],
        _DTYPES,
    )
]  # fmt: skip

WAYS = [
    *(f"-    _convert_indices_from_csr_to_coo  (torch.tensor({rows}), torch.tensor({columns}), out_int32={narrow}, "
          f"transpose={turned})"
      for rows, columns in (("[[0,1,3],[0,2,3]]", "[[1,0,1],[0,1,0]]"),)
      for narrow, turned in product((False, True), (False, True))),
    *(f"fib  {op}  (x({shape}), {dim}, ints({n})*0, x({source}))"
      for op in ("index_add", "index_add_", "index_copy")
      for shape, dim, n, source in (("0", 0, 0, "0"), ("3,0", 0, 2, "2,0"), ("0,3", 0, 0, "0,3"),
          ("0,3", 1, 2, "0,2"))),
    *(f"f    is_set_to  ((a := x(2,2)), {other})" for other in ("a", "a.t()", "a[:1]", "a[1:]", "a.view(4)", "a.clone()", "a.detach()")),
    *(f"f    {op}  (x(4,2,2), [{states}], [x(12,2), x(12,3)], False, 1, 0.0, False, False, False)"
      for op in ("lstm.input",)
      for states in ("x(1,2,3)", "x(1,2,3), x(1,2,3)", "x(1,2,3), x(1,2,3), x(1,2,3)")),
    *(f"s    lstm_cell  (x(2,2), [{states}], x(12,2), x(12,3))" for states in ("x(2,3)", "x(2,3), x(2,3)", "x(2,3), x(2,3), x(2,3)", "")),
    *(f"s    _native_multi_head_attention  ({', '.join(f'x({n})' for n in sizes)}, {d}, {heads}, x({3 * d},{d}), "
          f"x({3 * d}), x({d},{d}), x({d}))"
      for sizes, d, heads in ((("3,6",) * 3, 4, 2), (("2,3,6",) * 3, 4, 2), (("2,3,4",) * 3, 4, 3),
          (("2,3,4", "2,5,4", "2,3,4"), 4, 2), (("2,3,4",) * 2 + ("2,5,4",), 4, 2))),
    *(f"s    replication_pad{n}d_backward.grad_input  (x({lead},{wide}), x({lead},{thin}), {[1] * 2 * n}, "
          f"grad_input=torch.zeros({lead},{thin}, dtype=torch.{dtype}))"
      for n, wide, thin in ((1, "6", "4"), (2, "6,6", "4,4"), (3, "6,6,6", "4,4,4"))
      for lead in ("0,2", "2,0", "1,2")
      for dtype in ("int64", "float64", "float32")),
    *(f"f    roll  (x(0,3), {shifts}, {dims})" for shifts, dims in (("[1,2]", "[0]"), ("[1]", "[]"), ("[1]", "[0]"), ("[]", "[]"))),
    *(f"fib  resize  (x(2,3){turned}, {size})"
      for turned in (".t()", "[:,1:]", ".expand(2,2,3)[:,0]")
      for size in ("[2,3]", "[3,2]", "[4]", "[7]")),
    *(f"f    {op}  (x(3), {target}, {rest})"
      for op, target, rest in (("multi_margin_loss", "torch.tensor(1)", "1, 1.0, None, {}"),
          ("multi_margin_loss", "torch.tensor([1])", "1, 1.0, None, {}"),
          ("multilabel_margin_loss", "torch.tensor([1,-1,0])", "{}"))
      for rest in map(rest.format, (0, 1, 2))),
    *(f"s    _weight_norm_interface_backward  "
          f"({', '.join(spread if i == turn else dense for i, (dense, spread) in enumerate(given))}, 0)"
      for given in [(("x(2,3)", "x(2,6)[:,::2]"), ("x(2,3)", "x(4,3)[::2]"), ("x(2,1)", "x(4,1)[::2]"),
          ("p(2,1)", "p(4,1)[::2]"))]
      for turn in (-1, 1, 2, 3)),
    *(f"s    {op}  ([ints(3).to(torch.{a}), torch.zeros(0,dtype=torch.{b})])"
      for op in ("cat", "concat", "hstack")
      for a, b in (("int32", "float64"), ("float32", "complex64"), ("bool", "int8"), ("float16", "bfloat16"))),
    *(f"s    special_{op}  (x(2).{dtype}(), torch.tensor([{n}.0, {n + 1}.0]))"
      for op in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
          "chebyshev_polynomial_t")
      for dtype, n in (("double", 127), ("double", 200), ("double", 511), ("double", 513), ("float", 127),
          ("float", 129))),
    *(f"s    native_batch_norm_backward  ({grad}, {image}, None, None, None, torch.zeros(5), torch.ones(5), True, "
          f"1e-5, [True,True,True])"
      for image in ("x(2,3,4,5).permute(0,3,1,2)", "x(2,5,3,4)")
      for grad in ("torch.ones(2,5,3,4).half()", "torch.ones(2,3,4,5).half().permute(0,3,1,2)", "x(2,5,3,4)",
          "x(2,3,4,5).permute(0,3,1,2)")),
    *(f"fi   addmv  ({base}, x({m}), x({n}), beta={beta})"
      for base in ("x(1).sum()", "x(1)", "x(3)")
      for m, n in (("3,0", "0"), ("3,2", "2"))
      for beta in (0, 2)),
    *(f"fib  addr  (x(2,2), x(2), x(2), beta={beta}, alpha={alpha})"
      for beta in ("True", "False", "2")
      for alpha in ("True", "False", "0", "2")),
    *(f"f    rrelu_with_noise_backward  (x(3), x(3), p(3), {low}, {high}, {training}, {own})"
      for low, high in ((-0.3, 0.1), (0.1, 0.3), (0.25, 0.25))
      for training, own in product((False, True), (False, True))),
    *(f"sc   linalg_solve_triangular  ({HOLED.format(half=half, row=row)}, x(3,2), upper={half == 'triu'}, unitriangular={unit})"
      for half, row, unit in product(("triu", "tril"), ("[1,0,0]", "[1,1,1]", "[0,0,1]"), (False, True))),
    *(f"sc   triangular_solve  (x(3,2), {HOLED.format(half=half, row=row)}, {half == 'triu'}, {turned})"
      for half, row, turned in product(("triu", "tril"), ("[1,0,0]", "[1,1,1]", "[0,0,1]"), (False, True))),
    *(f"f    {op}  ({given}, {dim}, False)" for op, dim in product(("_softmax", "_log_softmax"), (1, 0))
      for given in ("torch.cat([x(40,900), x(40,900) - 800])", "torch.cat([x(700,60), x(700,60) - 800], 1)",
            "torch.cat([x(60,1500), x(60,1500) - 800]).t()")),
    *(f"f    segment_reduce  (x(2,4,2), '{reduce}', lengths=torch.tensor({lengths}), axis=1, unsafe={unsafe}, initial={initial})"
      for reduce, (lengths, unsafe), initial in product(("sum", "mean", "max", "min", "prod"),
            (("[[1,2],[2,2]]", True), ("[[0,4],[3,1]]", False)), (None, 0.5))),
    *(f"fi   native_batch_norm  (x(2,2,3).permute(2,1,0), {given}, None, None, True, 0.1, 1e-5)" for given in ("None, None", "x(2), x(2)")),
    *(f"f    native_batch_norm  (x(8,1), None, None, x({size}).sum({dim}), p({size}).sum({dim}), {training}, 0.1, "
          f"1e-5)"
      for (size, dim), training in product((("1", ""), ("1", "0"), ("1,1", "0")), (False, True))),
    *(f"f    rrelu{end}  (x(3,4), {low}, {high}, {training}, g())"
      for end, (low, high), training in product(("", "_"), ((0.25, 0.25), (0.5, 0.25), (0, 0), (1, 2)), (False, True))),
    *(f"s    prims::{op}  (x(2,3){kind}, dim={dim}{rest})"
      for op, kind, rest in (("fft_r2c", "", ", onesided=True"), ("fft_r2c", "", ", onesided=False"),
          ("fft_c2c", ".cfloat()", ", forward=True"), ("fft_c2r", ".cfloat()", ", last_dim_size=3"))
      for dim in ("[1,-1]", "[-2,0]", "[0,1]", "[1]")),
    *(f"s    stft  (x(8), {n}, 2, {n}, x({n}), False, {onesided}, True)" for n, onesided in product((8, 7, 9), (False, True))),
    *(f"i    smooth_l1_loss_backward  (x({grad}), x(3,40), x(3,40), {reduction}, {beta})"
      for grad, reduction in (("3,40", 0), ("1", 1), ("1", 2))
      for beta in (1.0, 2.0)),
    *(f"fc   tensordot  ({a}, {b}, {da}, {db})"
      for a, b, da, db in (("x(1).sum()", "x(3)", "[]", "[]"), ("x(2,3)", "x(1).sum()", "[]", "[]"),
          ("x(1).sum()", "x(1).sum()", "[]", "[]"), ("x(2,3)", "x(1,4)", "[1]", "[0]"),
          ("x(2,1)", "x(3,4)", "[1]", "[0]"))),
    *(f"fi   {op}  (x({shape}, low=-1, high=1), {dim})"
      for op, (shape, dim) in product(("cumsum", "cumprod"), (("3,7,150", 1), ("3,5000", 1), ("5000,3", 0),
          ("2,3,5000", 2)))),
    *(f"f    linalg_vector_norm  (x({shape}), {ord}, {dim}, {keep})"
      for shape, dim, keep in (("3,4", "[1]", False), ("3,0", "[0]", True), ("3,4", "None", False))
      for ord in (1e39, -1e39, 1e300)),
    *(f"f    _masked_softmax  (x(2,3,5,5), m({mask}), 3, {kind})"
      for mask, kind in product(("5,5", "2,5", "3,5", "2,3,5,5"), ("0", "1", "2", "3", "None"))),
    *(f"s    linalg_lstsq  ({a}, {b}, driver='gels')"
      for a, b in (("x(3,2) * float('nan')", "x(3,1)"), ("x(3,2)", "x(3,1) * float('nan')"))),
    *(f"sc   linalg_lstsq  ({a}, {b}, driver='{driver}')"
      for driver in ("gels", "gelsy", "gelsd", "gelss")
      for a, b in (("x(0,2)", "x(0,1)"), ("x(2,3,2)", "x(3,1)"), ("x(3,2)", "x(2,3,1)"), ("x(2,3)", "x(2)"))),
    *(f"-    _validate_compressed_sparse_indices  ({rows}, torch.tensor({starts},dtype=torch.{a}), "
          f"torch.tensor({numbers},dtype=torch.{b}), 2, 2, {nnz})"
      for rows in (True, False)
      for starts, numbers, nnz in (("[0,1,2]", "[0,1]", 2), ("[0,2,2]", "[1,0]", 2), ("[0,2,1]", "[0,1]", 1),
          ("[0,1,2]", "[0,2]", 2), ("[1,1,2]", "[0,1]", 2), ("[0,1,3]", "[0,1]", 2), ("[0,1]", "[0,1]", 2),
          ("[0,1,2]", "[0]", 2))
      for a, b in (("int64", "int64"), ("int32", "int64"), ("int64", "int32"), ("int32", "int32"),
          ("float32", "float32"))),
    *(f"f    multinomial  (x({shape}, low=0), {n}, {again}, generator=g())"
      for shape in ("0,3", "2,0", "3", "2,3", "0", "1,1")
      for n in (0, 1, 2, 4)
      for again in (False, True)),
    *(f"s    convolution  (x(8,16,40,40){last}, x(8,{16 // groups},3,3), x(8), [{stride},{stride}], [1,1], "
          f"[{dilation},{dilation}], {turned}, [0,0], {groups})"
      for last, stride, dilation, groups, turned in (("", 1, 1, 1, False), (LAST, 1, 1, 1, False), ("", 2, 2, 1, False),
          ("", 1, 1, 8, False), (LAST, 2, 1, 2, False))),
    *(f"s    convolution  (x(8,16,20,20), x(16,{8 // groups},3,3), x(8), [{stride},{stride}], [1,1], [1,1], True, "
          f"[0,0], {groups})"
      for stride, groups in ((1, 1), (2, 1), (2, 4))),
    *(f"s    convolution_backward  (x(8,8,{out},{out}), x(8,16,40,40){last}, x(8,{16 // groups},3,3), [8], "
          f"[{stride},{stride}], [1,1], [1,1], False, [0,0], {groups}, [True,True,True])"
      for last, stride, out, groups in (("", 1, 40, 1), (LAST, 1, 40, 1), ("", 2, 20, 1))),
    *(f"si   sum.dim_IntList  (x(3,4,5) * 99, {dims}, dtype=torch.{d})"
      for dims in ("[0,2]", "[0]", "[1,2]")
      for d in ("float16", "bfloat16")),
    *(f"f    {op}  (x({n}), torch.tensor([float('nan'), -9., 1., 9.]).repeat({n})[:{n}].to(x(1).dtype), {rest})"
      for n in (4, 20, 37)
      for op, rest in (("hardtanh_backward", "0, 6"), ("threshold_backward", "0.5"), ("hardshrink_backward", "0.5"),
          ("softshrink_backward", "0.5"), ("hardsigmoid_backward", ""), ("hardswish_backward", ""))),
    *(f"fi   {op}  (x({a}), x({b}), x({c}))"
      for op, a, b, c in (("baddbmm_", "1,1,3", "1,3,4", "1,4,3"), ("baddbmm_", "1,3,1", "1,3,4", "1,4,3"),
          ("baddbmm_", "3,3", "1,3,4", "1,4,3"), ("addbmm_", "1,3", "2,3,4", "2,4,3"), ("addmm_", "1,3", "3,4", "4,3"),
          ("addmv_", "1", "3,4", "4"), ("addr_", "1,3", "3", "3"))),
    *(f"f    {op}  ({image}, x(2), x(2), x(2), p(2), {training}, {momentum}, 0.5)"
      for op in ("native_batch_norm", "_native_batch_norm_legit")
      for image in ("x(3,2,3,5)[...,:4]", "x(3,2,4,3).mT", "x(3,2,3,4,5)[...,:4]", "x(3,4,2)[:,::2].mT")
      for training in (True, False)
      for momentum in (-1.0, 0.1)),
    *(f"f    _scaled_dot_product_attention_math  (x(2,2,4,4), x(2,2,4,4), x(2,2,4,4), {mask}, enable_gqa={shared})"
      for mask in ("m(2,4,4)", "m(1,4,4).expand(2,4,4)", "m(4,4)", "m(4)", "x(2,4,4)", "x(1,4)")
      for shared in (False, True)),
    *(f"s    linalg_lu_factor.out  (x({size}), pivot={pivot}, LU=torch.zeros({size}){turned}, "
          f"pivots=torch.zeros({pivots}, dtype=torch.int32))"
      for size, pivots in (("3,6,5", "3,5"), ("6,5", "5"), ("4,4", "4"))
      for pivot in (True, False)
      for turned in ("", ".mT.contiguous().mT")),
    *(f"fi   {op}  (x(4,5), {size}, {stride}{offset})"
      for op in ("as_strided_", "as_strided", "as_strided_copy")
      for size, stride in (("[-1]", "[1]"), ("[2]", "[-1]"), ("[2]", "[0]"), ("[3,-2]", "[1,1]"))
      for offset in ("", ", 0", ", -1", ", 19")),
    *(f"fib  {op}  (x({n}), [2], [{stride}], {offset})"
      for op in ("as_strided_copy", "as_strided")
      for n in ("0", "1", "0,3")
      for stride in (0, 1)
      for offset in ("None", "0", "1")),
    *(f"f    {op}  (torch.tensor({v}).to(x(1).dtype), {rest})"
      for v in ("1e30", "-1e4", "3.0")
      for op, rest in (*(("norm.ScalarOpt_dim", f"{p}, [{d}], {keep}") for p in ("None", 2.0, 3.0) for d in (-1, 0)
          for keep in (True, False)), ("linalg_vector_norm", "2.0, [0]"), ("linalg_vector_norm", "2.0, -1"),
          ("linalg_vector_norm", "3, None, True"))),
    *(f"s    {op}_embedding_loss  ({a}, {b}, -torch.ones(40), {margin}, {reduction})" if op == "cosine"
          else f"s    hinge_embedding_loss  ({a}, -torch.ones(40), {margin}, {reduction})"
      for op in ("cosine", "hinge")
      for a, b in (("x(40,3)", "x(40,3).bfloat16()"), ("x(40,3).half()", "x(40,3).half()"),
          ("x(40,3).bfloat16()", "x(40,3)"))
      for margin in (0.0, -0.9)
      for reduction in (0, 1, 2)),
    *(f"f    grid_sampler_2d  (x(1,2,3,4), x(1,1,6,2) * {times}, {mode}, 2, {align})"
      for times in ("1e3", "1e4", "1e7", "1e18")
      for mode in (0, 1, 2)
      for align in (False, True)),
    *(f"s    _scaled_dot_product_flash_attention_for_cpu  (x(3,4,4,4).to({dtype}), x(3,2,1,4).to({dtype}), "
          f"x(3,2,1,4).to({dtype}), 0.0, scale=0.3)"
      for dtype in ("torch.float8_e5m2", "torch.float8_e4m3fn", "torch.float16", "torch.float64")),
    *(f"fic  einsum  ('{equation}', [{', '.join(f'x({n})' for n in sizes)}])"
      for equation, *sizes in (("ii", "3,3"), ("ji", "2,3"), ("iij", "2,2,3"), ("iji", "2,3,2"), ("i,i", "3", "3"),
          ("ij,jk", "2,3", "3,4"), ("ij,kj", "2,3", "4,3"), ("ij,ij", "2,3", "2,3"), ("ii,i", "3,3", "3"),
          ("...i", "2,3"), ("i...", "2,3"), ("...ii", "2,3,3"), ("b...,b...", "2,3", "2,3"), ("Ba,aB", "2,3", "3,2"),
          ("ii->i", "3,3"), ("ii->", "3,3"))),
    *(f"s    _fft_c2c  (torch.complex(x({n}).float(), x({n}).float()), [], {norm}, {forward})"
      for n in ("2", "2,3")
      for norm in (0, 1)
      for forward in (True, False)),
    *(f"f    {op}  ({sizes}, {steps})"
      for op in ("empty_strided",)
      for sizes, steps in (("[0]", "[-1]"), ("[0,2]", "[1,-1]"), ("[1]", "[-1]"), ("[2,0]", "[-3,-1]"), ("[2]", "[-1]"),
          ("[2]", "[1,1]"))),
    *(f"f    _grouped_mm  ({a}, {b}, {offs})"
      for a, b in (("x(8,8)", "x(1,8,8)"), ("x(2,8,8)", "x(2,8,8)"), ("x(8,8)", "x(8,8)"), ("x(2,8,8)", "x(8,8)"))
      for offs in ("None", "torch.tensor([[8]])", "torch.tensor([8])", "torch.tensor([[8]], dtype=torch.int32)",
          "torch.tensor([4,8], dtype=torch.int32)")),
    *(f"fs   histc  (x(1) * 0 + torch.zeros({n}).to(x(1).dtype), 2, 0, 1)" for n in (200, 300, 3000, 70000)),
    *(f"f    {op}  (torch.tensor([-0.0, 1.0, -0.0, 0.0]).to(x(1).dtype).reshape({shape}), [{sizes}])"
      for op, shape, sizes in (("_adaptive_avg_pool2d", "1,1,1,4", "1,4"), ("_adaptive_avg_pool2d", "1,2,2", "2,2"),
          ("_adaptive_avg_pool2d", "1,1,4", "1,2"), ("_adaptive_avg_pool3d", "1,1,1,1,4", "1,1,4"),
          ("adaptive_avg_pool1d", "1,1,4", "4"), ("avg_pool2d", "1,1,4", "1,1"), ("avg_pool1d", "1,4", "1"),
          ("avg_pool3d", "1,1,1,4", "1,1,1"))),
    *(f"s    _amp_update_scale_  (torch.tensor({first}{scale}{last}), torch.tensor({first}{step}{last}, "
          f"dtype=torch.int32), torch.tensor({first}{found}{last}), 2.0, 0.5, 1)"
      for first, last in (("", ""), ("[", "]"))
      for scale in ("3e38", "1.0", "1e-45")
      for step in (0, 1)
      for found in (0.0, 1.0)),
    *(f"fibc matmul  (x({a}){turned}, x({b}))"
      for a, turned, b in (("3,2,4", ".permute(2,1,0)", "3,0"), ("3,2,4", ".permute(2,1,0)", "3,2"),
          ("4,2,3", "", "3,0"), ("4,0,3", "", "3,2"), ("0,2,3", "", "3,2"), ("2,0", "", "0,2"), ("4,2,0", "", "0,2"))),
    *(f"s    upsample_nearest1d.out  ((s := torch.arange(4.))[{a}].reshape(1,{n},{m}), [{m}], "
          f"out=s[{b}].reshape(1,{n},{m}))"
      for a, b, n, m in ((":3", "1:", 3, 1), (":2", "2:", 2, 1), (":3", "1:", 1, 3), (":2", "2:", 1, 2))),
    *(f"f    addmm  (x({bias}), x({a}), x({b}))"
      for bias in ("2", "2,2", "")
      for a, b in (("2,3", "4,2"), ("2,3", "2,2"), ("2,0", "1,2"), ("0,3", "2,2"), ("2,3", "4"), ("3", "3,2"))),
    *(f"-    full  ([{n}], {v}{dtype})"
      for n in (1, 2)
      for v in (2**63, 2**64 - 1, -(2**63))
      for dtype in ("", ", dtype=torch.uint64", ", dtype=torch.float32", ", dtype=torch.int64")),
    *(f"-    view.dtype  (torch.arange(24, dtype=torch.{a}).as_strided({window}), torch.{b})"
      for a, b in (("int32", "int64"), ("int64", "int32"), ("uint8", "float32"), ("float16", "complex64"))
      for window in ("(1,4), (3,1)", "(1,4), (4,1)", "(1,4), (0,1)", "(2,1,4), (8,3,1)", "(1,), (3,)", "(1,1), (3,1)",
          "(4,1), (1,1)", "(2,4), (5,1)", "(1,4), (4,1), 1")),
    *(f"f    special_hermite_polynomial_{kind}.n_scalar  (x(3) * 0.1, {n})"
      for kind in ("he", "h")
      for n in (127.0, 128.0, 129.0, 140.0, 511.0, 512.0, 513.0)),
    *(f"f    linalg_vector_norm  (x({shape}), {p}, [{dim}])"
      for shape, dim in (("0,3", 1), ("3,0", 0), ("2,0,3", 2), ("0,3", 0), ("3,0", 1))
      for p in ("float('inf')", "-float('inf')", 2.0, 0.0)),
    *(f"f    gradient.{op}  (x(4,5), spacing=[{', '.join(spacing)}]{dim}, edge_order={edge})"
      for op, spacing, dim in (("tensorarray", ("torch.tensor([0.,1.,3.,7.]).to(x(1).dtype)",
          "torch.tensor([0.,1.,3.,7.,9.]).to(x(1).dtype)"), ", dim=[0,1]"),
          ("tensorarrayint", ("torch.tensor([0.,1.,3.,7.]).to(x(1).dtype)",), ", dim=0"),
          ("tensorarrayint", ("torch.tensor([0.,2.,3.,7.,8.]).to(x(1).dtype)",), ", dim=-1"))
      for edge in (1, 2)),
    *(f"f    multinomial  (torch.tensor({weights}).to(x(1).dtype), {n}, {again}, generator=g())"
      for weights in ("[[1.,2.],[0.,0.]]", "[[0.,0.],[1.,2.]]", "[[0.,1.],[1.,0.]]", "[0.,0.]")
      for n in (1, 2)
      for again in (False, True)),
    *(f"f    {op}  (x(4), [x(4).abs().long() % 4], (x(4){source}), {add})"
      for op in ("index_put_", "index_put")
      for source in ("", "[:1]", "[0]")
      for add in (False, True)),
    *(f"f    index_put_  ((a := x(4)), [torch.arange(3)], a[{window}], {add})"
      for window in ("1:", ":3", "::2", "3:")
      for add in (False, True)),
    *(f"s    linalg_lu_solve  (x({n},{n}), torch.full(({n},), {pivot}, dtype=torch.int32), x({n},{m}), left={left})"
      for n, m in ((3, 0), (0, 2), (2, 2))
      for pivot in (0, 1, 9)
      for left in (True, False)),
    *(f"fi   to.dtype  (x(2,3,4,5){last}, {dtype}, False, {copy}, memory_format=torch.{name})"
      for last in ("", LAST, ".permute(3,2,1,0)")
      for dtype in ("x(1).dtype", "torch.float64")
      for copy in (False, True)
      for name in ("contiguous_format", "preserve_format", "channels_last")),
    *(f"f    _unsafe_masked_index  (x(4), m({n}), [torch.zeros({n}, dtype=torch.{dtype})], 0)"
      for n in (0, 3)
      for dtype in ("int64", "int32", "int16", "float32", "bool", "uint8")),
    *(f"f    _pack_padded_sequence_backward  (x(3,2), [{sizes}], torch.tensor([2,1]), {first})"
      for sizes in ("2,2,2", "-1,2,2", "2,-1,2", "2,2", "")
      for first in (False, True)),
    *(f"fi   einsum  ('{equation}', [{', '.join(f'x({n})' for n in sizes)}])"
      for equation, *sizes in (("aB", "2,3"), ("Ba", "2,3"), ("bA,Ac", "2,3", "3,2"), ("Zb,aZ", "2,3", "4,2"))),
    *(f"s    linalg_lstsq  (x({a}), x({b}), driver='{driver}')"
      for a, b in (("3,0", "3,1"), ("2,3,0", "2,3,2"))
      for driver in ("gels", "gelsy", "gelsd", "gelss")),
    *(f"s    lu_unpack  (x(2,2), torch.tensor([1, {pivot}], dtype=torch.int32))" for pivot in (0, 2, 3, -1)),
    *(f"f    scatter_reduce.two  ({one} * torch.ones(2).to(x(1).dtype), 0, torch.tensor([0, 0, 1, 1]), "
          f"torch.tensor([-0.0, 0.0, 0.0, -0.0]).to(x(1).dtype), '{reduce}', include_self={own})"
      for one, reduce in ((1, "amin"), (-1, "amax"), (0, "sum"), (0, "prod"), (-0.0, "mean"))
      for own in (True, False)),
    *(f"-    {op}  (torch.tensor([1., 3., 100., 7.], dtype=torch.{half}), torch.tensor({b}))"
      for op in ("add.Tensor", "mul.Tensor", "div.Tensor", "sub.Tensor", "floor_divide", "fmod.Tensor",
          "remainder.Tensor")
      for half in ("bfloat16", "float16")
      for b in ("[257]", "[[2049]]", "257", "[1.0007], dtype=torch.float64")),
    *(f"-    arange.start_step  ({start}, {end}, {step}, dtype=torch.{half})"
      for half in ("bfloat16", "float16")
      for start, end, step in ((0.1, 30.0, 0.3), (-7.3, 9.0, 0.07), (1000.0, 3000.0, 17.7))),
    *(f"f    sum.dim_IntList  (x({n}) + 1, [0])" for n in (33, 64, 65, 129, 257, 513, 1025, 4097, 32769, 65537)),
    *(f"f    sum.dim_IntList  (x({n},3){turned} + 1, [{dim}])"
      for n in (33, 65, 129, 513, 1025, 4097)
      for turned, dim in (("", 0), (".t().contiguous()", 1))),
    *(f"f    {op}  (x(2,3,4).abs(){turned}{given}, generator=g())"
      for op, given in (("cauchy", ""), ("exponential", ""), ("log_normal", ""), ("uniform", ""),
          ("geometric", ", 0.5"), ("random", ""))
      for turned in ("", ".mT", ".permute(2,0,1)", "[:, ::2]", ".expand(2,3,4).mT")),
    *(f"f    baddbmm  ({a}, {b}, {c})"
      for a in ("x(2,3,4)", "x(2,3,4).double()")
      for b in ("x(2,3,5)", "x(1,3,5)", "x(2,3,5).int()", "x(3,5)")
      for c in ("x(2,5,4)", "x(2,6,4)", "x(2,5,4).int()")),
    *(f"f    tensor_split.tensor_indices_or_sections  (x(4,2), torch.tensor({value}, dtype=torch.{dtype}), 0)"
      for value in ("2", "[1,2]", "[[1,2]]", "0", "-1", "[[1]]")
      for dtype in ("int64", "int32", "float32", "bool")),
    *(f"f    convolution  (x(2,3,5,5){last}, x(4,3,1,1), {bias}, [{stride},1], [{border},0], [1,1], False, [0,0], 1)"
      for last, bias, stride, border in product(("", LAST), ("None", "x(4)"), (1, 2), (0, 1))),
    *(f"s    native_batch_norm  (x(4,8,50,60){last}, {w}, {b}, torch.zeros(8), torch.ones(8), {training}, 0.1, 1e-5)"
      for last, (w, b), training in product(("", LAST, ".permute(0,1,3,2)"), (("x(8)", "x(8)"), ("None", "None")),
          (False, True))),
    *(f"s    native_batch_norm_backward  (x(4,8,50,60), x(4,8,50,60){last}, {w}, x(8), p(8), x(8), p(8), "
          f"{training}, 1e-5, [True,True,True])"
      for last, w, training in product(("", LAST), ("x(8)", "None"), (False, True))),
]  # fmt: skip

# Each of these calls exposes a mutant of a kernel that no other call exposes.
TOLD = [
    "f    affine_grid_generator.out  (x(2,2,3), [2,1,4,5], True, out=torch.zeros(2,4,5,2).to(x(1).dtype))",
    "-    arange.start  (2, 70000.0, dtype=torch.float16)",
    "s    _nnpack_spatial_convolution  (x(1,2,5,5), x(3,2,3,3), None, [1,1])",
    *(f"fib  prims::cat  ([x({a}), x({b})], {dim})" for a, b, dim in (("1,1,2", "1,1,1", 1), ("2,1,2", "1,1,2", 2), ("2,3", "2,4", 0))),
    *(f"f    {op}.out  (x(2), x({batch},2,4), out=torch.zeros({batch},4).to(x(1).dtype){turned})"
      for op, batch, turned in product(("linalg_matmul", "matmul"), ("1,1", "2,3"), ("",))),
    *(f"fib  unflatten.int  (x(), {dim}, {sizes})" for dim, sizes in product((-1, 0, 1), ("[1]", "[-1,2,1]", "[]"))),
    *(f"-    _scaled_mm_v2  (x(4,8).to(torch.float8_e4m3fn), x(6,8).to(torch.float8_e4m3fn).t(), "
          f"[torch.tensor({a})], [0], [0], [torch.tensor({b})], [0], [0], None, torch.bfloat16)"
      for a, b in (("[2.0, 2.0]", "2.0"), ("0.5", "[0.5, 0.5]"), ("[0.5, 1.0]", "[0.5, 1.0]"))),
    *(f"f    {op}  (x({shape}), {bins})"
      for (op, bins), shape in product((("_adaptive_avg_pool2d", "[-1,-1]"), ("adaptive_avg_pool2d", "[-1,2]"),
          ("_adaptive_avg_pool3d", "[-1,-1,-1]"), ("adaptive_max_pool2d", "[-1,-1]")), ("1,2,5,7", "1,2,5,0"))),
    *(f"-    fbgemm_linear_quantize_weight  (torch.tensor([{values}]))"
      for values in ("[1e5, -torch.inf, torch.inf]", "[1.0, torch.inf, 2.0]", "[-torch.inf, 0.0, 1.0]")),
    *(f"s    linalg_solve_triangular.out  (x(3,3){turned}, x(2,3,3).to(torch.{other}), upper=False, "
          f"out=torch.zeros(2,3,3, dtype=torch.{dtype}){out})"
      for turned, other, dtype, out in product(("", ".mT"), ("float32", "float64", "int32"),
          ("float32", "float64", "int64"), ("", ".mT"))),
    *(f"f    einsum  ('{names}', [{', '.join(given)}])"
      for names, given in (("ij,jk->ik", ["x(2,3)"]), ("ij,jk", ["x(2,3)", "x(3,2)", "x(2)"]),
          ("i,i,i", ["x(2)", "x(2)"]))),
    *(f"f    {op}  (x(400,low=0.01,high=3), x(400,low=0.01,high=3))" for op in ("igamma", "igammac")),
    *(f"f    {op}  (x({shape})*8, {weight}, {weight}, x({n}), p({n}), True, {momentum}, 1e-5)"
      for op, (shape, n), weight, momentum in product(("_native_batch_norm_legit", "native_batch_norm"),
          (("2,1", 1), ("3,2,2", 2)), ("None",), (0.5, 0.1))),
    *(f"f    _native_batch_norm_legit  (x({n2},{n})*8, x({n}), x({n}), x({n}), p({n}), True, {momentum}, 1e-5)"
      for n2, n, momentum in product((2, 5), (1, 3), (0.5, 0.9))),
    *(f"-    _convolution_double_backward  (torch.ones(2,3,2,2, dtype=torch.{a}), torch.ones(2,3,1,1, "
          f"dtype=torch.{b}), None, x(2,2,2,2).to(torch.{c}), x(2,3,1,1).to(torch.{d}), x(2,3,2,2).to(torch.{e}), "
          f"[1,1], [0,0], [1,1], False, [0,0], 1, {mask})"
      for (a, b, c, d, e), mask in product((("float64", "float32", "float32", "float32", "float32"),),
          ("[True,True,True]", "[False,False,True]", "[True,False,False]"))),
]  # fmt: skip

BRANCHES = "\n".join([*INTO, *WAYS, *TOLD]) + "\n"
