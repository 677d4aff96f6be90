"""Rows with the sizes, layouts, dtypes and values at which torch switches to another loop or algorithm."""

from itertools import pairwise, product

LAST = ".to(memory_format=torch.channels_last)"
LAST3 = ".to(memory_format=torch.channels_last_3d)"

# torch resamples images with sides of up to 128 in sum, with three channels, or in channels_last by other loops.
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

# Short signals whose transforms have zero imaginary parts, with the signs that MKL gives them.
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

# Vectors, matrices and batches of them that broadcast, or do not fit.
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

# Slices along each dimension; several are added to one position.
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

# Layouts and dtypes that torch's code for dense memory does not take, and that its own convolutions check separately.
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

# More keys than fit in one block of torch's loop, with the largest score in the first or last block. Then masks, some
# with a number of dimensions that torch refuses.
ATTENDED = [
    "f    _scaled_dot_product_flash_attention_for_cpu  (torch.ones(1,1,2,4).to(x(1).dtype), "
      "torch.linspace(0,3,700)[:,None].expand(700,4)[None,None].contiguous().to(x(1).dtype), x(1,1,700,4))",
    "f    _scaled_dot_product_flash_attention_for_cpu  (torch.ones(1,1,2,4).to(x(1).dtype), "
      "torch.linspace(3,0,700)[:,None].expand(700,4)[None,None].contiguous().to(x(1).dtype), x(1,1,700,4))",
    *(f"f    _scaled_dot_product_flash_attention_for_cpu  (x(2,4,3,3), x(2,4,5,3), x(2,4,5,3), attn_mask=x{mask})"
      for mask in ("(3,5)", "(1,3,5)", "(5)", "(1,1,1,3,5)")),
]  # fmt: skip

# Values just outside, or at the ends, of what torch accepts: it ignores or refuses some.
BOUNDS = [
    # Without scaling by counts, as torch would read these indices' counts outside their memory.
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
    # Whether these overflow depends on which product is computed first.
    *(f"s    linalg_multi_dot  ([{', '.join(f'torch.tensor([[{v}]])' for v in values)}])"
      for values in (("1e30", "1e30", "1e-30"), ("1e-30", "1e30", "1e30"), ("1e30", "1e30", "1e-30", "1e-30"),
            ("1e-30", "1e-30", "1e30", "1e30"), ("1e-30", "1e30", "1e30", "1e-30"))),
    *(f"s    fused_moving_avg_obs_fake_quant  (x(2,3), torch.tensor([{on}]), torch.tensor([1]), torch.empty(0), "
      f"torch.empty(0), torch.empty(0), torch.empty(0,dtype=torch.int32), 0.1, 0, 255, {axis}, True, {even})"
      for on, axis, even in ((1, 0, False), (1, 1, False), (1, 0, True))),
]  # fmt: skip

# Chains of matrices of many sizes: which intermediate products overflow depends on which are computed first.
CHAINED = [("2", "4", "3", "5", "3", "2"), ("5", "2", "6", "1", "4", "3"), ("1", "6", "2", "3", "2", "5"), ("4", "1", "4", "1", "4", "1"),
           ("3", "5", "2", "2", "6"), ("6", "2", "3", "1", "2"), ("2", "2", "2", "2", "2"),
             ("7", "1", "2", "3", "5", "1", "4")]  # fmt: skip
CHAINS = [
    f"s    {op}  ([{', '.join(f'torch.full(({n},{m}), {values[(i + turn) % len(values)]})' for i, (n, m) in enumerate(pairwise(sizes)))}])"
    for op, sizes, values, turn in product(
        ("linalg_multi_dot", "chain_matmul"), CHAINED, (("1e30", "1e-30"), ("1e30", "1e30", "1e-30", "1e-30")), range(4)
    )
]

# Parameters on both sides of each limit at which torch samples a distribution by another algorithm.
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

# Found by reviewing the kernels: positions that are NaN, arguments in different memory orders, empty arguments.
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

# Branches of kernels that no other sample takes: singular matrices, rows of unequal size, batches in parts, many
# elements, two fill values of a mask.
HOLED = "x(3,3).{half}() * (1 - torch.diag(torch.tensor({row}))).to(x(1).dtype)"
# Outs of another dtype than the result's. torch reduces in some of these dtypes, fills the out with a number in others,
# and refuses the rest late.
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

# Each of these tells a mutant from its kernel that no other call did.
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
    *INTO,
    *WAYS,
    *TOLD,
]
EDGES = "\n".join(ROWS) + OTHERS
