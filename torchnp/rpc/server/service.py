"""What a server offers: operators, the owner's datasets, and on what terms."""

from __future__ import annotations

import functools
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.books import Limits, root_of
from torchnp.rpc.server.ledger import Ledger
from torchnp.rpc.server.rowlabels import dataset_of
from torchnp.rpc.server.served import Served
from torchnp.rpc.wire import Agreement, agreement


class Service:
    """The table, the owner's datasets, the token and the limits of a server.

    Parameters
    ----------
    table : mapping, optional
        Full overload names to kernels; torchnp's table by default.
    datasets : mapping of str to array, optional
        Arrays that clients can compute with and not read or write.
    token : str, optional
        What clients have to present.
    limits : Limits
        What one session may hold and do.
    bucket : float
        Seconds of which the time of every reply to a frame that met private data is a multiple; 0 for no such rule.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets; without one only public values are published.
    """

    def __init__(
        self,
        table: Mapping[str, Any] | None = None,
        datasets: Mapping[str, Any] | None = None,
        token: str | None = None,
        limits: Limits = Limits(),
        bucket: float = 0.0,
        ledger: str | Path | None = None,
    ) -> None:
        if type(bucket) not in (int, float) or not 0 <= bucket <= 10:
            raise ValueError(f"a bucket is a number of seconds from 0 to 10, not {bucket!r}")
        self.agreement = agreement() if table is None else Agreement(table)
        if token is not None and not isinstance(token, str):
            raise TypeError(f"a token is a string, not a value of type {type(token).__name__}")
        if token is not None and not 0 < len(token.encode(errors="replace")) <= wire.MAX_TOKEN:
            raise ValueError(f"a token has 1 to {wire.MAX_TOKEN} bytes")
        if not isinstance(limits, Limits):
            raise TypeError(f"limits are rpc.Limits(...), not a value of type {type(limits).__name__}")
        if datasets is not None and not isinstance(datasets, Mapping):
            raise TypeError(f"datasets are a dict of names and arrays, not a value of type {type(datasets).__name__}")
        self.token, self.limits, self.bucket = token, limits, bucket
        self.datasets = {name: _readonly(name, value) for name, value in (datasets or {}).items()}
        _check_rows(self.datasets)
        self.ledger = None if ledger is None else Ledger(ledger)
        if self.ledger is not None:
            self.ledger.close()  # it is one; each process that uses it has a connection of its own

    @functools.cache  # noqa: B019  (a service lives as long as its process)
    def row(self, index: int) -> Served:
        """The row of an index in the agreed table; ProtocolError if there is none."""
        if index >= len(self.agreement.names):
            raise ProtocolError(f"operator {index} is not in the agreed table of {len(self.agreement.names)}")
        name = self.agreement.names[index]
        return Served(name, self.agreement.table[name], self.agreement.schemas[name])

    def admits(self, token: str) -> bool:
        """Whether a client's token is the right one; takes the same time for all wrong ones."""
        return self.token is None or hmac.compare_digest(self.token.encode(), token.encode())


def _check_rows(datasets: Mapping[str, np.ndarray]) -> None:
    """ValueError unless ``digits.x`` and ``digits.y`` have the same number of rows: row i of both is one person's."""
    rows: dict[str, int] = {}
    for name, array in datasets.items():
        n = array.shape[0] if array.ndim else 0
        if array.ndim and rows.setdefault(group := dataset_of(name), n) != n:
            raise ValueError(
                f"the arrays of the dataset {group!r} have {rows[group]} and {n} rows: name others otherwise"
            )


def _readonly(name: Any, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if not isinstance(name, str) or array.dtype not in wire.DTYPES:
        raise TypeError(
            f"the dataset {name!r} of dtype {array.dtype}: names are strings, and arrays have a dtype of torch's"
        )
    if root_of(array)[1] != array.nbytes or not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()  # as_strided reaches all memory that an array is a part of
    if not array.size:
        array = array.view()
        array.flags.writeable = False
        return array
    # The owner's own array stays writable: no window on this one leads back to it.
    memory = np.frombuffer(array.ravel(order="K").view(np.uint8).data.toreadonly(), np.uint8)
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
