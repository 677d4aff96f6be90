"""Rows for layers and losses: extreme values, sizes that do not fit, unusual memory layouts and dtypes."""

from itertools import product

# If ``out=`` has half precision, torch takes the mean of float32 losses, some of which may exceed the range of half
# precision.
NARROW = [
    f"s    {op}.out  (torch.tensor([{low},0.5,0,1]), torch.zeros(4){rest}, {reduction}{more}, out=torch.zeros((), dtype=torch.{out}))"
    for (op, rest, low, more), reduction, out in product(
        [("mse_loss", "", 400.0, ""), ("smooth_l1_loss", "", 2e5, ", 1.0"),
         ("soft_margin_loss", "", -9.0, ""), ("huber_loss", "", 2e5, ", 1.0")], (1, 2), ("float16", "bfloat16", "float64"))
]  # fmt: skip

# Thresholds as large as the differences, infinite, or almost 0.
ENDS = [
    row
    for end, kind in (("float('inf')", "f"), ("1e30", "f"), ("6e4", "f"), ("1e-30", "s"))
    for row in (
        f"f    huber_loss  (ends(1e30,6e4,1), torch.zeros(9).to(x(1).dtype), 0, {end})",
        f"{kind}    huber_loss_backward  (x(9), ends(1e30,6e4,1), torch.zeros(9).to(x(1).dtype), 0, {end})",
        f"s    smooth_l1_loss  (torch.tensor([1e30,-1e30,6e4,0.0]), torch.zeros(4), 0, {end})",
        f"s    smooth_l1_loss_backward  (x(4), torch.tensor([1e30,-1e30,6e4,0.0]), torch.zeros(4), 0, {end})",
    )
]

# Probabilities close to 0 and 1, for which log(1 - p) depends on every digit of p.
PROBABILITIES = [
    f"s    {op}  ({grad}torch.tensor([1e-6,1e-4,1e-3,1-1e-3,1-1e-6,0,1]){wide}, torch.tensor([0,0,0.5,1,1,0,1]){wide}, None, {reduction})"
    for (op, grad), wide, reduction in product(
        [("binary_cross_entropy", ""), ("binary_cross_entropy_backward", "x(7), ")], ("",), (0, 2))
]  # fmt: skip

LOSSES = """
s    binary_cross_entropy  (torch.full((4,),1e-4), torch.zeros(4), None, 0)
s    binary_cross_entropy  (torch.full((4,),1e-6), torch.zeros(4), None, 2)
s    binary_cross_entropy_backward  (x(4), torch.full((4,),1e-6), torch.zeros(4), None, 0)
s    multi_margin_loss_backward  (x(5), x(3,4), ints(3), 1, 1, None, 0)
s    multi_margin_loss_backward  (x(5), x(3,4), ints(3), 2, 1, p(4), 1)
s    multilabel_margin_loss_backward  (x(5), x(3,4), ints(3,4), 0, torch.zeros(3,4))
s    multilabel_margin_loss_backward  (x(1), x(3,4), ints(3,4), 0, torch.zeros(3,4))
s    multilabel_margin_loss_backward  (x(3,1), x(3,4), ints(3,4), 0, torch.zeros(3,4))
s    multilabel_margin_loss_backward  (x(3).double(), x(3,4), ints(3,4), 0, torch.zeros(3,4))
s    multilabel_margin_loss_backward  (x(2).double(), x(3,4), ints(3,4), 0, torch.zeros(3,4))
s    multilabel_margin_loss_backward  (x(2), x(4), ints(4), 0, torch.zeros(4))
s    multilabel_margin_loss_backward  (x(5), x(3,4), ints(3,4), 1, torch.zeros(3,4))
f    nll_loss_backward  (x(), x(3), torch.tensor([2,0,1]), None, 1, -100, p())
f    nll_loss_backward  (x(), x(3), torch.tensor([2,0,1]), p(3), 2, 0, p())
f    cross_entropy_loss  (x(3,4), x(3,4), None, 1, -5)
f    cross_entropy_loss  (x(4), x(4), p(4), 2, -1, 0.5)
f    cross_entropy_loss  (x(3,4), torch.tensor([1,-5,2]), p(4), 1, -5)
f    cross_entropy_loss  (x(3,4), torch.tensor([1,-5,2]), None, 1, -5, 0.5)
f    nll_loss_forward  (x(3,4), torch.tensor([1,-1,2]), p(4), 1, -1)
s    nll_loss2d_forward  (x(0,3,2,2), torch.zeros(0,2,2,dtype=torch.uint8), None, 0, -100)
s    nll_loss2d_forward  (x(0,3,2,2), torch.zeros(0,2,2,dtype=torch.uint8), None, 2, -100)
s    nll_loss_forward  (x(0,3), torch.zeros(0,dtype=torch.uint8), None, 0, -100)
s    _ctc_loss_backward  (x(1), torch.log_softmax(x(3,1,3), 2), torch.tensor([[1]]), [3], [1],
         torch.tensor([-float('inf')]), torch.zeros(1,3,3), 0, True)
s    _ctc_loss_backward  (x(1), torch.log_softmax(x(3,1,3), 2), torch.tensor([[1]]), [3], [1],
         torch.tensor([float('nan')]), torch.zeros(1,3,3), 0, True)
"""

# A single sequence; lengths that grow, although they must not; offsets that decrease, although they must not.
SEQUENCES = """
f    _pack_padded_sequence  (x(4,1,2), torch.tensor([3]), False)
f    _pack_padded_sequence  (x(1,4,2), torch.tensor([4]), True)
f    _pack_padded_sequence  (x(4,3,2), torch.tensor([4,1,2]), False)
f    _pack_padded_sequence  (x(4,3,2), torch.tensor([3,4,2]), False)
f    _pack_padded_sequence  (x(4,3,2), torch.tensor([2,3,4]), False)
f    _pad_packed_sequence  (x(3,2), torch.tensor([1,1,1]), True, 0.5, 5)
s    _jagged_to_padded_dense_forward  (x(6,2), [torch.tensor([0,4,2,6])], [3])
s    _padded_dense_to_jagged_forward  (x(3,4,2), [torch.tensor([0,4,2,6])])
f    _embedding_bag  (x(4,2), ints(5), torch.tensor([0,3,1]), False, 2)
s    _embedding_bag  (x(4,2).double(), ints(5), torch.tensor([0,3,1]), False, 1)
f    _embedding_bag  (x(4,2), ints(5), torch.tensor([0,3,1]), False, 1, False, None, False, 1)
f    _embedding_bag  (x(4,2), ints(5), torch.tensor([0,4,2,5]), False, 2, False, None, True)
f    _embedding_bag  (torch.tensor([[1,2],[float('nan'),3],[0,float('nan')]]).to(x(1).dtype),
         torch.tensor([0,1,2,1,0]), torch.tensor([0,3]), False, 2)
f    _embedding_bag_dense_backward  (x(2,3), ints(3), torch.tensor([0,0,1]), torch.tensor([-1,1]), ints(2,3), 4, False, 2, None)
f    _embedding_bag_dense_backward  (x(2,3), ints(3), torch.tensor([0,0,1]), torch.tensor([-2,4]), ints(2), 4, False, 1, None)
"""

# With include_last_offset, some indices are after the last offset: torch's vector loop ignores them, other loops do
# not.
BAGS = [
    f"f    {op}  (x(4,2){wide}, ints(6), torch.tensor([0,2,4]), False, {mode}, False, {scale}, True{padding})"
    for op, wide, (mode, scale), padding in product(
        ("_embedding_bag", "_embedding_bag_forward_only"), ("", ".mT.contiguous().mT"),
        [(0, "None"), (0, "x(6)"), (0, "x(12)[::2]"), (1, "None"), (2, "None")], ("", ", 1"))
]  # fmt: skip

# A table row that is selected by a positive and by a negative index is scaled twice, which changes the result for the
# 0-norm. Then factors beyond the range of half precision.
TABLES = """
f    embedding_renorm_  (x(5,6), torch.tensor([-1,4]), 2.0, 0.0)
f    embedding_renorm_  (x(5,6), torch.tensor([[4,-1],[-5,0]]), 1.0, 0.0)
f    embedding_renorm_  (x(5,6), torch.tensor([1,1,3]), 0.5, float('inf'))
f    embedding_renorm_  (torch.full((2,1),6e4).to(x(1).dtype), torch.tensor([0]), 1.65e-3, 2.0)
f    embedding_renorm_  (x(3,4), torch.tensor([0]), 0.0, 2.0)
"""

# Scales that are 0, infinite or negative, with masks. Then calls without queries, whose other sizes torch does not
# check.
SCALES = [
    row
    for scale, kind in (("0.0", "f"), ("-0.5", "f"), ("float('inf')", "s"))
    for row in (
        *(f"f    {op}  (x(1,2,3,4), x(1,2,3,4), x(1,2,3,4), None, 0.0, {causal}, scale={scale})"
          for op in ("scaled_dot_product_attention", "_scaled_dot_product_attention_math") for causal in (False, True)),
        *(f"f    _scaled_dot_product_flash_attention_for_cpu  (x(1,2,3,4), x(1,2,3,4), x(1,2,3,4), 0.0, {causal}, scale={scale})"
          for causal in (False, True)),
        f"{kind}    _scaled_dot_product_flash_attention_for_cpu_backward  (x(1,2,3,4), x(1,2,3,4), x(1,2,3,4), "
          f"x(1,2,3,4), x(1,2,3,4), x(1,3,2).to(torch.promote_types(x(1).dtype, torch.float32)).transpose(1,2), "
          f"0.0, False, scale={scale})",
    )
] + [
    f"f    scaled_dot_product_attention  ({shapes}{mask})"
    for shapes, mask in product(
        ("x(2,2,0,4), x(2,2,3,5), x(2,2,3,4)", "x(2,2,0,4), x(2,2,3,4), x(2,2,5,4)", "x(2,0,4), x(3,3,4), x(2,3,2)",
          "x(2,3,4), x(2,3,4), x(2,3,0)"),
        ("", ", None, 0.5", ", None, 0.0, True"))
] + [
    f"f    scaled_dot_product_attention  ({queries}, x(3,1,5,4), x(3,1,5,4), enable_gqa=True)"
    for queries in ("x(3,3,2,4).transpose(1,2)", "x(3,2,4,3).mT", "x(3,1,2,4).as_strided((3,1,2,4), (8,1,4,1))")
] + [
    f"s    _scaled_dot_product_flash_attention_for_cpu_backward  (x(1,4,3,4), x(1,4,3,4), x(1,2,3,4), "
      f"x(1,2,3,4), x(1,4,3,4), ends()[{sum}].expand(1,4,3), 0.0, True, scale={scale})"
    for sum, scale in product((0, 2, 3, 4), (0.0, -0.5))
] + [
    f"f    _scaled_dot_product_flash_attention_for_cpu  (x(1,4,3,4), x(1,2,{keys},4), x(1,2,{keys},4), 0.0, {causal}, scale={scale})"
    for keys, causal, scale in product((1, 3), (False, True), ("float('nan')", "1e39"))
] + [
    "s    _scaled_dot_product_attention_math  (x(3,2,2,4), x(3,1,4,4), x(1,4,2), None, 0.5, False, m(1,2,3), enable_gqa=True)",
]  # fmt: skip

# Coordinates that are NaN or infinite. For half-precision images torch converts them to 16-bit indices; for other
# images some crash torch.
_POINTS = "ends(0.3, 3e4, 0.2, -0.1).reshape(1,1,5,2)"
NOWHERE = [
    f"{'f' if mode else '-'}    grid_sampler_2d_backward  ({grad}, x(1,1,4,4){half}, {_POINTS}{half}, {mode}, "
      f"{padding}, {corners}, [True, True])"
    for mode, half, grad in ((2, "", "x(1,1,1,5)"), (0, ".half()", "x(1,1,1,5).half()"), (0, ".bfloat16()", "x(1,1,1,5).bfloat16()"))
    for padding, corners in product(range(3), (False, True))
] + [
    f"-    grid_sampler_2d  (x(1,1,4,4).bfloat16(), {_POINTS}.bfloat16(), 0, {padding}, False)"
    for padding in range(3)
] + [
    f"s    _grid_sampler_2d_cpu_fallback_backward  (x(1,1,1,5), x(1,1,4,4), {_POINTS}, 2, {padding}, False)"
    for padding in range(3)
]  # fmt: skip

# Sequences without steps, and layers of hidden size 0.
STEPLESS = [
    f"s    {op}.input  (x({time},{batch},4), {state.format(size)}, [x({gates}*{size},4), "
      f"x({gates}*{size},{size})], False, 1, 0.0, False, False, {first})"
    for (op, gates, state) in (("gru", 3, "x(1,2,{})"), ("rnn_tanh", 1, "x(1,2,{})"), ("lstm", 4, "[x(1,2,{0}), x(1,2,{0})]"))
    for time, batch, size, first in ((0, 2, 5, False), (2, 0, 5, True), (3, 2, 0, False))
] + [
    f"s    lstm.input  (x(3,2,4), [x(1,2,5), x(1,2,5)], [x(20,4), x(20,5), x(20){first}, x(20){second}], True, 1, 0.0, False, False, False)"
    for first, second in ((".half()", ""), ("", ".long()"), (".bool()", ".bfloat16()"))
]  # fmt: skip

# Infinities at weights that would be 0 but for rounding errors.
WEIGHTS = [
    f"f    _upsample_{kind}2d_aa{name}  (x(1,1,{height},{width}).index_fill(3, torch.tensor([{place}]), "
      f"float('inf')), [3,3], {size}False, None, None)"
    for kind in ("bilinear", "bicubic", "lanczos")
    for name, height, width, place, size in (
        ("", 3, 7, 3, ""), ("", 8, 8, 3, ""), ("_backward", 3, 3, 0, "[1,1,3,7], "), ("_backward", 3, 3, 0, "[1,1,8,12], "))
]  # fmt: skip

F8 = ".to(torch.float8_e5m2)"

# Calls that show which arguments torch checks for an empty batch, and for which gradient it checks first.
NO_IMAGES = [
    f"-    _slow_conv2d_backward.output_mask  (x({n},3,2,2){grad}, x({n},2,4,4){image}, x(3,2,3,3){weight}, [3,3], [1,1], [0,0], {mask})"
    for n in (0, 2)
    for grad, image, weight in (
        (F8, F8, F8), ("", "", ".double()"), (F8, "", ""), ("", F8, "")
    )
    for mask in ([True, True, True], [False, True, False], [False, True, True])
]  # fmt: skip

# Bounds that are booleans and integers.
BOUNDS = [
    f"f    {op}, {low}, {high})"
    for op, (low, high) in product(
        ("rrelu_with_noise  (x(3,4), torch.zeros(3,4).to(x(1).dtype)",
          "rrelu_with_noise_functional  (x(3,4), torch.zeros(3,4).to(x(1).dtype)", "rrelu  (x(3,4)"),
        [("True", "True"), ("False", "True"), ("1", "2"), ("-3", "0"), ("True", "2"), ("False", "0.5")])
]  # fmt: skip

# Gradients that exceed the range of their dtype when the scale is removed, and NaN in the optimizer's state.
GIVEN = "weight_decay={decay}, maximize=False, grad_scale=torch.tensor({scale}), found_inf=torch.tensor({found}))"
USUAL = "lr=1e-7, beta1=0.9, beta2=0.99, eps=1e-8, amsgrad={top}, "
STEPS = [
    row
    for decay, scale, found in ((0.0, 1e-3, 0.0), (0.1, 1e-3, 0.5), (0.1, 1e7, 2.0))
    for given in (GIVEN.format(decay=decay, scale=scale, found=found),)
    for row in (
        f"f    _fused_sgd_  ([x(3)], [(x(3)*0+6e4).to(x(1).dtype)], [], momentum=0.0, lr=1e-7, dampening=0.0, "
          f"nesterov=False, is_first_step=False, {given}",
        f"f    _fused_sgd_  ([x(3)], [x(3)], [x(3)], momentum=0.5, lr=1e-2, dampening=0.3, nesterov=True, is_first_step=True, {given}",
        f"f    _fused_adagrad_  ([x(3)], [(x(3)*0+6e4).to(x(1).dtype)], [p(3)], [torch.tensor(2.)], lr=0.1, "
          f"lr_decay=0.5, eps=1e-8, {given}",
        *(f"f    {op}  ([x(3)], [x(3)], [x(3)], [p(3)], [torch.tensor([1.,float('nan'),2.]).to(x(1).dtype)], "
          f"[torch.tensor(3.)], {USUAL.format(top=True)}{given}"
          for op in ("_fused_adam_", "_fused_adamw_")),
    )
]  # fmt: skip

# Means that half precision cannot represent, of strided memory; float32 parameters and statistics with inputs in half
# precision; norms of weights whose shape does not fit.
NORMS = """
f    _native_batch_norm_legit.no_stats  ((torch.arange(60).div(7).int()%2*2+2048).to(x(1).dtype).reshape(4,3,5).transpose(0,1), None, None, True, 0.1, 1e-5)
f    native_batch_norm  ((torch.arange(60).div(7).int()%2*2+2048).to(x(1).dtype).reshape(4,3,5).transpose(0,1), None,
         None, x(4), p(4), True, 0.1, 1e-5)
f    native_batch_norm_backward  (x(5,4)[:,::2], x(5,6)[:,::3], p(2), None, None, x(2), p(2), True, 1e-5, [True,True,True])
f    native_batch_norm_backward  (x(2,3,4,2).mT, x(2,3,4,2).mT, None, None, None, x(3), p(3), True, 1e-5, [True,True,True])
f    native_batch_norm_backward  (x(1,2,6,2).permute(1,3,0,2), x(1,2,6,2).permute(1,3,0,2), p(2), None, None, x(2),
         p(2), True, 1e-5, [True,True,True])
f    native_batch_norm  (x(5,1,4,3,2).permute(1,4,0,2,3), p(2), x(2), x(2), p(2), True, 0.1, 1e-5)
f    batch_norm  (x(1,2,6,2).permute(1,3,0,2), p(2), x(2), x(2), p(2), False, 0.1, 1e-5, False)
f    native_batch_norm  (x(5,1,4,3,2).permute(1,4,0,2,3), None, None, None, None, True, 0.1, 1e-5)
f    batch_norm  (x(1,2,6,2).permute(1,3,0,2), p(4)[::2], x(2), x(2), p(2), False, 0.1, 1e-5, False)
s    native_batch_norm  (torch.tensor([[3e38,-3e38],[1.,2.],[-3e38,4.]])[:,::2], None, None, x(1), p(1), True, 0.1, 1e-5)
f    group_norm  (x(2,3,5,4).permute(0,3,1,2), 2, p(4), x(4), 1e-5)
f    group_norm  (x(2,3,2,5,4).permute(0,4,1,2,3), 2, None, None, 1e-5)
f    batch_norm_update_stats  ((torch.arange(60).div(7).int()%2*2+2048).to(x(1).dtype).reshape(4,3,5).transpose(0,1), x(4), p(4), 0.5)
f    native_layer_norm_backward  (x(2,7), x(2,7), [7], torch.zeros(2,1), torch.ones(2,1), None, None, [True,False,False])
s    instance_norm  (x(2,3,4).half(), p(3), x(3), x(3), p(3), True, 0.1, 1e-5, False)
s    instance_norm  (x(2,3,4).bfloat16(), p(3), x(3), x(3), p(3), True, 0.5, 1e-5, False)
s    instance_norm  (x(2,3,4).bfloat16(), p(3), x(3), x(3), p(3), False, 0.5, 1e-5, False)
s    instance_norm  (x(2,3,4).half(), None, None, x(3), p(3), True, 0.5, 1e-5, False)
f    _weight_norm_interface  (x(3,4), x(3), 0)
f    _weight_norm_interface  (x(3,4), x(1,3,1), 0)
f    _weight_norm_interface  (x(3,4), x(2,2), 1)
"""

# Differences of second order in integers, which wrap where floats would not.
WRAPS = [
    f"-    {op}  (torch.tensor({values}, dtype=torch.{dtype}), {dims}edge_order=2)"
    for (op, dims), (values, dtype) in product(
        [("gradient.scalarint", ""), ("gradient.array", "dim=[0], ")],
        [("[100,100,100,90]", "int8"), ("[2**14,2**14,2**13,7]", "int16"), ("[2**30,2**30,2**29,7]", "int32"),
          ("[2**62,2**62,2**61,7]", "int64")])
]  # fmt: skip

# Partial sums of gradients exceed the range of half precision, although the sums do not; some of torch's loops sum in
# float32.
MET = "torch.tensor([{open}6e4,6e4,-6e4{shut}]).to(x(1).dtype)"
SUMS = [
    row
    for n in (2, 3)
    for ones, grad in [("1," * (n - 1), MET.format(open="[" * n, shut="]" * n))]
    for at in [f"torch.tensor([{'[' * n}2,2,2{']' * n}])"]
    for row in (
        f"f    adaptive_max_pool{n}d_backward  ({grad}, x({ones}1,5), {at})",
        f"f    max_pool{n}d_with_indices_backward  ({grad}, x({ones}1,5), [{ones}3], [{ones}1], {[0] * n}, {[1] * n}, False, {at})",
        f"f    fractional_max_pool{n}d_backward  ({grad}, x({ones}1,5), [{ones}3], [{ones}3], {at})",
        f"f    avg_pool{n}d_backward  ({grad}, x({ones}1,5), [{ones}3], [{ones}1], {[0] * n}, False, True, 1)",
        f"f    _adaptive_avg_pool{n}d  ({grad}, {[1] * n})",
    )
]  # fmt: skip

# Coordinates that are NaN, infinite or far away, in images and volumes, for each mode and padding. Some are left out
# for gradients of images, because torch writes out of bounds for NaN.
PLACES = ("float('nan')", "float('inf')", "-float('inf')", "3e4", "-1.7e4")
GRIDS = [
    row
    for turn, (place, padding, align) in enumerate(product(PLACES, (0, 1, 2), (False, True)))
    for mode in (turn % 2,)
    for number in (turn // 6 > 2,)
    for row in (
        *(("f",
          "s")[not number] + f"    grid_sampler_2d  (x(1,1,2,3), torch.tensor([[[[{place},0.2]]]]).to(x(1).dtype), {m}, {padding}, "
          f"{align})"
          for m in (0, mode)[: 1 + number]),
        f"s    grid_sampler_3d  (x(1,1,2,3,2), torch.tensor([[[[[0.1,{place},0.3]]]]]), {mode}, {padding}, {align})",
        f"s    _grid_sampler_2d_cpu_fallback  (x(1,1,2,3), torch.tensor([[[[{place},0.2]]]]), {mode}, {padding}, {align})",
        *(f"s    grid_sampler_2d_backward  (x(1,1,1,1), x(1,1,2,3), torch.tensor([[[[{place},0.2]]]]), {mode}, "
          f"{padding}, {align}, [True,True])"
          for _ in range(number)),
        *(f"s    grid_sampler_3d_backward  (x(1,1,1,1,1), x(1,1,2,3,2), torch.tensor([[[[[0.1,{place},0.3]]]]]), "
          f"0, {padding}, {align}, [True,True])"
          for _ in range(turn > 5)),
    )
]  # fmt: skip

# A single feature of negative zeros; sums that exceed the range of half precision until the bias is added; two faults
# at once; empty gradients of another dtype.
CELLS = """
f    lstm_cell  (-torch.zeros(2,1).to(x(1).dtype), [-torch.zeros(2,1).to(x(1).dtype)]*2, p(4,1), p(4,1))
f    gru_cell  (-torch.zeros(2,1).to(x(1).dtype), -torch.zeros(2,1).to(x(1).dtype), p(3,1), p(3,1))
f    rnn_tanh_cell  (-torch.zeros(2,1).to(x(1).dtype), -torch.zeros(2,1).to(x(1).dtype), p(1,1), p(1,1))
f    rnn_tanh.input  (-torch.zeros(2,2,1).to(x(1).dtype), -torch.zeros(1,2,2).to(x(1).dtype), [p(2,1), p(2,2)], False,
         1, 0.0, False, False, False)
f    rnn_relu.input  (torch.full((2,3,1),300.).to(x(1).dtype), x(1,2,1), [torch.full((1,1),300.).to(x(1).dtype),
         x(1,1), torch.full((1,),-6e4).to(x(1).dtype), x(1)], True, 1, 0.0, False, False, True)
f    rnn_relu.input  (torch.full((2,3,1),300.).to(x(1).dtype), x(1,3,1), [torch.full((1,1),300.).to(x(1).dtype),
         x(1,1), torch.full((1,),-6e4).to(x(1).dtype), x(1)], True, 1, 0.0, False, False, False)
f    rnn_relu_cell  (torch.full((2,1),300.).to(x(1).dtype), x(2,1), torch.full((1,1),300.).to(x(1).dtype), x(1,1),
         torch.full((1,),-6e4).to(x(1).dtype), x(1))
s    gru_cell  (x(2,3), x(4,4), x(7,3), x(12,4))
s    gru_cell  (x(2,2), x(2,4), x(7,3), x(12,4))
s    gru_cell  (x(2,3), x(2,5), x(12,3), x(11,4))
s    lstm_cell  (x(2,3), [x(4,4), x(2,4)], x(7,3), x(16,4))
s    lstm_cell  (x(2,2), [x(2,4), x(4,4)], x(16,3), x(15,4))
s    lstm_cell  (x(2,2), [x(2,4), x(2,4)], x(15,3), x(16,4))
s    lstm_cell  (x(2,3), [x(4,4), x(2,4)], x(16,3), x(15,4))
s    rnn_tanh_cell  (x(2,2), x(4,4), x(5,3), x(4,4))
f    fractional_max_pool2d_backward  (x(1,1,3), x(1,1,5), [1,3], [1,3], torch.zeros(1,3,dtype=torch.long))
s    fractional_max_pool2d_backward  (x(1,1,3).double(), x(1,1,5), [1,3], [1,3], torch.zeros(1,1,4,dtype=torch.long))
s    fractional_max_pool2d_backward  (x(1,1,4), x(1,1,5), [1,3], [1,3], torch.zeros(1,1,4,dtype=torch.long))
s    _grid_sampler_2d_cpu_fallback_backward  (x(0,2,3,3).double(), x(0,2,4,4), x(0,3,3,2), 0, 0, False)
"""

# Empty batches and inputs without channels: with groups, transposed, and with weights of other dtypes.
NOTHING = [
    row
    for channels, wide, transposed, groups in (
        ("0,4", "", True, 2), ("0,4", "", False, 2), ("0,4", ".double()", False, 1), ("0,4", ".double()", True, 2),
          ("0,4", ".half()", False, 1),
        ("2,0", ".double()", False, 1))
    for n in (1, 2)
    for size, c in [(",".join(["5"] * n), int(channels[2]))]
    for weight in [f"x(4,{c // (1 if transposed else groups)},{','.join(['2'] * n)}){wide}"]
    for rest in [f"{[1] * n}, {[0] * n}, {[1] * n}, {transposed}, {[0] * n}, {groups}"]
    for row in (
        f"s    convolution  (x({channels},{size}), {weight}, None, {rest})",
        f"s    convolution_backward  (x({channels[0]},4,{','.join(['6' if transposed else '4'] * n)}), "
          f"x({channels},{size}), {weight}, [4], {rest}, [True,True,True])",
    )
]  # fmt: skip

# Convolutions of empty batches, without input channels, with windows of one element, or in float8; and pooling of
# channels_last planes with indices that an 8-bit integer cannot represent.
WINDOWS = """
f    conv_transpose2d.input  (x(0,4,5,5), x(4,3,2,2), x(6), [1,1], [0,0], [0,0], 2)
f    conv_transpose1d  (x(0,4,5), x(4,3,2), x(6), [1], [0], [0], 2)
f    slow_conv_dilated2d  (x(1,0,5,5), x(3,0,2,2), [2,2], x(3), [1,1], [0,0], [1,1])
f    slow_conv_dilated3d  (x(0,4,4,4), x(3,0,2,2,2), [2,2,2], x(3), [1,1,1], [0,0,0], [1,1,1])
-    convolution  (torch.ones(1,2,3,3,3,dtype=torch.bool), torch.ones(3,2,1,1,1,dtype=torch.bool), None, [2,2,2],
         [0,0,0], [1,1,1], False, [0,0,0], 1)
-    convolution  (torch.ones(1,2,3,3,3,dtype=torch.bool), torch.ones(3,2,1,1,1,dtype=torch.bool), None, [1,1,1],
         [0,0,0], [1,1,1], False, [0,0,0], 1)
-    convolution  (torch.ones(1,2,3,3,3,dtype=torch.bool), torch.ones(3,2,1,1,1,dtype=torch.bool), None, [1,1,1],
         [1,1,1], [1,1,1], False, [0,0,0], 1)
-    _slow_conv2d_backward.output_mask  (torch.zeros(1,3,2,2).to(torch.float8_e5m2),
         torch.zeros(1,2,3,3).to(torch.float8_e5m2), torch.zeros(3,2,2,2).to(torch.float8_e5m2), [2,2], [1,1], [0,0],
         [True,False,True])
-    max_pool2d_with_indices  (torch.arange(256).reshape(1,2,8,16).to(torch.int8).to(memory_format=torch.channels_last), [2,2])
-    max_pool2d_with_indices  (torch.arange(254).reshape(1,2,1,127).to(torch.int8).to(memory_format=torch.channels_last), [1,2])
-    max_pool2d_with_indices  (torch.arange(256).reshape(1,2,8,16).to(torch.uint8).to(memory_format=torch.channels_last), [2,2])
-    max_pool3d_with_indices  (torch.arange(256).reshape(1,2,2,4,16).to(torch.int8).to(memory_format=torch.channels_last_3d), [2,2,2])
"""

LAYERS = LOSSES.lstrip() + SEQUENCES.lstrip() + TABLES.lstrip() + NORMS.lstrip() + CELLS.lstrip() + WINDOWS.lstrip()
LAYERS += (
    "\n".join(
        [*NARROW, *ENDS, *PROBABILITIES, *BAGS, *SCALES, *BOUNDS, *STEPS, *WRAPS, *SUMS, *GRIDS, *NOTHING, *NOWHERE]
    )
    + "\n"
)
