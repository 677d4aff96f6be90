"""Write torchnp/data/schemas.tsv from the registry of the installed torch (run it when the pinned torch moves).

One line per overload that torch's dispatcher registers in the ``aten`` and ``prims`` namespaces: the schema in
torch's own text, its tags, and how torch implements it (``implicit``: CompositeImplicitAutograd, the op is defined
through other ops; ``explicit``: CompositeExplicitAutograd). Overloads of one packet stand in the order in which
torch's overload resolution tries them.

    python scripts/make_schemas.py [OUTPUT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

OUTPUT = Path(__file__).resolve().parent.parent / "torchnp" / "data" / "schemas.tsv"


def rows() -> list[str]:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith(("aten::", "prims::"))}
    packets = sorted({n.partition(".")[0] for n in names})
    lines = []
    for packet in packets:
        namespace, _, base = packet.partition("::")
        op = getattr(getattr(torch.ops, namespace), base)
        for overload in op.overloads():
            name = packet if overload == "default" else f"{packet}.{overload}"
            if name not in names:  # TorchScript's own overloads on Python numbers and strings
                continue
            names.discard(name)
            found = getattr(op, overload)
            tags = {str(t).removeprefix("Tag.") for t in found.tags} - {"pt2_compliant_tag"}
            if torch._C._should_allow_numbers_as_tensors(base):
                tags.add("numbers_as_tensors")
            how = (
                "implicit" if has(name, "CompositeImplicitAutograd")
                else "explicit" if has(name, "CompositeExplicitAutograd") else "direct"
            )  # fmt: skip
            lines.append(f"{found._schema}\t{' '.join(sorted(tags))}\t{how}")
    if names:
        raise SystemExit(f"not reached through torch.ops: {sorted(names)}")
    return lines


def main() -> None:
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    lines = [f"# torch {torch.__version__.partition('+')[0]}: schema, tags, implementation", *rows()]
    output.write_text("\n".join(lines) + "\n")
    print(f"{output}: {len(lines) - 1} overloads")


if __name__ == "__main__":
    main()
