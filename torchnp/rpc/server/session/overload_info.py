"""The facts about an overload that the server needs to run it."""

from __future__ import annotations

from typing import Any

from torchnp.rpc import wire
from torchnp.rpc.server.privacy.row_calls import kept
from torchnp.rpc.server.session.bounded_cache import Room
from torchnp.rpc.server.session.check_arguments import checker

# Operators that can access the memory around their arguments.
_WHOLE = (
    "as_strided", "_reshape_alias", "slice_inverse", "_lazy_clone", "copy_strided", "set", "_has_same_storage_numel",
)  # fmt: skip
# Arguments that kernels write, like torch's kernels, although the schema does not mark them as written.
_STATISTICS = ("running_mean", "running_var")
_UNMARKED = {"_copy_from_and_resize": ("dst",), "_copy_from": ("dst",), "instance_norm": _STATISTICS} | {
    f"{prefix}batch_norm{suffix}": _STATISTICS
    for prefix, suffix in (
        ("", ""), ("native_", ""), ("cudnn_", ""), ("miopen_", ""), ("_", "_impl_index"), ("", "_update_stats"),
        ("", "_gather_stats"), ("", "_gather_stats_with_counts"),
    )
}  # fmt: skip
# Arguments that give the number of results, or the lengths and shapes of results.
_PIECES = frozenset(["sections", "chunks"])
_SIZES = _PIECES | {
    "size", "repeats", "output_size", "n", "m", "steps", "window_length", "num_classes", "num_weights", "total_length",
}  # fmt: skip
# Arguments whose values determine the shapes of results, offsets of views, or the kernel's run time.
_REVEALING = {
    "aten::where": "condition", "aten::narrow.Tensor": "start",
    "aten::tensor_split.tensor_indices_or_sections": "tensor_indices_or_sections",
    "aten::_pack_padded_sequence": "lengths", "aten::_pad_packed_sequence": "batch_sizes",
    "aten::repeat_interleave.self_Tensor": "repeats",
}  # fmt: skip


class Served:
    """The facts about an overload that the server needs to run it."""

    __slots__ = (
        "by_rows", "checked", "empty", "finite", "fresh", "generator", "good", "masks", "name", "one", "plain",
        "positional", "problem", "quick", "random", "returns", "revealing", "run", "schema", "single", "sized", "view",
        "views", "whole", "written",
    )  # fmt: skip

    def __init__(self, name: str, kernel: Any, schema: Any, room: Room | None = None) -> None:
        self.name, self.run = name, kernel
        self.problem, self.good = checker(schema, room)
        unmarked = _UNMARKED.get(schema.base, ())
        # The parameters that the operator writes.
        self.written = frozenset(a.name for a in schema.args if a.is_write or a.name in unmarked)
        self.schema, self.positional = schema, tuple(a for a in schema.args if not a.kwonly)
        # The overload whose portable kernel computes on an owner's rows; empty if the operator mixes the rows.
        self.by_rows = kept(schema)
        self.single = len(schema.returns) == 1
        # The indices of results that are not written arguments, and whether each is a view.
        unsafe = schema.base in wire.UNSAFE_VIEWS and not schema.mutates
        self.returns = tuple((i, unsafe or r.alias is not None) for i, r in enumerate(schema.returns) if not r.is_write)
        self.generator = any(a.type.startswith("Generator") for a in schema.args)
        self.random = self.generator or "nondeterministic_seeded" in schema.tags
        # Uninitialized results, including those in out=, may contain data that another session freed. The server fills
        # them with zeros.
        self.empty = schema.base.lstrip("_").startswith(("empty", "new_empty"))
        # Arguments that determine how much memory is allocated. `expand` and other views allocate none, whatever their
        # sizes are.
        named = [a.name for a in schema.args if a.name in _SIZES and "Tensor" not in a.type]
        # Its ``size`` is a number to check, not a size to allocate.
        named = [] if "constrain_range" in schema.base else named
        self.sized = tuple(name for name in named if not schema.is_view or name in _PIECES)
        self.finite = "svd" in schema.base or "pinv" in schema.base
        self.masks = schema.base in ("index", "_unsafe_index")
        telling = "n" if "_polynomial_" in name else _REVEALING.get(name)
        self.revealing = next((a.name for a in schema.args if a.name == telling and a.is_tensor), None)
        self.checked = bool(self.sized or self.masks or self.revealing)
        self.whole = schema.base.startswith(_WHOLE)
        # `to` and `_autocast*` may compute with values. All other views use only shapes.
        self.views = unsafe or (schema.is_view and not schema.base.startswith(("to", "_autocast")))
        # `plain`: the call needs no work before or after it. `one`: it also returns exactly one tensor, new or a view.
        self.plain = not (self.random or self.finite or self.empty)
        self.one = self.plain and self.single and len(self.returns) == 1 and schema.returns[0].type == "Tensor"
        self.view = self.one and self.returns[0][1]
        self.fresh = self.one and not self.view
        # Number of results for the fast path: 1 if `one`, 0 if the operator only writes arguments; -1 means the slow
        # path.
        self.quick = int(self.one) if self.plain and not self.checked and (self.one or not self.returns) else -1

    def bound(self, op: wire.Op) -> dict[str, Any]:
        """Return a frame's arguments by parameter name, in the schema's order, whether sent by position or by name.

        Arguments that the schema does not have are left out. `problem` reports them.
        """
        given = {a.name: value for a, value in zip(self.positional, op.args)}
        if not op.kwargs:
            return given
        given |= op.kwargs
        return {a.name: given[a.name] for a in self.schema.args if a.name in given}

    def arguments(self, values: dict[str, Any]) -> tuple[list, dict[str, Any]]:
        """Convert arguments by name to positional and keyword-only arguments of a call."""
        last = max((i for i, a in enumerate(self.positional, 1) if a.name in values), default=0)
        args = [values.get(a.name, a.default) for a in self.positional[:last]]
        return args, {a.name: values[a.name] for a in self.schema.args if a.kwonly and a.name in values}
