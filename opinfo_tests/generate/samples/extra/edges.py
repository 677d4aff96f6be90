"""Rows with the sizes, layouts, dtypes and values at which torch changes to another loop or algorithm."""

from itertools import pairwise, product

LAST = ".to(memory_format=torch.channels_last)"
LAST3 = ".to(memory_format=torch.channels_last_3d)"

# torch uses other loops to resample images whose height and width add up to at most 128, which have three channels, or
# which are channels_last.
IMAGES = [
    *(f"fi   {op}  (x(1,{c},5,6){last}, {out}{rest})"
      for (op, rest), c, last, out in product(
          [("upsample_bilinear2d", ", False"), ("upsample_nearest2d", ""), ("_upsample_nearest_exact2d", ""),
            ("upsample_bicubic2d", ", False")],
          (2, 3, 4), ("", LAST), ("[64,64]", "[64,65]"))),
    *(f"fi   {op}  (x(1,{c},3,4,5){last}, [5,7,10]{rest})"
      for (op, rest), c, last in product(
          [("upsample_trilinear3d", ", False"), ("upsample_nearest3d", ""), ("_upsample_nearest_exact3d", "")], (3, 4), ("", LAST3))),
    *(f"fi   upsample_linear1d  (x(2,{c},5), [9], {align})" for c, align in product((2, 3, 4), (False, True))),
]  # fmt: skip

# Short signals whose transforms have zero imaginary parts; MKL determines their signs.
SIGNAL = "s    _fft_r2c  "
SIGNALS = [
    row
    for n in range(1, 17)
    for row in (
        *(f"{SIGNAL}({values}({n}), [0], 0, True)" for values in ("torch.zeros", "torch.ones", "-torch.zeros")),
        f"{SIGNAL}(x(3,{n}).round(), [1], 0, True)",
        f"{SIGNAL}((lambda a: a + a.roll(-1,1).flip(1))(x(3,{n})), [1], 0, True)",
        f"{SIGNAL}(torch.eye({n}), [1], 0, False)",
        f"{SIGNAL}(torch.eye({n}).double(), [0], 1, True)",
    )
]

INT_LAYERS = [
    "conv_transpose1d  (x(1,2,4), x(2,3,2), {}, [2])",
    "conv_transpose2d.input  (x(1,2,4,4), x(2,3,2,2), {}, [2,2])",
    "conv_transpose3d.input  (x(1,2,3,3,3), x(2,3,2,2,2), {}, [2,2,2])",
    "conv1d  (x(1,2,7), x(3,2,2), {}, [1], [0], [2])",
    "conv2d  (x(1,2,5,5), x(3,2,2,2), {})",
    "conv2d  (x(1,2,5,5), x(3,2,2,2), {}, [1,1], [0,0], [2,2])",
    "conv3d  (x(1,2,4,4,4), x(3,2,2,2,2), {})",
    "conv3d  (x(1,2,4,4,4), x(3,2,2,2,2), {}, [1,1,1], [0,0,0], [2,2,2])",
    "convolution  (x(1,2,4,4), x(2,3,2,2), {}, [2,2], [0,0], [1,1], True, [0,0], 1)",
]
LAYERS = [f"fibc {row.format(bias)}" for row, bias in product(INT_LAYERS, ("x(3)", "ints(3)", "None"))]

# Vectors, matrices and batches of them that can or cannot be broadcast.
OPERANDS = [("3", "2,3,4"), ("3", "5,2,3,4"), ("2,3", "5,3,4"), ("5,1,2,3", "6,3,4"), ("5,2,3", "4,3,2"), ("5,2,3", "5,2,4"),
            ("3", "5,2,4"), ("2,1,2,3", "2,3,4,2"), ("2,3", "5,4,3"), ("2,3", "0,3,4")]  # fmt: skip
PRODUCTS = [
    f"fic  matmul  (x({a}), x({b}){turned})" for (a, b), turned in product(OPERANDS, ("", ".mT.contiguous().mT"))
]

INDICES = [("2,3,4", "[ints(2)%2, None, ints(2)]"), ("2,1,4", "[ints(2)%2, None, ints(2)]"), ("2,3,1", "[None, ints(2)%3, ints(2)*0]"),
           ("3,4,2", "[ints(2,1)%3, ints(3)]"), ("3,1", "[ints(1)%3, None]"), ("1,3", "[None, ints(1)%3]"),
           ("3,1,2", "[ints(1)%3, None, ints(1)%2]"), ("3,1,2", "[ints(4)%3, None, ints(4)%2]"), ("3,1,2", "[None, ints(4)*0, ints(4)%2]"),
           ("3,0,2", "[ints(4)%3, None, ints(4)%2]"), ("3,4", "[m(3,4)]"), ("1,1", "[ints(1)*0]"), ("4,3", "[None, ints(1,1)%3]"),
           ("3,2,2,2", "[None, ints(2)%2, None, ints(2)%2]"), ("3,4", "[ints(2)%3, ints(2)+5]"),
             ("2,3", "[None, ints(2)-9]"), ("0,3", "[ints(2)]"),
           ("3,4", "[ints(0), None]"), ("3,4", "[ints(0), ints(0)]")]  # fmt: skip
PICKED = [f"fib  index.Tensor  (x({shape}){turned}, {index})"
          for (shape, index), turned in product(INDICES, ("", ".mT.contiguous().mT"))]  # fmt: skip

# Slices along each dimension; several slices are added at the same position.
SLICES = [f"fibc index_add  (x(5,3,4), {dim}, ints(40){dtype}%3, x({source}){alpha})"
          for (dim, source), (dtype, alpha) in product(
              [(0, "40,3,4"), (1, "5,40,4"), (2, "5,3,40"), (-1, "5,3,40")],
              [("", ""), (".int()", ""), ("", ", alpha=2"), ("", ", alpha=-1")])]  # fmt: skip

BAGS = [f"f    _embedding_bag_dense_backward  (x(3,3), ints(7), torch.tensor([0,0,1,1,2,2,2]), torch.tensor([2,2,3]), ints(3,3), 4, {rest})"
        for rest in ("False, 0, p(7), -1", "True, 0, p(7), 1", "True, 1, None, -1", "False, 1, None, 2", "False, 2, None, -1")]  # fmt: skip

# LDL factors with 2x2 pivot blocks, which a small diagonal causes.
FACTORED = "torch.linalg.ldl_factor((lambda a: a + a.{turned} - 1.9 * torch.diag(a.diagonal()))(x(4,4){wide}), hermitian={hermitian})"
SOLVED = [
    f"sc   linalg_ldl_solve  (*{FACTORED.format(turned=turned, hermitian=hermitian, wide=wide)}, {b}{wide}, hermitian={hermitian})"
    for (turned, hermitian), b, wide in product(
        [("mT", False), ("mH", True)], ("x(4,3)", "x(2,4,2)"), ("", ".to(torch.complex128)")
    )
]

GAMMAS = [f"f    {op}  (x(200,low={a[0]},high={a[1]}), x(200,low={b[0]},high={b[1]}))"
          for op, (a, b) in product(("igamma", "igammac"), [
              ((0.1, 400.0), (0.1, 400.0)), ((0.1, 30.0), (0.0, 2.0)), ((50.0, 200.0), (1.0, 60.0)),
                ((0.5, 40.0), (60.0, 160.0))])]  # fmt: skip

OTHERS = """
f    div.Tensor_mode  (x(3,4), p(3,4), rounding_mode='ceil')
f    div.Scalar_mode  (x(3,4), 2, rounding_mode='')
fi   mvlgamma  (p(3,4) + 3, 3)
fi   mvlgamma  (p(3,4) + 5, 5)
f    mvlgamma  (x(3,4), 2)
f    mvlgamma  (p(3,4), 0)
f    ldexp.Tensor  (x(3,4), ints(3,4))
f    ldexp.Tensor  (x(3,4), ints(4).to(torch.int16) - 2)
f    ldexp.Tensor  (x(3,4), ints(5))
f    ldexp.Tensor  (x(3,4), x())
f    ldexp.Tensor  (x(3,4).double(), x())
f    ldexp.Tensor  (x(3,4).to(torch.complex128), x())
f    ldexp.Tensor  (x(3,4), x(3,4).double())
f    prod  (torch.tensor([300., 300., 0.001]).to(x(1).dtype))
f    prod.dim_int  (torch.tensor([[300., 300., 0.001], [0.001, 300., 300.]]).to(x(1).dtype), 1)
f    cumprod  (torch.tensor([[300., 300., 0.001], [0.001, 300., 300.]]).to(x(1).dtype), 1)
fic  index_add  (x(5), 0, ints(40), x(40))
c    index_add  (x(5), 0, ints(4), torch.complex(ends()[2:].real, ends()[:4].real))
-    full  ([0], 1e30, dtype=torch.float16)
-    new_full  (torch.zeros(2, dtype=torch.float16), [0], 1e30)
-    _amp_update_scale  (torch.tensor(3e38), torch.tensor(1, dtype=torch.int32), torch.tensor(0.0), 2.0, 0.5, 2)
f    cumsum  (x(5003), 0)
s    cumsum  (x(2,3001), -1)
f    narrow  (x(3), 5, 0, -1)
f    narrow_copy  (x(3), 5, 0, -1)
f    isclose  (x(3), x(3), -1.0, -2.0)
f    isclose  (x(3), x(2).to(torch.int64), -1.0)
-    _to_copy  (torch.tensor([1 + 2**-11 + 2**-40, 1 + 3 * 2**-11 - 2**-40], dtype=torch.float64), dtype=torch.float16)
-    _to_copy  (torch.tensor([1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40], dtype=torch.float64), dtype=torch.bfloat16)
-    _to_copy  (torch.tensor([2**33 + 2**25 + 1, 2**33 + 3 * 2**25 - 1]), dtype=torch.bfloat16)
-    copy  (torch.zeros(2, dtype=torch.float16), torch.tensor([1 + 2**-11 + 2**-40, 1 + 3 * 2**-11 - 2**-40], dtype=torch.float64))
fi   is_set_to  (*(lambda a: (a, a.t()))(x(3,3)))
fi   is_set_to  (*(lambda a: (a[:2], a[1:]))(x(3,3)))
-    lcm  (torch.tensor([-988758536, 2**31 - 1, 1 - 2**31], dtype=torch.int32), torch.tensor([44, 3, -50], dtype=torch.int32))
-    lcm  (torch.tensor([2**62 + 1, 2**63 - 1, 1 - 2**63]), torch.tensor([44, 3, -50]))
s    searchsorted.Tensor  (torch.tensor([3., 1., 2.]), x(2), sorter=torch.tensor([1, 2, 3]))
s    searchsorted.Tensor  (torch.tensor([3., 1., 2.]), x(2), sorter=torch.tensor([1, 2, -1]))
f    unique_dim  (torch.cat([ends(), ends(1., 2.)[5:]])[:, None], 0, True, True, True)
f    unique_dim  (torch.cat([x(5), ends(), x(3)])[None], 1, True, True, True)
f    scatter_reduce.two  (x(3), 0, torch.tensor([0, 1]), ends()[2:4], 'amax', include_self=False)
f    scatter_reduce.two  (x(3), 0, torch.tensor([0, 1]), ends()[2:4], 'amin', include_self=False)
f    index_reduce  (x(3), 0, torch.tensor([0, 1]), ends()[2:4], 'amax', include_self=False)
f    index_reduce  (x(3), 0, torch.tensor([0, 1]), ends()[2:4], 'amin', include_self=False)
s    argmax  (torch.zeros(3, 1).to(torch.float8_e5m2), 1)
s    argmin  (torch.zeros(3, 1).to(torch.uint16), 1, True)
f    mode  (ends(1., 2., 1.).expand(9, 9), 1)
f    mode  (ends().repeat(2)[:11].expand(12, 11), -1, True)
f    mode  (torch.cat([x(3), ends()[4:5], x(2)]).reshape(1, 6).expand(7, 6), 1)
f    mode  (torch.cat([ends(3.)[3:], x(12)]).repeat(5).reshape(10, 8), 1)
f    mode  (torch.where(x(60, 9) > 2, float('nan'), x(60, 9).round()), 1)
f    mode  (torch.where(x(60, 5) > 1, float('nan'), x(60, 5).round()), 1)
s    igamma  (torch.linspace(20, 45, 60), torch.linspace(.2, 1.1, 7)[:, None])
s    igammac  (torch.linspace(1.5, 30, 60), torch.linspace(86, 140, 20)[:, None])
s    rsub.Tensor  (x(3).short(), x(2).short(), alpha=-2**63)
s    add.Tensor  (x(3).short(), x(2).short(), alpha=2**63 - 1)
f    _log_softmax  (torch.linspace(4, 9, 12).to(x(1).dtype)[:, None] * torch.eye(12, 7).to(x(1).dtype), 1, False)
f    _log_softmax  ((torch.linspace(4, 9, 12).to(x(1).dtype)[:, None] * torch.eye(12, 7).to(x(1).dtype)).t().contiguous().t(), 1, False)
s    _batch_norm_with_update  ((x(3,8,2) * .8e19).permute(0, 2, 1), p(2), x(2), x(2), p(2), 0.5, 1e-6)
s    native_batch_norm  ((x(3,8,2) * .8e19).permute(0, 2, 1), p(2), x(2), None, None, True, 0.5, 1e-6)
f    _batch_norm_with_update_functional  (of([[0., 9., 10., .5]]), p(4), x(4), of([-1., -1., -1.1, -.05]), p(4), 0.1, 1e-5)
f    _batch_norm_with_update_functional  (of([[[0., 9.], [10., .5]], [[3., 7.], [-4., 1.]]]).transpose(1, 2), p(2), x(2), of([-.5, -.47]), p(2), 0.1, 1e-5)
f    upsample_bicubic2d_backward.grad_input  (x(1,2,4,4), [4,4], [1,2,4,4], False, grad_input=x(1,1,4,4).expand(1,2,4,4))
fib  meshgrid.indexing  ([x(2), x(3), x(4), x(1)], indexing='xy')
-    randperm  (256, dtype=torch.uint8)
-    randperm  (129, dtype=torch.int8)
-    randperm  (2049, dtype=torch.float16)
fib  roll  (x(3,2), [3])
fib  roll  (x(3,2), [-5], [])
fi   index_select  (x(), 0, ints(0))
s    _amp_foreach_non_finite_check_and_unscale  ([x(3), x(2)], torch.tensor(0.0), torch.tensor(-0.5))
s    binomial  (torch.tensor([float('nan'), 3.]), torch.zeros(2))
s    poisson  (torch.tensor([float('nan'), 1.]))
fic  index_add  (x(), 0, ints(1)*0, x(), alpha=2)
s    _softmax_backward_data  (x(9,20000), torch.softmax(x(9,20000), 1), 1, torch.float32)
"""

# Layouts and dtypes that torch's kernels for dense memory do not support. torch's own convolutions (not oneDNN's) check
# them separately.
CONVOLVED = [
    *(f"s    convolution_backward  (x(2,3,4,4).double(), x(2,2,4,4).double(){image}, x(3,2,1,1).double(){weight}, "
      f"[3], [1,1], [0,0], [1,1], {turned}, [0,0], 1, [True,True,True])"
      for image, weight, turned in (("", LAST, False), (LAST, "", False))),
    *(f"s    convolution_backward  (x(2,1,5,5).double(), x(2,3,4,4).double(){image}, x(3,1,2,2).double(){weight}, "
      f"[1], [1,1], [0,0], [1,1], True, [0,0], 1, [True,True,True])"
      for image, weight in product(("", LAST), repeat=2)),
    *(f"s    convolution_backward  (x(1,2,3,3).to({a}), x(1,2,3,3).to({b}), x(2,2,1,1).to({c}), [2], [1,1], [0,0], "
      f"[1,1], {turned}, [0,0], 1, {mask})"
      for turned, mask in product((False, True), ("[True,False,False]", "[False,True,False]", "[False,False,True]"))
      for a, b, c in sorted(set(product(("torch.float32", "torch.float64"), repeat=3)))),
]  # fmt: skip

# More keys than one block of torch's loop has, with the largest score in the first or last block. Then masks, some with
# a number of dimensions for which torch raises an error.
ATTENDED = [
    "f    _scaled_dot_product_flash_attention_for_cpu  (torch.ones(1,1,2,4).to(x(1).dtype), "
      "torch.linspace(0,3,700)[:,None].expand(700,4)[None,None].contiguous().to(x(1).dtype), x(1,1,700,4))",
    "f    _scaled_dot_product_flash_attention_for_cpu  (torch.ones(1,1,2,4).to(x(1).dtype), "
      "torch.linspace(3,0,700)[:,None].expand(700,4)[None,None].contiguous().to(x(1).dtype), x(1,1,700,4))",
    *(f"f    _scaled_dot_product_flash_attention_for_cpu  (x(2,4,3,3), x(2,4,5,3), x(2,4,5,3), attn_mask=x{mask})"
      for mask in ("(3,5)", "(1,3,5)", "(5)", "(1,1,1,3,5)")),
]  # fmt: skip

# Values at the ends of the range that torch accepts, or just outside: it ignores some and raises errors for others.
BOUNDS = [
    # scale_grad_by_freq is False, because torch would count these indices outside its memory.
    *(f"f    embedding_dense_backward  (x(4,2), torch.tensor([1,{index},2,1]), 4, {padding}, False)"
      for index, padding in product((-1, -4, 4), (-1, 0))),
    *(f"s    grid_sampler_3d_backward  (x(1,1,1,2,3), x(1,1,3,3,3), ends(*x(12).tolist()).reshape(1,1,2,3,3), "
      f"{mode}, {padding}, {align}, [True,True])"
      for mode, padding, align in product((0, 1), (0, 1, 2), (False, True))),
    *(f"s    native_layer_norm_backward  (x(2,3).to({a}), x(2,3).to({a}), [3], x(2,1).to({b}), x(2,1).to({b}), {p}, {q}, [True,True,True])"
      for a, b in (("torch.float16", "torch.float32"), ("torch.bfloat16", "torch.bfloat16"), ("torch.float32", "torch.float64"))
      for p, q in product(("None", *(f"x(3).to({c})" for c in ("torch.float16", "torch.bfloat16", "torch.float32"))),
            repeat=2) if "None" not in (p, q)),
    *(f"s    glu_backward_jvp  (x({n}), x(2,3), x(2,6), x(2,3), x(2,6), 1)" for n in ("2,3", "2,5", "2,7", "1,6")),
    *(f"s    _ctc_loss  (torch.log_softmax(x(4,1,3), 2), torch.tensor([[1,2]]), [{steps}], [{labels}], {blank})"
      for steps, labels, blank in ((4, 2, 3), (4, 2, -1), (4, 2, 2), (5, 2, 0), (4, 3, 0), (-1, 2, 0), (4, -1, 0))),
    *(f"s    {op}  ({a}, {tol})"
      for op in ("linalg_matrix_rank", "linalg_pinv")
      for a in ("torch.zeros(3,3)", "torch.zeros(2,3)")
      for tol in (0.0, 0.5)),
    *(f"s    linalg_matrix_rank  (torch.diag(torch.tensor([2.,1.,0.5])), {tol})" for tol in (1.0, 0.5, 2.0)),
    *(f"s    _cdist_forward  (x({n},2) + 1000, x({m},2) + 1000, 2.0, {mode})"
      for n, m in ((24, 3), (25, 3), (3, 25), (25, 25), (26, 3), (3, 26))
      for mode in ("None", 0, 2)),
    *(f"f    {op}  (x(3), torch.tensor([.5, {p}, .5]))"
      for op in ("bernoulli_.Tensor", "bernoulli.Tensor")
      for p in ("float('nan')", "1.5", "-0.5", "1.0")),
    *(f"fib  {op}  (x({shape}), [{dim}], {keep})"
      for op in ("amax", "amin")
      for shape, dim in (("0,3", 1), ("3,0", 0), ("0,3", 0))
      for keep in (False, True)),
    *(f"fic  tensordot  (x({a}), x({b}), {i}, {j})"
      for a, b, i, j in (("2,3", "1,2", "[1]", "[0]"), ("2,1", "3,2", "[1]", "[0]"),
          ("2,1,3", "3,4,2", "[1,2]", "[1,0]"), ("2,3,2", "2,1", "[1,0]", "[1,0]"))),
    *(f"s    isin.Tensor_Tensor  (torch.tensor(0.1, dtype={a}), torch.full(({n},), 0.1, dtype={b}))"
      for a, b in (("torch.float64", "torch.float32"), ("torch.float32", "torch.float64"),
            ("torch.float32", "torch.bfloat16"))
        for n in (9, 10, 12)),
    *(f"f    {op}_l1_loss  (x(4) * 200, x(4), {reduction}, {beta})".replace("huber_l1", "huber")
      for op in ("smooth", "huber")
      for reduction in (0, 1, 2)
      for beta in (1000.0, 1e-5)),
    # The order of the products decides whether these overflow.
    *(f"s    linalg_multi_dot  ([{', '.join(f'torch.tensor([[{v}]])' for v in values)}])"
      for values in (("1e30", "1e30", "1e-30"), ("1e-30", "1e30", "1e30"), ("1e30", "1e30", "1e-30", "1e-30"),
            ("1e-30", "1e-30", "1e30", "1e30"), ("1e-30", "1e30", "1e30", "1e-30"))),
    *(f"s    fused_moving_avg_obs_fake_quant  (x(2,3), torch.tensor([{on}]), torch.tensor([1]), torch.empty(0), "
      f"torch.empty(0), torch.empty(0), torch.empty(0,dtype=torch.int32), 0.1, 0, 255, {axis}, True, {even})"
      for on, axis, even in ((1, 0, False), (1, 1, False), (1, 0, True))),
]  # fmt: skip

# Chains of matrices of many sizes: the order of the products decides which intermediate results overflow.
CHAINED = [("2", "4", "3", "5", "3", "2"), ("5", "2", "6", "1", "4", "3"), ("1", "6", "2", "3", "2", "5"), ("4", "1", "4", "1", "4", "1"),
           ("3", "5", "2", "2", "6"), ("6", "2", "3", "1", "2"), ("2", "2", "2", "2", "2"),
             ("7", "1", "2", "3", "5", "1", "4")]  # fmt: skip
CHAINS = [
    f"s    {op}  ([{', '.join(f'torch.full(({n},{m}), {values[(i + turn) % len(values)]})' for i, (n, m) in enumerate(pairwise(sizes)))}])"
    for op, sizes, values, turn in product(
        ("linalg_multi_dot", "chain_matmul"), CHAINED, (("1e30", "1e-30"), ("1e30", "1e30", "1e-30", "1e-30")), range(4)
    )
]

# Parameters on both sides of each limit at which torch changes the algorithm to sample a distribution.
REGIMES = [
    *(f"s    binomial  (torch.full((300,), {n}.), torch.full((300,), {p}), g())"
      for n in (1, 5, 25, 40, 1000)
      for p in (0.01, 0.3, 0.5, 0.9, 0.99)),
    *(f"f    poisson  (torch.full((300,), {rate}).to(x(1).dtype), g())" for rate in (0.0, 0.5, 3.0, 9.75, 10.0, 12.0, 30.0, 1000.0)),
    *(f"s    _standard_gamma  (torch.full((300,), {alpha}), g())" for alpha in (0.01, 0.5, 0.999, 1.0, 1.5, 10.0, 1000.0)),
    *(f"s    _sample_dirichlet  (torch.full((60,3), {alpha}), g())" for alpha in (0.01, 0.5, 1.0, 10.0)),
    *(f"s    {op}  (torch.zeros(300), {given}, generator=g())"
      for op, rest in (("exponential_", (0.01, 1.0, 50.0)), ("geometric_", (0.01, 0.5, 0.99)),
          ("cauchy_", ("0.0, 0.01", "5.0, 2.0")), ("log_normal_", ("0.0, 0.1", "-3.0, 2.0")),
          ("normal_", ("5.0, 0.01", "-1e6, 3.0")))
      for given in rest),
]  # fmt: skip

# Calls found by reviewing the kernels: coordinates that are NaN, arguments in different memory orders, empty arguments.
ASKED = [
    *(f"s    grid_sampler_{n}d  (x(1,2,{size}), torch.tensor([float('nan'), float('inf'), -float('inf'), 0.25, "
      f"-1.0, 1e30]*{n}).reshape(1,{grid},{n}), {interpolation}, {padding}, {corners})"
      for n, size, grid in ((2, "3,4", "1,6"), (3, "2,3,4", "1,1,6"))
        for interpolation in ((0, 1, 2) if n == 2 else (0, 1))
        for padding in (0, 1, 2)
        for corners in (False, True)),
    *(f"s    scaled_dot_product_attention  ({q}.{kind}(), {k}.{kind}(), {k}.{kind}(), x({mask}))"
      for kind in ("bfloat16", "half", "double")
      for q, k, mask in (("x(3,4)", "x(5,4)", "3,5"), ("x(1,2,3,4)", "x(1,2,5,4)", "1,1,3,5"))),
    *(f"f    _weight_norm_interface_backward  ({', '.join(f'x({b},{a}).t()' if i == turned else f'x({a},{b})' for i, (a, b) in enumerate(((3, 4), (3, 4), (3, 1), (3, 1))))}, 0)"
      for turned in (-1, 1)),
    *(f"f    _weight_norm_interface_backward  (x(3,4), x(3,4), {g}, {n}, 0)"
      for g, n in (("x(3,2)[:,:1]", "x(3,1)"), ("x(3,1)", "x(3,2)[:,:1]"))),
    *(f"-    {op}  (torch.ones(2,30,dtype=torch.{a}), torch.ones(2,30,30,dtype=torch.{b}), 2)"
      for op in ("_sobol_engine_scramble_",)
      for a, b in (("int32", "int64"), ("int64", "int32"), ("int64", "int64"))),
    *(f"f    rrelu_with_noise_backward  (x(3), x(3), x(3), {low}, {high}, {training}, {result})"
      for low, high in ((-0.5, -0.25), (0.1, 0.3), (-0.5, 0.75))
      for training in (False, True)
      for result in (False, True)),
    *(f"s    {op}  (x(2,3), {dim}, False, dtype=torch.{dtype}, out=torch.empty(3))"
      for op, dims in (("prod.int_out", (5, 0)), ("sum.IntList_out", ("[5]", "[0,0]", "[0]")),
          ("mean.out", ("[5]", "[0,0]", "[0]")))
      for dim in dims
      for dtype in ("float64", "float32")),
    *(f"s    {op}.out  (x(2,3), {dim}, dtype=torch.{dtype}, out=torch.empty(2,3))"
      for op in ("cumsum", "cumprod")
      for dim in (5, 0)
      for dtype in ("float64", "float32")),
    *(f"s    lstm.input  (x(3,2,4), [x({d},2,3), x({d},2,5)], "
          f"[{', '.join(f'x(20,{k}), x(20,3), x(3,5)' for k in ([4] * d if d < 3 else []))}], False, 1, 0., False, "
          f"{d == 2}, False)"
      for d in (1, 2)),
    *(f"{kinds}   {op}  (x(2,3,4,5).to(memory_format=torch.channels_last), {n})"
      for kinds, op in (("sc", "fft_fft"), ("sc", "fft_ifft"), ("s ", "fft_rfft"), ("sc", "fft_irfft"),
          ("sc", "fft_hfft"), ("s ", "fft_ihfft"))
      for n in (7, 3, 5)),
    *(f"sc   {op}  (x(2,3,4,5).to(memory_format=torch.channels_last), {s})"
      for op in ("fft_fft2", "fft_ifft2", "fft_irfft2")
      for s in ("[7,3]", "[2,6]")),
    *(f"s    linalg_solve.out  (x(2,2) + 5*torch.eye(2), (b := x(2,2)), out=b{view})" for view in ("", ".t()")),
    *(f"s    _scaled_mm  (torch.ones(16,16).to(torch.float8_e4m3fn), "
          f"torch.ones(16,16).to(torch.float8_e4m3fn).t(), torch.tensor(1.), torch.tensor(1.), None, "
          f"torch.tensor(2.){given})"
      for given in ("", ", torch.float8_e4m3fn", ", torch.bfloat16")),
    *(f"fi   {op}  (x({shape}){more})"
      for op, more in (("_unique2", ""), ("_unique2", ", True, True, True"), ("_unique2", ", False, True, True"),
          ("unique_consecutive", ", True, True"), ("_unique", ", True, True"))
      for shape in ("0", "0,3", "1")),
    *(f"-    set_.source_Tensor_storage_offset  (torch.ones(3,dtype=torch.{dtype}), torch.ones(10), 1, [3])"
      for dtype in ("int32", "float32", "float16")),
    *(f"-    _padded_dense_to_jagged_forward  (torch.ones(2,3,4), [torch.tensor([0,2,3])], {total})" for total in (0, 3, 4, "None")),
]  # fmt: skip

ROWS = [
    *IMAGES,
    *SIGNALS,
    *LAYERS,
    *PRODUCTS,
    *PICKED,
    *SLICES,
    *BAGS,
    *SOLVED,
    *GAMMAS,
    *CONVOLVED,
    *ATTENDED,
    *BOUNDS,
    *CHAINS,
    *REGIMES,
    *ASKED,
]
EDGES = "\n".join(ROWS) + OTHERS
