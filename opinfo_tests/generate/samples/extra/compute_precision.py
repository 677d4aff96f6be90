"""Rows with values far apart: half-precision sums and products with intermediate overflow, and large integers."""

_PRODUCTS = "of([[1e-4,1e-4,1e4,1e4],[1e4,1e4,1e-4,1e-4],[3e-3,7e-3,200,300]])"
_SUMS = "of([[6e4,6e4,-6e4,-5e4],[-6e4,-6e4,6e4,5e4],[6e4,30,-6e4,300]])"
_LEFT, _RIGHT = "of([[300,300,-300],[-300,300,0.5]])", "of([[300,-300],[300,300],[300,2.5]])"
_FACTORS = "of([300,300,-300]), of([300,300,300])"
_AXES = (", [1]", ", [0]", ", [0,1]")
_SINGLES = ("1,3", "1,3,1", "1,3,1,1")  # one value for each channel

_ALL = [
    f"f    prod  ({_PRODUCTS})",
    *(f"f    {op}  ({_PRODUCTS}, {dim})" for op in ("prod.dim_int", "cumprod") for dim in (0, 1)),
    *(f"f    {op}  ({_SUMS})" for op in ("sum", "mean", "nansum", "std", "var")),
    *(f"f    {op}  ({_SUMS}{axes})" for op in ("sum.dim_IntList", "mean.dim", "nansum", "logsumexp") for axes in _AXES),
    *(f"f    {op}  ({_SUMS}{axes})" for op in ("var.correction", "std.correction", "var_mean.correction") for axes in _AXES),
    *(f"f    {op}  ({_SUMS}, {dim})" for op in ("cumsum", "logcumsumexp", "diff") for dim in (0, 1)),
    *(f"f    linalg_vector_norm  ({_SUMS}, {order}{axes})" for order in (0.5, 1, 2, 3) for axes in _AXES),
    *(f"f    {op}  ({_LEFT}, {_RIGHT})" for op in ("mm", "matmul")),
    f"f    bmm  ({_LEFT}[None], {_RIGHT}[None])",
    f"f    addmm  (of([[6e4,-6e4]]), {_LEFT}, {_RIGHT})",
    f"f    baddbmm  (of([[[6e4,-6e4]]]), {_LEFT}[None], {_RIGHT}[None], beta=0.5, alpha=-1)",
    f"f    addbmm  (of([[6e4,-6e4]]), {_LEFT}[None], {_RIGHT}[None])",
    f"f    mv  ({_LEFT}, of([300,300,300]))",
    f"f    addmv  (of([6e4,-6e4]), {_LEFT}, of([300,300,300]))",
    "f    addr  (of([[6e4],[-6e4]]), of([300,-300]), of([300,300,2]))",
    *(f"f    {op}  ({_FACTORS})" for op in ("dot", "vdot", "outer")),
    f"f    linear  ({_LEFT}, {_LEFT}, of([6e4,-6e4]))",
    *(f"f    {op}  (of([6e4,-6e4,1]), of([300,300,-2]), of([300,300,3]), value=2)" for op in ("addcmul", "addcdiv")),
    f"f    avg_pool2d  ({_SUMS}[None], [2,2], [1,1])",
    f"f    _adaptive_avg_pool2d  ({_SUMS}[None], [2,2])",
    f"f    conv1d  ({_SUMS}[None], of([[[1,1],[1,1],[-1,1]]]))",
    *(f"f    {op}  ({_SUMS}, 1, False)" for op in ("_softmax", "_log_softmax")),
    *(f"f    {op}  ({_SUMS}, of([[6e4,-6e4,6e4,1],[1,2,3,4],[-6e4,6e4,0,0]]), {how})"
      for op in ("mse_loss", "l1_loss")
      for how in (0, 1, 2)),
    f"f    native_layer_norm  ({_SUMS}, [4], of([300,300,1,1]), of([1,2,3,6e4]), 1e-5)",
    "f    scatter_add  (of([[6e4,1,-6e4]]), 1, torch.tensor([[0,0,2,0]]), of([[6e4,-6e4,-5e4,1]]))",
    "f    index_add  (of([6e4,1,-6e4]), 0, torch.tensor([0,0,2,0]), of([6e4,-6e4,-5e4,1]))",
    *(f"f    scatter_reduce.two  (of([[300,1,-300]]), 1, torch.tensor([[0,0,2,0]]), of([[300,1e-4,-5e4,1]]), "
          f"'{how}', include_self={kept})"
      for how in ("sum", "prod", "mean")
      for kept in (True, False)),
    "f    segment_reduce  (of([6e4,6e4,-6e4,300,300]), 'sum', lengths=torch.tensor([3,2]))",
    f"f    trace  ({_LEFT})",
    f"f    cross_entropy_loss  ({_SUMS}, torch.tensor([0,3,1]))",
    f"f    cumulative_trapezoid.dx  ({_SUMS})",
    f"f    cdist  ({_LEFT}, of([[300,300,300],[-300,-300,0]]))",
    *(f"f    native_batch_norm  (x({size}), x(3), None, x(3), p(3), {training}, 0.1, 1e-5)"
      for size in _SINGLES
      for training in (True, False)),
    *(f"f    native_group_norm  (x({size}), x(3), x(3), 1, 3, 1, {groups}, 1e-5)" for size in _SINGLES for groups in (1, 3)),
    *(f"f    native_layer_norm  (x(3,1), [1], x(1), x(1), {eps})" for eps in (1e-5, 0.0)),
    *(f"f    {op}  (x(3,1), [1], correction={correction})"
      for op in ("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
      for correction in (0, 1)),
]  # fmt: skip

# Sums of so many ones that an accumulator in half precision stops growing.
_ONES = "torch.ones(700, 4).to(x(1).dtype)"
_SAME = "torch.zeros(700, dtype=torch.int64)"
_ALL += [
    *(f"f    native_layer_norm_backward  ({_ONES}, x(700,4), [4], x(700,1), p(700,1), x(4), x(4), {mask})"
      for mask in ("[True,True,True]", "[False,False,True]")),
    f"f    native_group_norm_backward  ({_ONES}[:,:,None], x(700,4,1), x(700,2), p(700,2), x(4), 700, 4, 1, 2, [True,True,True])",
    f"f    native_batch_norm_backward  ({_ONES}, x(700,4), x(4), x(4), p(4), x(4), p(4), True, 1e-5, [True,True,True])",
    f"f    embedding_dense_backward  ({_ONES}, {_SAME}, 2, -1, False)",
    f"f    index_add  (of([[0,0,0,0],[1,1,1,1]]), 0, {_SAME}, {_ONES})",
    f"f    scatter_add  (of([[0,0,0,0],[1,1,1,1]]), 0, {_SAME}[:,None].expand(700,4), {_ONES})",
    *(f"f    scatter_reduce.two  (of([[0,0,0,0],[1,1,1,1]]), 0, {_SAME}[:,None].expand(700,4), {_ONES}, '{how}')"
      for how in ("sum", "mean")),
    f"f    index_put  (of([[0,0,0,0],[1,1,1,1]]), [{_SAME}], {_ONES}, True)",
    *(f"f    {op}  ({_ONES}{rest})"
      for op, rest in (("sum", ""), ("sum.dim_IntList", ", [0]"), ("mean.dim", ", [0]"), ("nansum", ", [0]"),
          ("cumsum", ", 0"), ("var.correction", ", [0]"), ("linalg_vector_norm", ", 1, [0]"), ("logsumexp", ", [0]"))),
    *(f"f    {op}  ({_ONES}[:,0], {_ONES}[:,0])" for op in ("dot", "vdot")),
    f"f    mm  ({_ONES}.T, {_ONES})",
    f"f    mv  ({_ONES}.T, {_ONES}[:,0])",
    *(f"f    {op}  ({_ONES}, {_ONES} * 0, {how})" for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") for how in (1, 2)),
    *(f"f    nll_loss_forward  ({_ONES}, torch.arange(700) % 4, {weight}, {how}, {ignored})"
      for weight in ("None", "p(4)")
      for how in (1, 2)
      for ignored in (-100, 1)),
    "f    nll_loss2d_forward  (x(2,3,20,20), torch.arange(800).reshape(2,20,20) % 3, p(3), 1, 1)",
    f"f    avg_pool1d  ({_ONES}.T[None], [700])",
    f"f    _adaptive_avg_pool2d  ({_ONES}.T.reshape(4,35,20), [1,1])",
    f"f    _embedding_bag_forward_only  (p(3,4), {_SAME}, torch.tensor([0,10]), False, 0, False, None, False, -1)",
    f"f    segment_reduce  ({_ONES}[:,0].contiguous(), 'sum', lengths=torch.tensor([699, 1]))",
]  # fmt: skip

_INTS = "torch.tensor([2**24+1, -(2**24)-1, 2**53+1, 2**62, 3])"
_NEXT = "torch.tensor([2**24, -(2**24), 2**53, 2**62+1, 2])"
_FLOATS = "torch.tensor([2**24, -(2**24), 2**53, 2**62, 2], dtype=torch.{})"
_UNARY = "acos angle asinh atan cos deg2rad erf exp exp2 log log10 log1p log2 rad2deg reciprocal rsqrt sigmoid sin sinc sqrt tanh"
_COMPARED = "eq ne lt le gt ge"
_ALL += [
    *(f"-    {op}  ({_INTS})" for op in _UNARY.split()),
    *(f"-    {op}  ({_INTS}, {_NEXT})" for op in ["atan2", "copysign.Tensor", "div.Tensor", "xlogy.Tensor", "special_xlog1py"]),
    *(f"-    isclose  ({_INTS}, {other}, rtol={rtol}, atol={atol})"
      for other in (_NEXT, f"{_INTS} + 2")
      for rtol, atol in ((0.0, 0.5), (1e-7, 0.0), (0.0, 2.0))),
    *(f"-    {op}.Scalar  ({_INTS}, {number})" for op in _COMPARED.split() for number in ("16777216.0", "16777217", "9007199254740992.0")),
    *(f"-    {op}.Tensor  ({_INTS}, {_FLOATS.format(dtype)})"
      for op in f"{_COMPARED} add sub mul div fmod remainder".split()
      for dtype in ("float32", "float64", "bfloat16")),
    *(f"-    {op}  ({_INTS}, {_FLOATS.format('float32')})" for op in ("maximum", "minimum", "fmax", "hypot", "nextafter")),
    *(f"-    {op}  ({_INTS}, {number})"
      for op in ("add.Tensor", "mul.Tensor", "div.Tensor", "fmod.Scalar", "remainder.Scalar", "floor_divide.Scalar",
          "pow.Tensor_Scalar")
      for number in ("0.5", "3.0", "-2.5")),
    *(f"-    pow.{form}"
      for form in (f"Scalar  (1.0001, {_INTS})",
          f"Tensor_Tensor  ({_FLOATS.format('float32')}, torch.tensor([2, 3, 1, 0, -1]))")),
    *(f"-    clamp  ({_INTS}, {low}, {high})" for low, high in (("0.5", "16777218.5"), ("-3", "2**53"), ("None", "1e7"))),
    f"-    lerp.Scalar  ({_FLOATS.format('float32')}, {_FLOATS.format('float32')} + 3, 0.25)",
    *(f"-    {op}  ({_INTS}, dtype=torch.{dtype})"
      for op in ("sum", "mean", "prod", "nansum")
      for dtype in ("float32", "float64", "float16")),
    *(f"-    {op}  ({_INTS}, 0, dtype=torch.{dtype})" for op in ("cumsum", "cumprod") for dtype in ("float32", "float64")),
    f"-    bucketize.Tensor  ({_INTS}, torch.tensor([0., 2.**24, 2.**53]))",
    f"-    searchsorted.Tensor  (torch.tensor([0., 2.**24, 2.**53]), {_INTS})",
    *(f"-    where.{form}" for form in (f"self  (m(5), {_INTS}, {_FLOATS.format('float32')})", f"ScalarOther  (m(5), {_INTS}, 0.5)")),
    *(f"-    _to_copy  ({_INTS}, dtype=torch.{dtype})" for dtype in ("float32", "float16", "bfloat16", "int32", "uint8", "complex64")),
    *(f"s    {op}.atol_rtol_{{}}  (torch.diag(torch.tensor([1., 1e-{e}])), atol={{}})".format(*form)
      for op in ("linalg_matrix_rank", "linalg_pinv")
      for e in (3, 8)
      for form in (("float", "1e-9"), ("float", "1e-5"), ("tensor", "torch.tensor(1e-9)"))),
]  # fmt: skip

SPREAD = "\n".join(_ALL)
