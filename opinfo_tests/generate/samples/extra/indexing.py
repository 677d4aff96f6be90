"""Rows for views, indexing, joining, sorting, ranges and random fills that expose wrong kernels."""

from itertools import product

LAST = ".to(memory_format=torch.channels_last)"

# Sizes of views: -1 is ambiguous if another size is 0, an empty tensor keeps its strides if it keeps its shape, and
# several sizes may be negative.
SIZES = [
    *(f"s    {op}  (x(0,3), [-1,0])" for op in ("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy")),
    "s    unflatten.int  (x(0,3), 0, [-1,0])",
    "s    unflatten.int  (x(2,0), 1, [0,-1])",
    *(f"s    {op}  (x(0,3)[:,::2], [0,2])" for op in ("view", "reshape", "_unsafe_view")),
    *(f"s    {op}  ([-1,-2])" for op in ("empty.memory_format", "ones", "rand", "zeros")),
    "s    repeat  (x(2), [-1,-2])",
    "s    new_ones  (x(2), [-3,-1])",
]

# Dimensions of size 1, whose strides torch sometimes ignores.
ONES = [
    "s    view_as_complex  (x(1,5)[:,:2])",
    "s    view_as_complex  (x(2,3)[:1,:2])",
    "s    _debug_has_internal_overlap  (x(4,4)[:,:3].as_strided([3,1,2], [4,0,1]))",
    "s    slice.Tensor  (x(3,4), 1, 2, 2, 2)",
    *(f"s    {op}  (torch.zeros({shape}, dtype=torch.float8_e5m2), 0, torch.tensor([[1],[0]]){wide})"
      for op, (shape, wide) in product(("gather",), (("3,1", ""), ("3,2", ".expand(2,2)")))),
    *(f"s    {op}  (*(lambda a: [a[:12].as_strided([2,3,2,1], [3,1,6,99]), a[2:].as_strided([2,3,2,1], [3,1,6,99])])(x(20)))"
      for op in ("copy_", "add_.Tensor", "mul_.Tensor", "fmod_.Tensor")),
]  # fmt: skip

# Strides that may be a memory format: ambiguous ones, expanded channels, empty dimensions.
FORMATS = [
    "s    cat  ([x(9).as_strided([2,1,1,1], [5,3,3,3])] * 2, 1)",
    "s    cat  ([x(2,1,3,4).expand(2,2,3,4)] * 2, 0)",
    "s    stack  ([x(2,0,3)] * 2, 1)",
    "s    stack  ([x(2,0,3)] * 2, 2)",
    *(f"s    to.dtype  ({value}, torch.float32, False, False, memory_format=torch.{asked})"
      for value, asked in product(
          ("x(9).as_strided([2,1,1,1], [5,3,3,3])", "x(2,1,3,4).expand(2,2,3,4)", f"x(2,3,4,5){LAST}[:,:,::2]", "x(2,1,3,4)"),
          ("channels_last", "contiguous_format"))),
    *(f"s    contiguous  ({value}, memory_format=torch.channels_last)"
      for value in (f"x(2,3,4,5){LAST}[:,:,::2]", "x(2,1,3,4)", "x(2,1,3,4).expand(2,2,3,4)")),
    f"s    resize_as  (x(1,2,2,2), x(1,2,3,3){LAST}, memory_format=torch.preserve_format)",
    "s    index.Tensor  (x(3,4,2,3).permute(1,0,3,2), [None, m(3,3)])",
    "s    constant_pad_nd  (x(2,3,4).permute(2,0,1), [-1,0])",
]  # fmt: skip

# Values that the other dtype cannot represent, written into a view, a copy or the whole tensor.
CASTS = [
    *(f"s    {op}  (torch.zeros(3{more}, dtype=torch.{dtype}), {src})"
      for dtype, (op, more, src) in product(
          ("float8_e4m3fn", "float8_e5m2fnuz"),
          (("select_scatter", "", "torch.tensor(1e6), 0, 1"), ("slice_scatter", "", "torch.tensor([1e6,-1e6,float('nan')])"),
           ("diagonal_scatter", ",3", "torch.tensor([1e6,-1e6,1.0])"), ("as_strided_scatter", "", "torch.tensor([1e6,-1e6]), [2], [1]"),
           ("copy", "", "torch.tensor([1e6,-1e6,float('nan')])"), ("copy_", "", "torch.tensor([1e6,-1e6,float('inf')])"),
           ("fill_.Tensor", "", "torch.tensor(1e6)")))),
    *(f"s    {op}  (torch.tensor({value}, dtype=torch.uint64))"
      for op, value in product(("is_nonzero", "item", "_local_scalar_dense"), ("2**63", "[2**63 + 1]", "5"))),
    "fi   _local_scalar_dense  (x(3))",
    "s    _local_scalar_dense  (x(2,2).t())",
    "b    sum_to_size  (x(1,3), [1,3])",
    "i    sum_to_size  (x(2,1,3), [1,3])",
    "i    constant_pad_nd  (x(2), [1,1], 300)",
    "s    constant_pad_nd  (x(2).half(), [1,1], 1e6)",
    "s    constant_pad_nd  (x(2), [1,1], 2 + 1j)",
]  # fmt: skip

# Rare dtypes, for which torch can only move whole rows, or raises an unexpected error.
RARE = [
    *(f"s    {op}  (torch.zeros(3,2, dtype=torch.{dtype}){turned}{dims})"
      for (op, dims), dtype, turned in product(
          (("flip", ", [0]"), ("flip", ", [1]"), ("fliplr", ""), ("flipud", ""), ("rot90", "")), ("uint16", "float8_e5m2"), ("", ".t()"))),
    *(f"s    scatter_reduce.two  (torch.zeros(3, dtype=torch.uint16), 0, torch.tensor([1]), torch.zeros(1, "
      f"dtype=torch.uint16), '{r}', include_self={own})"
      for r, own in product(("sum", "prod", "mean", "amax", "amin"), (False, True))),
    *(f"s    unfold_backward  (torch.zeros(2,2, dtype=torch.{dtype}), [4], 0, 2, {step})"
      for dtype, step in product(("uint16", "float8_e5m2"), (1, 2))),
    "s    combinations  (torch.zeros(1, dtype=torch.uint16), 2, True)",
    "s    _compute_linear_combination  (x(2,3).half(), x(2,2))",
    *(f"s    {op}  (torch.zeros(0, dtype=torch.{dtype}))"
      for op, dtype in product(("median", "nanmedian"), ("uint64", "int64", "int32", "uint8", "bool", "float16"))),
]  # fmt: skip

# Tensors of different ranks, one of which determines the dimension along which they are joined.
RANKS = [
    f"s    {op}  ([{first}, {second}])"
    for op, (first, second) in product(
        ("hstack", "vstack", "dstack", "column_stack"),
        (("x(1)", "x(1,2)"), ("x(1,2)", "x(1)"), ("x()", "x(1,1,2)"), ("x(1,1,2)", "x(1)")),
    )
]

# Gradients that are larger than the padded tensor.
PADS = [
    row
    for mode in ("reflection", "replication")
    for row in (
        f"s    {mode}_pad1d_backward  (x(1,10), x(1,5), [2,2])",
        f"s    {mode}_pad2d_backward  (x(1,6,5), x(1,3,3), [1,1,1,1])",
        f"s    {mode}_pad2d_backward  (x(1,5,6), x(1,3,3), [1,1,1,1])",
        f"s    {mode}_pad3d_backward  (x(1,1,6,5,5), x(1,1,3,3,3), [1,1,1,1,1,1])",
        f"c    {mode}_pad1d_backward  (x(1,9), x(1,5), [2,2])",
    )
]

# Masks after a full slice, index arrays that are not adjacent, negative and out-of-range indices, expanded inputs.
PUTS = [
    *(f"s    {op}  (x(2,3,2), [None, torch.tensor([True,False,True])], torch.tensor(2.0))"
      for op in ("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put")),
    *(f"s    {op}  (x(2,3,2,2), [None, torch.tensor([0,2,1,0]), None, torch.tensor([1,0,1,1])], x(4,2,2){add})"
      for op, add in product(("index_put", "index_put_"), ("", ", True"))),
    *(f"s    {op}  (x(3), [torch.tensor([{i}])], torch.tensor([2.0]), {add})"
      for op, i, add in product(("index_put", "index_put_", "_unsafe_index_put"), (3, 4, -4), (True, False))),
    *(f"s    {op}  (x(3), torch.tensor([{i}]), torch.tensor([2.0]), {add})"
      for op, i, add in product(("put", "put_"), (3, -4), (True, False))),
    *(f"fs   {op}  (x(1,2).expand(3,2), [torch.tensor([0,2,0])], x(3,2){add})"
      for op, add in product(("index_put_", "_index_put_impl_"), ("", ", True"))),
    "s    _unsafe_masked_index  (x(4), torch.tensor([True,True,False]), [torch.tensor([-1,-2,9])], 0.0)",
    "s    _unsafe_masked_index_put_accumulate  (x(4), torch.tensor([True,True,False]), [torch.tensor([-1,-2,9])], x(3))",
    *(f"s    {op}  (torch.tensor(1.0), 0, torch.tensor([{i}]){src})"
      for (op, src), i in product(
          (("index_select", ""), ("gather", ""), ("index_add", ", x(1)"), ("index_copy", ", x(1)"), ("index_fill.int_Scalar", ", 2.0"),
           ("scatter.value", ", 2.0"), ("index_reduce", ", x(1), 'prod'")), (1, -1, 0))),
    *(f"s    {op}  (x(3,0), 0, torch.tensor([5]){src})"
      for op, src in (("index_select", ""), ("index_add", ", x(1,0)"), ("index_copy", ", x(1,0)"), ("index_fill.int_Scalar", ", 2.0"),
                      ("index_reduce", ", x(1,0), 'prod'"))),
    *(f"s    {op}  (x(3), 0, torch.tensor([7,1,-8]){src})"
      for op, src in (("index_select", ""), ("gather", ""), ("index_add", ", x(3)"), ("index_copy", ", x(3)"),
            ("index_fill.int_Scalar", ", 2.0"),
                      ("scatter.src", ", x(3)"), ("index_reduce", ", x(3), 'prod'"))),
    "s    set_.source_Tensor_storage_offset  (x(0).half(), x(8)[2:], 1, [3], [1])",
    "s    _new_zeros_with_same_feature_meta  (x(3,2), ints(4), self_num_batch_dims=1)",
]  # fmt: skip

# For a mean torch divides by a count in the tensor's dtype, which may wrap, or stop growing because adding 1 has no
# effect.
MEANS = [
    *(f"f    index_reduce  (p({shape}), {dim}, torch.zeros(300, dtype=torch.{index}), torch.ones({ones}).to(x(1).dtype), 'mean'{own})"
      for (shape, ones, dim), index, own in product(
          (("2", "300", 0), ("2,2", "300,2", 0), ("2,2,2", "2,300,2", 1)), ("int64", "int32"), ("", ", include_self=False"))),
    *(f"i    {op}  (p(2), 0, torch.zeros({n}, dtype=torch.int64), torch.ones({n}).to(x(1).dtype), 'mean', include_self={own})"
      for op, (n, own) in product(("index_reduce", "scatter_reduce.two"), ((255, True), (256, False), (200, True)))),
    *(f"s    {op}  (p(2).to(torch.int8), 0, torch.zeros(200, dtype=torch.int64), torch.ones(200, dtype=torch.int8), 'mean')"
      for op in ("index_reduce", "scatter_reduce.two")),
    "f    scatter_reduce.two  (p(2), 0, torch.zeros(300, dtype=torch.int64), torch.ones(300).to(x(1).dtype), 'mean')",
]  # fmt: skip

# Zeros and NaNs of both signs, integers above 2**53, and keys that differ only in their last bits.
ORDER = [
    *(f"f    {op}  (ends())" for op in ("nonzero", "argwhere", "nonzero_numpy", "count_nonzero")),
    "f    nonzero_static  (ends(), size=4)",
    "f    topk  (ends(1), 3)",
    "s    sort.stable  (torch.tensor([1.0,0.0,1.0]), stable=True, descending=True)",
    "s    argsort.stable  (torch.tensor([1.0,0.0,1.0]), stable=True, descending=True)",
    "s    sort.stable  (1 + ints(300) * 1.2e-7, stable=True)",
    *(f"s    {op}"
      for values, edges in (("torch.tensor([2**60 + 1])", "torch.tensor([2**60,2**60 + 2])"),
                            ("torch.tensor([0.0,2.5,float('nan')])", "torch.tensor([1.0,float('nan'),2.0,3.0])"))
      for right in (False, True)
      for op in (f"searchsorted.Tensor  ({edges}, {values}, right={right})", f"bucketize.Tensor  ({values}, {edges}, right={right})",
                 f"searchsorted.Tensor  ({edges}[None], {values}[None], right={right})")),
]  # fmt: skip

# Ranges whose length torch computes in single precision or in integers, and integer points, which torch truncates from
# either end.
RANGES = [
    *(f"s    range.step  ({ends}, dtype=torch.{dtype})"
      for ends, dtype in product(("0.0, 1.0, 0.1", "0.0, 0.7, 0.1"), ("float16", "bfloat16", "float32"))),
    "s    range.step  (0, 3 * 2**60 - 1, 2**60, dtype=torch.int64)",
    "s    range.step  (-3e38, 3e38, 3e38, dtype=torch.bfloat16)",
    *(f"s    linspace  ({ends}, dtype=torch.{dtype})"
      for ends, dtype in product(("-20, 6, 7", "-20, 4, 15", "-20, 8, 11", "0, -5, 4"), ("int32", "int64", "int8"))),
]  # fmt: skip

# Operands that share memory with the written argument: torch reads their old values, or raises an error.
SHARED = [
    *(
        f"s    {op}  (*(lambda a: [[a[:2]], [x(2)], [x(2)], a[:1]])(p(4)))"
        for op in ("_foreach_addcmul_.Tensor", "_foreach_addcdiv_.Tensor")
    ),
    "s    add_.Tensor  (*(lambda a: [a, a.t()])(x(6)[:4].view(2,2)))",
    "s    mul_.Tensor  (*(lambda a: [a, a.t()])(x(6)[:4].view(2,2)))",
    "s    index_fill_.int_Tensor  (*(lambda a: [a, 0, a, torch.tensor(1)])(torch.tensor([0,1])))",
    "s    index_put_  (*(lambda a: [a, [a], torch.tensor([5,6])])(torch.tensor([0,1])))",
    *(
        f"s    {op}  (*(lambda a: [a, 0, torch.tensor([0,1,1]), a])(x(4)[:3]))"
        for op in ("index_add_", "index_copy_", "scatter_.src", "scatter_add_")
    ),
    "s    put_  (*(lambda a: [a, a, torch.tensor([5,6])])(torch.tensor([0,1])))",
    *(f"i    {op}  (x(3), -1)" for op in ("add_.Tensor", "sub_.Tensor", "bitwise_and_.Scalar", "bitwise_or_.Scalar")),
]

# Assertions of exported programs without a message, and random numbers between bounds whose difference is rounded.
OTHERS = [
    "s    _assert_scalar  (0, '')",
    "s    _assert_async.msg  (torch.tensor(0), '')",
    "s    _functional_assert_scalar  (0, '', x(2))",
    "s    _functional_assert_async.msg  (torch.tensor(0), '', x(2))",
    *(f"s    {op}  (torch.zeros(40), 0.1, 0.7, generator=g())" for op in ("uniform_", "uniform")),
]

# If the shape becomes smaller, the elements that come first in memory are kept. Overlapping windows are added in a
# fixed order.
KEPT = [
    "fi   resize  (x(2,3).t(), [2,2])",
    "s    resize  (x(3,4)[:,1:3], [2,2])",
    "s    resize  (x(2,3,4).permute(2,0,1), [3,4])",
    f"s    resize  (x(1,2,3,3){LAST}, [2,3])",
    f"s    resize  (x(1,2,3,3){LAST}, [1,3,2,2], memory_format=torch.channels_last)",
    "s    resize  (x(1,4).expand(3,4), [2,3])",
    "s    resize_as  (x(2,3).t(), x(2,2))",
    "f    unfold_backward  (x(14,3), [16], 0, 3, 1)",
]

# Half-precision sums with a factor, which torch's vector code rounds once and its scalar code for the remainder at each
# step. Some factors are True.
FACTORS = [
    *(
        f"{kind}    index_add  (x({shape}){half}, {dim}, torch.tensor([1,0,1]), x({shape}){half}, alpha={alpha})"
        for kind, half in (("f", ""), ("-", ".bfloat16()"))
        for shape, dim in (("3,7", 0), ("3,40", 0), ("40,3", 1))
        for alpha in (10, 0.3, True)
    ),
    *(
        f"-    {op}  (x({n}).{half}(), {other}, alpha={alpha})"
        for op in ("add.Tensor", "sub.Tensor")
        for n, other, alpha in (
            (33, "x(33).{}()", 10),
            (70, "x(1).{}()", 0.3),
            (70, "x()", 10),
            (40, "x(40,2).{}()[:,0]", 10),
        )
        for half in ("bfloat16", "half")
        for other in (other.format(half),)
    ),
    "-    index_add  (ints(3,40).to(torch.float8_e5m2), 0, torch.tensor([1,0,1]), ints(3,40).to(torch.float8_e5m2))",
]

INDEXING = (
    "\n".join(
        line
        for group in (
            SIZES,
            ONES,
            FORMATS,
            CASTS,
            RARE,
            RANKS,
            PADS,
            PUTS,
            MEANS,
            ORDER,
            RANGES,
            SHARED,
            OTHERS,
            KEPT,
            FACTORS,
        )
        for line in (*group, "")
        if line
    )
    + "\n"
)
