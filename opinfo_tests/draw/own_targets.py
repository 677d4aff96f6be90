"""Rows of our own: what is refused first, and what is written where, of calls that other samples do not make."""

from __future__ import annotations

_STARTS = ("[1,1,2]), torch.tensor([0,1]", "[0,1,2,4]), torch.tensor([0,1,2,3]", "[[0,1,2]]), torch.tensor([0,1]")

# Parts of sparse tensors with more than one fault, or with values for some indices only.
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

# Memory that is given to another tensor, or in another order, and outs of other shapes and dtypes.
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
    "s    fused_moving_avg_obs_fake_quant  (p(2,3), torch.tensor([1]), torch.tensor([1]), x(0), x(0), x(0), torch.zeros(0).to(torch.int8), 0.1, 0, 255, 0, True, False)",
]


def _half(*shape: int) -> str:
    return f"x({','.join(map(str, shape))}).bfloat16()"


_PART = [_half(20, 4), _half(20, 5), _half(20), _half(20)]
_STATE = _half(1, 2, 5)

# LSTMs of bfloat16, which oneDNN rounds after each step, beside cells of either precision.
LAYERS = [
    *(
        f"s    mkldnn_rnn_layer  ({_half(6, 2, 4)}, {', '.join(_PART)}, {_STATE}, {_STATE}{cell}, {back}, [], 2, 5, 1, True, False, False, False)"
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

TARGETS = "\n".join((*SPARSE, *MEMORY, *LAYERS, ""))
