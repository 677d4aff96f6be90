"""The client's knowledge of results (shapes, dtypes, strides, memory) agrees with the server, and inferring it has no
side effects."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from torchnp import rpc
from torchnp.engine.tensor import shape_inference

aten, prims = torch.ops.aten, torch.ops.prims


@pytest.fixture
def session():
    with rpc.local() as s:
        yield s


def like_torch(session, run, *tensors):
    """Run a function on handles and on tensors; compare dtypes, shapes, strides and values of all results."""
    torch.manual_seed(3)
    theirs = run(*tensors)
    torch.manual_seed(3)
    mine = run(*(session.send(t) for t in tensors))
    several = isinstance(theirs, (list, tuple))
    for m, t in zip(mine if several else [mine], theirs if several else [theirs], strict=True):
        assert (m.dtype, m.shape, m.stride()) == (t.dtype, t.shape, t.stride())
        torch.testing.assert_close(m.publish(), t, equal_nan=True)


@pytest.mark.parametrize("name", ["remainder_", "pow_", "atan2_", "eq_", "bitwise_and_"])
def test_a_refused_write_leaves_shapes_alone(session, name):
    """For an in-place write the meta device changes the target's shape, where the CPU refuses."""
    dtype = torch.int64 if name.startswith("bit") else torch.float32
    scalar, vector = session.send(torch.tensor(3, dtype=dtype)), session.send(torch.ones(4, dtype=dtype))
    for _ in range(2):  # the second call must not use a cached success
        with pytest.raises(RuntimeError, match=r"output with shape \[\] doesn't match the broadcast shape \[4\]"):
            getattr(scalar, name)(vector)
    assert scalar.clone().shape == () == (scalar + 1).publish().shape


def test_a_refused_write_has_torchs_words(session):
    """The message comes from the CPU, called with the arguments as they were before."""
    x, row = session.send(torch.ones(5, 1, dtype=torch.int64)), session.send(torch.ones(5, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"output with shape \[5, 1\] doesn't match the broadcast shape \[5, 5\]"):
        x.atan2_(row)
    with pytest.raises(RuntimeError, match="2D tensor expected, got 0D tensor for input"):
        session.send(torch.ones(())).addr_(session.send(torch.ones(5)), session.send(torch.ones(10)))
    with pytest.raises(rpc.HandleError, match="a handle is not resized"):
        session.send(torch.ones(1)).addbmm_(session.send(torch.ones(5, 5, 5)), session.send(torch.ones(5, 5, 10)))


def test_refusals_of_changed_strides_and_of_combinations_are_torchs(session):
    with pytest.raises(RuntimeError, match=r"^t_\(\) expects a tensor with <= 2 dimensions, but self is 3D"):
        session.send(torch.ones(2, 3, 4)).t_()
    with pytest.raises(NotImplementedError, match="not implemented for 'UInt16'"):
        torch.combinations(session.send(torch.ones(3, dtype=torch.uint16)))


@pytest.mark.parametrize("name", ["prims::resize", "aten::_resize_output_"])
def test_storage_is_not_resized(session, name):
    op = prims.resize if name.startswith("prims") else aten._resize_output_
    more = () if name.startswith("prims") else (torch.device("cpu"),)
    with pytest.raises(rpc.HandleError, match="cannot be replaced or resized"):
        op(session.send(torch.ones(3)), [2, 5], *more)


def test_unsafe_views_are_views(session):
    """Writes by torch's own composites through such views reach the base, and a chunk has its strides in the whole."""
    x = torch.arange(125.0).reshape(5, 5, 5)
    like_torch(session, lambda x: x.unsafe_chunk(5, 1), x)
    like_torch(session, lambda x: x.unsafe_split(2, 2), x)
    like_torch(session, lambda x: x.unsafe_split_with_sizes([2, 3], 0), x)
    x, y = torch.rand(5, 5), torch.rand(4, 6)
    out = session.send(torch.zeros(20, 30))
    torch.kron(session.send(x), session.send(y), out=out)
    torch.testing.assert_close(out.publish(), torch.kron(x, y))


WRITERS = {
    "lift": (aten.lift.out, torch.tensor([1.0, -2.0])),
    "matmul": (aten.matmul.out, torch.ones(5, 5, 10, dtype=torch.int64), torch.ones(10, dtype=torch.int64)),
    "linalg_matmul": (aten.linalg_matmul.out, torch.rand(5, 5, 10), torch.rand(10)),
    "matrix_rank": (aten.linalg_matrix_rank.out, torch.diag(torch.tensor([2.0, 1.0, 0.0])), 1e-3),
    "matrix_rank-atol": (aten.linalg_matrix_rank.atol_rtol_float_out, torch.eye(3)),
    "matrix_rank-tensor": (aten.linalg_matrix_rank.atol_rtol_tensor_out, torch.eye(3)),
}


def test_a_rank_goes_into_an_out_of_another_dtype(session):
    """For subclasses, torch computes the rank into its own tensor, and does not write such an out."""
    x = session.send(torch.eye(3))
    for dtype, n in ((torch.float64, 1), (torch.int32, 1), (torch.int64, 0)):
        out = session.send(torch.zeros(n, dtype=dtype).squeeze())
        assert torch.linalg.matrix_rank(x, out=out) is out
        assert torch.equal(out.publish(), torch.tensor(3, dtype=dtype))
    with pytest.raises(RuntimeError, match="safely castable from Long dtype, but got result with dtype Bool"):
        torch.linalg.matrix_rank(x, out=session.send(torch.tensor(False)))


@pytest.mark.parametrize("name", WRITERS)
def test_out_is_written(session, name):
    op, *args = WRITERS[name]
    want = op(*args, out=torch.empty_like(_functional(op)(*args)))
    out = session.send(torch.zeros_like(want))
    given = op(*(session.send(a) if isinstance(a, torch.Tensor) else a for a in args), out=out)
    assert given is out
    torch.testing.assert_close(out.publish(), want)


def _functional(op):
    return getattr(aten, op._schema.name.partition("::")[2])


def test_an_empty_out_is_resized(session):
    """It is moved to memory of the result's shape and strides; random numbers are drawn once; several outs are handled
    one by one."""
    x = torch.rand(3, 4)
    out, values, indices = (session.send(torch.empty(0, dtype=d)) for d in (torch.float32, torch.float32, torch.int64))
    assert torch.add(session.send(x), 1, out=out) is out
    assert out.shape == (3, 4)
    torch.testing.assert_close(out.mul_(2).publish(), (x + 1) * 2)
    torch.sort(session.send(x), dim=0, out=(values, indices))
    torch.testing.assert_close((values.publish(), indices.publish()), tuple(x.sort(dim=0)))
    for run in (
        lambda a, out: torch.add(a, a, out=out),
        lambda a, out: torch.kron(a, a, out=out),
        lambda a, out: torch.abs(a + 0j, out=out),
    ):
        mine, theirs = session.send(torch.empty(0)), torch.empty(0)
        run(session.send(x.T), mine), run(x.T, theirs)
        torch.testing.assert_close(mine.publish(), theirs)
        assert mine.stride() == theirs.stride()
    want = torch.bernoulli(x, generator=torch.Generator().manual_seed(4), out=torch.empty(0))
    drawn = session.send(torch.empty(0))
    torch.bernoulli(session.send(x), generator=torch.Generator().manual_seed(4), out=drawn)
    torch.testing.assert_close(drawn.publish(), want)


def test_an_out_that_the_meta_device_does_not_take(session):
    """The result is also too large to be tried on the CPU."""
    x, grid = session.send(torch.ones(1, 1, 2, 1, 1)), session.send(torch.zeros(1, 1, 1 << 10, 1 << 9, 3))
    outs = [session.send(torch.empty(0)) for _ in range(2)]
    aten.grid_sampler_3d_backward.out(
        grid[..., 0][None], x, grid, 0, 0, False, [True, True], out0=outs[0], out1=outs[1]
    )
    assert [out.shape for out in outs] == [x.shape, grid.shape]


def test_a_mask_is_refused_with_out_too(session):
    with pytest.raises(rpc.ValueAccessError, match="torch.where"):
        aten.index.Tensor_out(x := session.send(torch.ones(2)), [x > 0], out=x.clone())


def test_an_empty_view_is_written_where_it_points(session):
    for start in (2, 6):  # with room in the base, and at the end of the base
        memory, there = torch.arange(6.0), session.send(torch.arange(6.0))
        here, out = memory[start:start], there[start:start]
        torch.mul(torch.ones(3), 5, out=here)
        torch.mul(session.send(torch.ones(3)), 5, out=out)
        assert (out.storage_offset(), out.shape) == (start, (3,))
        assert torch.equal(out.publish(), here) and torch.equal(there.publish(), memory)
    with pytest.raises(rpc.HandleError, match=r"out= has no room for the result of shape \(3,\).* not resized"):
        torch.mul(session.send(torch.ones(3)), 5, out=session.send(torch.arange(6.0))[4:4])


def test_out_of_another_dtype_has_torchs_words(session):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        aten.matmul.out(
            session.send(torch.ones(3, 3)), session.send(torch.ones(3, 3)), out=session.send(torch.ones(3, 3).long())
        )


def test_a_look_at_shapes_draws_nothing(session):
    """If the meta device has no answer, the CPU is tried, and the program's generator is unchanged."""
    like_torch(session, lambda p: aten.bernoulli.out(p, out=_zeros(p)), torch.rand(2, 3, 4))
    like_torch(session, aten._sample_dirichlet, torch.rand(4, 3, dtype=torch.float64))


def _zeros(p):
    out = torch.zeros(p.shape, dtype=torch.int64)
    return p._session.send(out) if isinstance(p, rpc.RPCTensor) else out


RESULTS = {
    "embedding_bag": (aten._embedding_bag, torch.rand(4, 3), torch.tensor([3, 1, 3, 1]), torch.tensor([0, 2])),
    "attention": (lambda q, a, b, c, d: aten._native_multi_head_attention(q, q, q, 4, 2, a, b, c, d, None, False)[:1],
                  torch.rand(2, 3, 4), torch.rand(12, 4), torch.rand(12), torch.rand(4, 4), torch.zeros(4)),
    "fft_c2c": (lambda x: torch.fft.fftn(x, dim=[0, 2]), torch.rand(5, 6, 7, dtype=torch.complex64)),
    "fft_c2r": (lambda x: torch.fft.irfft(x, dim=0), torch.rand(5, 6, 7, dtype=torch.complex64)),
    "fft_r2c": (lambda x: torch.fft.rfft(x, dim=1), torch.rand(5, 6, 7).mT),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 1), torch.rand(1, 9, 2, 2).to(memory_format=torch.channels_last)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), torch.rand(2, 6, 4, 4).to(memory_format=torch.channels_last)),
    "weight_norm": (lambda v, g: aten._weight_norm_interface(v, g), torch.rand(3, 4), torch.rand(1, 3, 1)),
    "grid_sampler": (lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, False), torch.zeros(1, 0, 3, 4).long(), torch.rand(1, 1, 3, 2)),
    "convolution": (F.conv2d, torch.rand(2, 3, 5, 5).to(memory_format=torch.channels_last), torch.rand(4, 3, 2, 2)),
    "convolution-weight": (F.conv_transpose2d, torch.rand(2, 3, 5, 5), torch.rand(3, 4, 2, 2).to(memory_format=torch.channels_last)),
    "convolution-rows": (F.conv1d, torch.rand(2, 5, 3).mT, torch.rand(4, 3, 2)),
    "attention-flash": (F.scaled_dot_product_attention, torch.rand(2, 5, 3, 4).transpose(1, 2), torch.rand(2, 3, 6, 4),
      torch.rand(2, 3, 6, 4)),
    "batch_norm-no-statistics": (lambda x: F.batch_norm(x, None, None, training=True),
      torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    "division": (lambda x: prims.div(x, torch.tensor(5)), torch.tensor([-8, 6])),
    "signbit": (prims.signbit, torch.tensor([-1.0, 2.0])),
    "foreach_pow": (lambda x: torch._foreach_pow([x], True), torch.ones(3, 3, dtype=torch.bool)),
    "foreach_pow-numbers": (lambda x: torch._foreach_pow([x, x], [2, True]), torch.ones(3, 3, dtype=torch.bool)),
    "foreach_powsum": (lambda x: aten._foreach_powsum.Scalar([x], 0.5), torch.empty(0, dtype=torch.bool)),
    "prims-as_strided": (lambda x: prims.as_strided(x, [2, 2], [1, 2], 5), torch.arange(10)),
    "batch_norm-eval": (lambda x, w: aten._native_batch_norm_legit_functional(x, w, w, w, w, False, 0.1, 0.1),
      torch.rand(2, 3, 4), torch.ones(3)),
    "batch_norm-train": (lambda x, w: aten._native_batch_norm_legit_functional(x, w, w, w, w, True, 0.1, 0.1),
      torch.rand(2, 3, 4), torch.ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_as_the_cpu_lays_them_out(session, name):
    like_torch(session, *RESULTS[name])


def test_bags_without_an_end_are_not_tried_on_the_cpu(session):
    """With a single offset that is also the last, torch reads beyond it, and may crash."""
    weight, indices = session.send(torch.rand(3, 2)), session.send(torch.tensor([0, 1, 2, 1]))
    found = aten.embedding_bag(weight, indices, session.send(torch.tensor([0])), include_last_offset=True)
    assert found[0].shape == (0, 2)
    assert aten._embedding_bag(weight, indices, offsets=session.send(torch.tensor([0])), include_last_offset=True)[
        0
    ].shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_is_the_programs(session, dtype):
    """Results under another default dtype are not reused."""

    def run(x):
        return (
            x / 2,
            x.sin(),
            0.5 * x,
            x * 1j if dtype == torch.float64 else x,
            torch.stack([x / 3, x**0.5]),
            x.float() * 1.5,
            x // 2,
        )

    x = torch.tensor([1, 2])
    like_torch(session, run, x)
    try:
        torch.set_default_dtype(dtype)
        like_torch(session, run, x)
        like_torch(session, run, x > 1) if dtype == torch.float64 else None
    finally:
        torch.set_default_dtype(torch.float32)


DEFAULT = {
    "linspace": lambda x: torch.linspace(0.5, x, 4),
    "logspace": lambda x: torch.logspace(x, 3, 4, base=2.0),
    "linspace of a dtype": lambda x: torch.linspace(x, x + 1, 3, dtype=torch.float32),
}
CAST_REFUSED = {
    "in place": lambda x: aten.logit_(x),
    "gradient": lambda x: aten.glu_backward(x.expand(2, 3), x.expand(2, 6), 1),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("name", [*DEFAULT, *CAST_REFUSED])
def test_what_goes_by_the_default_dtype_alone(session, name, dtype):
    x = torch.tensor(2)
    try:
        torch.set_default_dtype(dtype)
        if name in DEFAULT:
            like_torch(session, DEFAULT[name], x)
            like_torch(session, DEFAULT[name], x.float())
            if dtype == torch.float64 and name != "linspace of a dtype":  # torch has no ranges of complex32
                like_torch(session, DEFAULT[name], x * (1 + 1j))
            return
        with pytest.raises(RuntimeError) as theirs:
            CAST_REFUSED[name](x)
        with pytest.raises(RuntimeError) as mine:
            CAST_REFUSED[name](session.send(x))
        assert str(theirs.value).splitlines()[0] in str(mine.value)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_meta_function_that_changes_its_arguments_changes_nothing_else(session):
    """The meta function of slow_conv_transpose2d adds a dimension to its input in place."""
    x = session.send(torch.ones(3, 3, 1))
    aten.slow_conv_transpose2d(x, session.send(torch.ones(3, 2, 1, 1)), [1, 1])
    assert (session.send(torch.ones(3, 3, 1)) + x).shape == (3, 3, 1)
    assert torch.tensordot(session.send(torch.ones(2, 3, 3)), x, 1).shape == (2, 3, 3, 1)


FAILED_BEFORE = {
    "subtraction": lambda x: F.l1_loss(x > 0, x.to(torch.int8)),
    "in place": lambda x: F.hinge_embedding_loss(x > 0, x.int()),
    "sum": lambda x: aten.nanmean(x.to(torch.complex32)),
}


@pytest.mark.parametrize("name", FAILED_BEFORE)
def test_what_failed_on_the_server_before_is_raised_first(session, name):
    """If an operator has failed on the server, its error is raised before a refusal of a later operator by the
    client."""
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError) as theirs:
        FAILED_BEFORE[name](x)
    with pytest.raises(RuntimeError) as mine:
        FAILED_BEFORE[name](session.send(x))
    assert str(theirs.value).splitlines()[0] in str(mine.value)
    assert session.send(x).sum().publish() == 3


EMPTY_OUTS = {
    "conjugate": lambda x, out: aten.conj_physical.out(x, out=out),
    "transform": lambda x, out: aten.fft_ifft.out(x.real, 1, 1, out=out),
    "parts": lambda x, out: aten.frexp.Tensor_out(
        x.real.T, mantissa=out.real.new_empty(x.T.shape), exponent=out.real.int()
    ),
}


@pytest.mark.parametrize("name", EMPTY_OUTS)
def test_an_empty_out_is_laid_out_as_the_cpu_does(session, name):
    def run(x):
        out = x.new_empty(0)
        return EMPTY_OUTS[name](x.as_strided((3, 1, 5), (5, 1, 1)) if name == "conjugate" else x, out)

    like_torch(session, run, torch.randn(3, 5, dtype=torch.complex64))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", ["add", "mul", "pow", "clamp_min", "maximum", "lerp", "addcdiv"])
def test_lists_with_a_number_are_laid_out_as_the_cpu_does(session, name, count):
    """In arithmetic the number is an operand, which affects the order of a result's dimensions; elsewhere it is an
    option."""
    operands = {"lerp": 2, "addcdiv": 3}.get(name, 1)
    strides = [(0, 2, 0, 1), (2, 2, 2, 1), (1, 2, 2, 1)]
    empty = [torch.empty_strided((2, 0, 1, 2), strides[(i + count) % 3]) for i in range(operands)]
    flat = [torch.ones(2, 3, 1, 2).permute(3, 0, 2, 1).contiguous().permute(1, 3, 2, 0) for _ in range(operands)]
    function = getattr(torch, f"_foreach_{name}")
    for tensors in (empty, flat):
        like_torch(session, lambda *given: function(*([x] for x in given), 2), *tensors)
    if operands == 1:  # the number converts the tensors in the list
        whole = torch.ones(12, dtype=torch.int64).as_strided((1, 3, 1), (2, 2, 6))
        like_torch(session, lambda x: function([x], 1.5), whole)


def test_operators_of_several_lists_are_sent(session):
    """In schemas, ``Tensor[]`` is the type of each result, also after a name and a comma."""
    parameter, gradient, ones = torch.rand(3), torch.rand(3), torch.zeros(3)

    def run(parameter, gradient, average, square, step):
        out = aten._fused_adam([parameter], [gradient], [average], [square], [], [step], lr=0.1, beta1=0.9, beta2=0.99,
                               weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)  # fmt: skip
        return [x for some in out for x in some]

    like_torch(session, run, parameter, gradient, ones, ones, torch.tensor(1.0))


def _ragged(x):
    return [x, x[:1], x[:2]]


def pack(x, lengths=None, batch_first=False, **options):
    lengths = range(len(x), 0, -1) if lengths is None else lengths
    return torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first, **options)


pad_sequence, unpack = torch.nn.utils.rnn.pad_sequence, torch.nn.utils.rnn.pad_packed_sequence
ANEW = {
    "vander": torch.vander,
    "vander-more": lambda x: torch.vander(x, 5, increasing=True),
    "vander-none": lambda x: [torch.vander(x, 0), torch.vander(x, 1)],
    "vander-integers": lambda x: torch.vander(x.int()),
    "pad_sequence": lambda x: pad_sequence(_ragged(x)),
    "pad_sequence-left": lambda x: pad_sequence(_ragged(x), True, -1.0, "left"),
    "pad_sequence-rows": lambda x: pad_sequence(_ragged(x.outer(x)), padding_value=2),
    "pack": lambda x: pack(x.outer(x).unflatten(1, (-1, 1))).data,
    "pack-unsorted": lambda x: pack(x.outer(x), [1, *[2] * (len(x) - 1)], True, enforce_sorted=False).data,
    "unpack": lambda x: unpack(pack(x.outer(x).unsqueeze(2)), True, -1.0, len(x) + 1)[0],
    "combinations": lambda x: [torch.combinations(x), torch.combinations(x, 3, with_replacement=True)],
    "one_hot": lambda x: F.one_hot(x.long() % 3, num_classes=4),
    "new": lambda x: [x.new(2, 3).zero_(), x.new(torch.Size([4])).fill_(1), x.new([5.0]), x.new(), x.new(x)],
    "new_tensor": lambda x: [x.new_tensor([1, 2]), x.new_tensor(3, dtype=torch.int64), x.new_tensor(x)],
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", ANEW)
def test_what_torch_writes_into_a_tensor_that_it_makes(session, name):
    like_torch(session, ANEW[name], torch.tensor([1.0, -2.0, 3.0]))


def test_gradients_of_padded_sequences(session):
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    h = session.send(x)
    for t in (x, h):
        (pad_sequence(_ragged(t)) * t.unsqueeze(1)).square().sum().backward()
    torch.testing.assert_close(h.grad.publish(), x.grad)


def test_least_squares_as_the_refusal_says(session):
    a, b = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    x, y = session.send(a), session.send(b)
    with pytest.raises(rpc.ValueAccessError, match=r"pinv\(a\) @ b, .*solve\(a\.mT @ a, a\.mT @ b\)"):
        torch.linalg.lstsq(x, y)
    want = torch.linalg.lstsq(a, b).solution
    torch.testing.assert_close((torch.linalg.pinv(x) @ y).publish(), want)
    torch.testing.assert_close(torch.linalg.solve(x.mT @ x, x.mT @ y).publish(), want)


def test_the_number_of_classes_has_to_be_said(session):
    with pytest.raises(rpc.ValueAccessError, match="num_classes="):
        F.one_hot(session.send(torch.tensor([0, 2])))


REFUSED = {
    "values are read on the client": lambda x: x.sum().item(),
    "the shapes of results depend on values": lambda x: x.nonzero(),
    "a plain tensor is not written": lambda x: torch.add(x, x, out=torch.empty(3)),
    "a handle is not resized": lambda x: torch.add(x, x, out=x[:2].clone()),
    "a handle's storage is not replaced or resized": lambda x: x.resize_(4),
    "sparse, quantized and nested tensors, and those of other devices, are not sent": lambda x: x.add(
        torch.ones(3, device="meta")
    ),
    "arguments or results are not all tensors or numbers": lambda x: aten.dense_dim(x),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals_have_a_reason(session, reason):
    with pytest.raises((rpc.RPCError, NotImplementedError)) as caught:
        REFUSED[reason](session.send(torch.ones(3)))
    assert caught.value.reason == reason


def test_equal_specs_are_one_object_while_one_is_alive():
    """Programs compare specs of results by identity, after any number of other shapes."""
    first, count = shape_inference.spec_of(torch.empty(3, 4, device="meta")), len(shape_inference._SPECS)
    for n in range(shape_inference.MAX_CACHED + 10):
        shape_inference.spec_of(torch.empty(n, device="meta"))
    assert shape_inference.spec_of(torch.empty(3, 4, device="meta")) is first
    assert len(shape_inference._SPECS) <= count + 1
