"""The state of a server that all sessions share: operators, the owner's datasets, and the clients' rights to them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchnp import dtypes
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.config.tokens import ANYBODY, Rights, Token, Tokens, everybodys, visible
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.privacy.row_labels import dataset_of
from torchnp.rpc.server.privacy.timing import Late
from torchnp.rpc.server.session.bounded_cache import Room
from torchnp.rpc.server.session.check_arguments import REMEMBERED
from torchnp.rpc.server.session.object_store import root_of
from torchnp.rpc.server.session.overload_info import Served
from torchnp.rpc.wire import Agreement, agreement


class ServerState:
    """The operators, datasets, clients and limits of a server.

    Parameters
    ----------
    table : mapping, optional
        Kernels by full overload name; torchnp's table by default.
    datasets : mapping of str to array, optional
        Arrays with which clients can compute, but which they can neither read nor write.
    token : str, optional
        The shared token of clients that have no token of their own; the ledger calls them ``client``.
    limits : Limits
        Limits of one session.
    bucket : float
        Replies to frames that used private data are sent at multiples of this many seconds; with 0, immediately.
    ledger : str or Path, optional
        Ledger of the datasets' privacy budgets; without it, only public values are published.
    tokens : sequence of Token
        Clients that have a token and rights of their own.
    allow : sequence of str, optional
        Operators or patterns that clients may use; all operators by default.
    libraries : sequence of str, optional
        Namespaces of other libraries, such as ``torchvision``, whose operators clients may use. Clients need the same
        rows for them.
    """

    def __init__(
        self,
        table: Mapping[str, Any] | None = None,
        datasets: Mapping[str, Any] | None = None,
        token: str | None = None,
        limits: Limits = Limits(),
        bucket: float = 0.0,
        ledger: str | Path | None = None,
        tokens: Sequence[Token] = (),
        allow: Sequence[str] | None = None,
        libraries: Sequence[str] | None = None,
    ) -> None:
        if type(bucket) not in (int, float) or not 0 <= bucket <= 10:
            raise ValueError(f"a bucket is a number of seconds from 0 to 10, not {bucket!r}")
        self._room = Room(REMEMBERED)
        self.agreement = agreement() if table is None else Agreement(table)
        if libraries:
            if table is not None:
                raise ValueError("libraries are those of torchnp.table: give no table of your own beside them")
            self.agreement = self.agreement.with_libraries(libraries)
        if token is not None and not isinstance(token, str):
            raise TypeError(f"a token is a string, not a value of type {type(token).__name__}")
        if token is not None and not 0 < len(token.encode(errors="replace")) <= wire.MAX_TOKEN:
            raise ValueError(f"a token has 1 to {wire.MAX_TOKEN} bytes")
        if not isinstance(limits, Limits):
            raise TypeError(f"limits are rpc.Limits(...), not a value of type {type(limits).__name__}")
        if datasets is not None and not isinstance(datasets, Mapping):
            raise TypeError(f"datasets are a dict of names and arrays, not a value of type {type(datasets).__name__}")
        self.limits, self.bucket, self.late, self.ended = limits, bucket, Late(), Late()  # replies and sessions
        self.datasets = {name: _readonly(name, value) for name, value in (datasets or {}).items()}
        _check_rows(self.datasets)
        self.ledger = None if ledger is None else Ledger(ledger)
        if self.ledger is not None:
            self.ledger.close()  # it was opened only to check the file; each process opens its own connection
        self._allow, self.tokens = allow, Tokens(())
        self.open = token is None and not tokens  # whether any client is admitted
        self.know([*([] if token is None else [everybodys(token)]), *tokens])

    def tell_ledger(self) -> None:
        """Record the names of the datasets in the ledger; raise LedgerError if it cannot be written."""
        if self.ledger is not None:
            self.ledger.learn(map(dataset_of, self.datasets))
            self.ledger.close()

    def know(self, tokens: Sequence[Token]) -> set[str]:
        """Replace the tokens, so that only their holders are admitted.

        Return the names of the clients whose access ended.

        A server that never had tokens admits any client. A server that had tokens, and has none now, admits none.

        Raises
        ------
        TypeError, ValueError
            A token is invalid, or names a dataset or operator that does not exist. Nothing was changed.
        """
        known = Tokens(tokens)
        is_open = self.open and not tokens
        everybody = [everybodys("")] if is_open else []
        clients = {t.name: self._rights(t, self._allow) for t in (*everybody, *tokens)}
        gone = self.tokens.gone(known) | ({ANYBODY} if self.open and not is_open else set())
        self.tokens, self.clients, self.open = known, clients, is_open
        return gone

    @functools.cache  # noqa: B019  (it lives as long as its process)
    def row(self, index: int) -> Served:
        """Return the overload at an index of `Agreement.names`; raise ProtocolError if there is none."""
        if index >= len(self.agreement.names):
            raise ProtocolError(f"operator {index} is not in the agreed table of {len(self.agreement.names)}")
        name = self.agreement.names[index]
        return Served(name, self.agreement.table[name], self.agreement.schemas[name], self._room)

    def summary(self) -> str:
        """Return a summary of operators, datasets and clients, one per line."""
        lines = [f"operators: {len(self.agreement.names)}"]
        lines += [f"library {name}: {ops} of these" for name, (ops, _) in self.agreement.libraries.items()]
        lines += [
            f"dataset {name}: {dtypes.dtype_name(a.dtype)} {tuple(a.shape)}, {a.nbytes:,} bytes"
            for name, a in self.datasets.items()
        ]
        for name, may in self.clients.items():
            used = len(self.agreement.names if may.allowed is None else may.allowed)
            lines.append(
                f"client {name}: {'no' if self.open else 'a'} token, {used} operators, {len(may.datasets)} datasets, "
                f"{'releases' if may.release and self.ledger else 'no releases'}, {may.limits.max_bytes:,} bytes, "
                f"{may.limits.max_objects:,} objects, {may.limits.op_seconds:g} s an operator, {may.limits.idle_seconds:g} s "
                f"idle, {may.limits.lease_seconds:g} s without a connection, {may.limits.cpu_seconds:g} s of a processor"
            )
        return "\n".join(lines)

    def _rights(self, token: Token, allow: Sequence[str] | None) -> Rights:
        rules = [("clients", allow), (f"the client {token.name!r}", token.allow)]
        return Rights(
            token.name,
            visible(self.datasets, token),
            token.limits or self.limits,
            token.release,
            token.max_clients,
            [(whom, patterns) for whom, patterns in rules if patterns is not None],
            self.agreement.names,
        )

    def admits(self, token: str, names: Collection[str] = ()) -> Rights | None:
        """Return the rights of the client with this token and these certificate names; None if no client matches."""
        name = ANYBODY if self.open else self.tokens.holder(token, names)
        return None if name is None else self.clients[name]


def _check_rows(datasets: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless all arrays of a dataset, such as ``digits.x`` and ``digits.y``, have equally many rows.

    Row i of all these arrays belongs to the same person.
    """
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
        array = array.copy()  # otherwise as_strided could access memory around the array
    if not array.size:
        array = array.view()
        array.flags.writeable = False
        return array
    # The owner's array stays writable, but it cannot be written through the returned array.
    memory = np.frombuffer(array.ravel(order="K").view(np.uint8).data.toreadonly(), np.uint8)
    return np.ndarray(array.shape, array.dtype, memory, 0, array.strides)
