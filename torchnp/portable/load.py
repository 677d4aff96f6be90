"""`torchnp.load`: load a program, to run on NumPy or on another array library."""

from __future__ import annotations

import os
from typing import IO, Any

from torchnp.runtime import Program
from torchnp.runtime import load as load_on_numpy


def load(
    file: str | os.PathLike | IO[bytes],
    model: str | None = None,
    *,
    exact: bool = False,
    xp: Any = None,
    fallback: bool = True,
) -> Program:
    """Read a program that ``torch.export.save`` of torch 2.12 to 2.15 wrote; torch is not needed.

    Parameters
    ----------
    file : str, path or binary file
        The archive (``model.pt2``). A path's weights are memory-mapped: do not change the file while the program lives.
    model : str, optional
        The program's name, if the archive holds several.
    exact : bool, optional
        On NumPy, run the table's kernels node by node, for bitwise equal results. Otherwise constants are folded, batch
        norm is folded into convolutions, and some operators run faster implementations, within their tolerances.
    xp : module or str, optional
        Another array library to run on: ``jax.numpy``, ``dask.array``, ``cupy``, ``torch``, any namespace that follows
        the array API standard, or its name. By default the program runs on NumPy, without the portable table.
    fallback : bool, optional
        With ``xp``, whether operators without a row run as NumPy kernels on the host; otherwise they are refused.

    Returns
    -------
    Program
        A function of arrays (and numbers) in the structure of the exported module's arguments; with ``xp`` a
        `torchnp.portable.PortableProgram`.

    Raises
    ------
    ProgramError
        The file is damaged or not such an archive, or the program has operators that torchnp does not provide;
        the message names all of them.
    OSError
        The file cannot be opened.
    NotImplementedError
        With ``fallback=False``, operators have no row on the library; the message names all of them.
    """
    program = load_on_numpy(file, model, exact=exact)
    if xp is None:
        return program
    if exact:
        raise ValueError("exact=True is for NumPy: other libraries round as they do")
    from torchnp.portable.program import PortableProgram

    portable = PortableProgram(program, xp, fallback)
    refused = [name for name, tier in portable.tiers().items() if tier == "refused"]
    if refused:
        raise NotImplementedError(f"{portable.lib.name} has no rows of {', '.join(refused)}, and fallback=False")
    return portable
