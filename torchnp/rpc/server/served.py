"""What a server has to know about an overload to run it."""

from __future__ import annotations

from typing import Any

from torchnp.rpc.server.arguments import checker

# They see the memory around their arguments.
_WHOLE = ("as_strided", "_lazy_clone", "copy_strided", "set", "_has_same_storage_numel")
# Shapes, or places of views, that depend on the values of this argument (counted from 1) and of those after it.
_REVEALING = {
    "aten::where": 1, "aten::narrow.Tensor": 2, "aten::tensor_split.tensor_indices_or_sections": 2,
    "aten::_pack_padded_sequence": 2, "aten::_pad_packed_sequence": 2,
}  # fmt: skip


class Served:
    """What the server has to know about an overload to run it."""

    __slots__ = (
        "empty", "generator", "masks", "name", "problem", "random", "returns", "revealing", "run", "single", "sized",
        "views", "whole", "written",
    )  # fmt: skip

    def __init__(self, name: str, kernel: Any, schema: Any) -> None:
        self.name, self.run, self.problem = name, kernel, checker(schema)
        self.written = frozenset(
            key for i, a in enumerate(schema.args) if a.is_write for key in ((a.name,) if a.kwonly else (i, a.name))
        )
        self.single = len(schema.returns) == 1
        # Per result: None if it is a written argument, else whether it is a view.
        self.returns = tuple(None if r.is_write else r.alias is not None for r in schema.returns)
        self.generator = any(a.type.startswith("Generator") for a in schema.args)
        self.random = self.generator or "nondeterministic_seeded" in schema.tags
        # Fresh memory may hold what another session freed: of results, and of the out= that they are written into.
        self.empty = schema.base.lstrip("_").startswith(("empty", "new_empty"))
        # `expand` and other views allocate nothing, whatever their size argument says.
        fresh = not schema.is_view
        self.sized = next((i for i, a in enumerate(schema.args) if fresh and a.name in ("size", "repeats", "n")), None)
        self.masks = schema.base == "index"
        self.revealing = _REVEALING.get(name, 0)
        self.whole = schema.base.startswith(_WHOLE)
        # `to` computes with the values, all other views look at shapes alone.
        self.views = schema.is_view and not schema.base.startswith(("to", "_autocast"))
