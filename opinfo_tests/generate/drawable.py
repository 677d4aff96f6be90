"""Which overloads get random calls from their schema, which of them take any shape, and which get wrong arguments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torchnp

from ..case import schemas
from ..namespaces import why_undrawn
from ..schema_facts import is_fragile, siblings
from .constraints import constraint as con
from .constraints.quantized import UNCHECKED
from .constraints.table import constraint_of, family
from .samples.extra.internal_operators import NO_CPU_FAMILIES
from .samples.extra.unreached import UNREACHED

# Types of arguments that no case can contain.
UNDRAWN = (
    "Dimname",
    "Storage",
    "Stream",
    "QScheme",
    "t(",
    "Dict",
    "Any",
    "ConstQuantizerPtr",
    "__torch__",
    "DeviceIndex",
)


WRITES = "it writes an out=, and has no functional form that calls are drawn for"


def not_drawn(name: str) -> str:
    """Return why no random calls are generated for an overload, or an empty string."""
    s = schemas().get(name)
    if s is None:
        return "torch registers it without a schema"
    why = undrawn(name)
    if why or not s.is_out or functional_form(name):
        return why
    return next((undrawn(n) for n in functional_forms(name)), WRITES)


def undrawn(name: str) -> str:
    """Return why no calls of an overload can be generated from its own schema, or an empty string."""
    s = schemas()[name]
    names = {s.base, name.partition("::")[2]}
    if name in UNREACHED:
        return UNREACHED[name]
    if theirs := why_undrawn(name):
        return theirs
    if why := torchnp.table.reason(name):
        return f"it {why}"
    if con.UNDRAWN & names:
        return "it needs a device, another layout or what arrays have not"
    if is_trusting(name):
        return "torch does not check its arguments, or changes what it is given: own rows call it"
    if family(name) in NO_CPU_FAMILIES:
        return "torch has no kernel of it on the CPU"
    if s.mutates and s.namespace == "prims":
        return "it writes the memory of an array that it does not own: own rows call it"
    types = sorted({a.type for a in s.args if a.type.startswith(UNDRAWN)})
    return f"no case can hold a {types[0]}" if types else ""


def is_trusting(name: str) -> bool:
    """Return whether torch does not check an overload's arguments."""
    return bool(UNCHECKED & {schemas()[name].base, name.partition("::")[2]})


def functional_forms(name: str) -> list[str]:
    """Return the functional overloads whose random calls an in-place or ``out=`` overload may reuse, views last."""
    s = schemas()
    return sorted(
        (n for n in siblings()[name] if n in s and not (s[n].mutates or s[n].is_out)), key=lambda n: s[n].is_view
    )


def functional_form(name: str) -> str:
    """Return the functional overload whose random calls an in-place or ``out=`` overload reuses, or an empty string."""
    return next((n for n in functional_forms(name) if not undrawn(n)), "")


def drawable(names: Iterable[str]) -> list[str]:
    """Return the overloads for which random calls can be generated, sorted."""
    return sorted(n for n in names if not not_drawn(n))


@cache
def takes_any_shape(op: str) -> bool:
    """Return whether an operator's constraints allow arrays of any shape, including empty and 0-d arrays."""
    if not_drawn(op):
        return False
    op = (functional_form(op) if schemas()[op].mutates or schemas()[op].is_out else "") or op
    row = constraint_of(op)
    specs = [row.args.get(a.name) or con.by_name(a) for a in schemas()[op].args if a.type.startswith("Tensor")]
    return all(s is None or (isinstance(s, (con.T, con.Ts)) and s.shape in ("any", "like", "bcast")) for s in specs)


# Operators for which torch checks dtypes, but not sizes. There are more such operators, but calls of those with wrong
# dtypes still show differences between torchnp and torch that are not fixed.
LOOKS_AT_DTYPES = frozenset(
    f"aten::{name}"
    for name in [
        "_adaptive_avg_pool2d_backward",
        "_adaptive_avg_pool3d_backward",
        "_amp_update_scale",
        "_batch_norm_impl_index_backward",
        "_batch_norm_no_update",
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "_cdist_backward",
        "_cholesky_solve_helper",
        "_convert_indices_from_coo_to_csr",
        "_convert_indices_from_csr_to_coo",
        "_convolution_double_backward",
        "_ctc_loss",
        "_ctc_loss.Tensor",
        "_embedding_bag",
        "_embedding_bag_backward",
        "_embedding_bag_dense_backward",
        "_embedding_bag_forward_only",
        "_embedding_bag_per_sample_weights_backward",
        "_fft_c2c",
        "_fft_c2r",
        "_fft_r2c",
        "_grid_sampler_2d_cpu_fallback",
        "_grid_sampler_2d_cpu_fallback_backward",
        "_has_same_storage_numel",
        "_linalg_check_errors",
        "_log_softmax_backward_data",
        "_masked_softmax_backward",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit.no_stats",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "_neg_view_copy",
        "_nested_compute_contiguous_strides_offsets",
        "_pack_padded_sequence",
        "_pack_padded_sequence_backward",
        "_pad_packed_sequence",
        "_pdist_backward",
        "_reshape_alias",
        "_reshape_alias_copy",
        "_slow_conv2d_backward.output_mask",
        "_trilinear",
        "_unsafe_index.Tensor",
        "_unsafe_index_put",
        "_unsafe_masked_index",
        "_unsafe_masked_index_put_accumulate",
        "_weight_norm",
        "adaptive_max_pool2d_backward",
        "adaptive_max_pool3d_backward",
        "affine_grid_generator_backward",
        "batch_norm_backward",
        "batch_norm_update_stats",
        "conv_tbc_backward",
        "ctc_loss.IntList",
        "ctc_loss.Tensor",
        "cumprod_backward",
        "embedding_backward",
        "embedding_bag",
        "embedding_bag.padding_idx",
        "embedding_dense_backward",
        "fft_ihfftn",
        "fractional_max_pool2d_backward",
        "fractional_max_pool3d_backward",
        "grid_sampler_2d",
        "grid_sampler_2d_backward",
        "grid_sampler_3d",
        "grid_sampler_3d_backward",
        "gru.data",
        "gru.input",
        "gru_cell",
        "linalg_ldl_solve",
        "linalg_lstsq",
        "linalg_lu_solve",
        "lstm.data",
        "lstm.input",
        "lstm_cell",
        "lu_solve",
        "lu_unpack",
        "max_pool2d_with_indices_backward",
        "max_pool3d_with_indices_backward",
        "max_unpool2d",
        "max_unpool3d",
        "mkldnn_rnn_layer",
        "multilabel_margin_loss",
        "multilabel_margin_loss_backward",
        "multilabel_margin_loss_forward",
        "native_batch_norm",
        "native_batch_norm_backward",
        "reflection_pad1d_backward",
        "reflection_pad2d_backward",
        "reflection_pad3d_backward",
        "replication_pad1d_backward",
        "replication_pad2d_backward",
        "replication_pad3d_backward",
        "rnn_relu.data",
        "rnn_relu.input",
        "rnn_relu_cell",
        "rnn_tanh.data",
        "rnn_tanh.input",
        "rnn_tanh_cell",
        "segment_reduce",
    ]
) | frozenset({"prims::copy_strided", "prims::fft_c2c", "prims::fft_c2r", "prims::fft_r2c"})


# For these, torch writes into ``out=`` as if it had the result's dtype and size.
OUTS_ON_TRUST = ("aten::_logcumsumexp.out",)


def may_break(op: str) -> bool:
    """Return whether calls of an overload may get wrong arguments, or at least arguments of wrong dtypes."""
    return (looks_at_sizes(op) or op in LOOKS_AT_DTYPES) and not is_fragile(op) and op not in OUTS_ON_TRUST


def looks_at_sizes(op: str) -> bool:
    """Return whether torch checks an operator's sizes and numbers; without checks, wrong ones may crash it."""
    row = constraint_of(op)
    return bool(row.wild) and row.wild_values
