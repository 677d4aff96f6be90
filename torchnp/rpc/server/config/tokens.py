"""Who may do what: tokens, of which a server keeps hashes alone, certificates' names, and the rights of each.

A token is 32 random bytes. There is nothing to guess, so one SHA-256 keeps it; a password that people think up would
need more, and no way is given to hash one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy.row_labels import dataset_of

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
ANYBODY = "client"  # the name of those who have no token of their own
_SHOWN = 12  # patterns of a rule that a message has


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_hex(32)  # hex: none begins with a dash, as an option would


def hash_of(token: str) -> str:
    """What a server keeps of a token: ``sha256:`` and 64 digits."""
    return "sha256:" + hashlib.sha256(token.encode(errors="replace")).hexdigest()


@dataclass(frozen=True)
class Token:
    """A token, a certificate or both, and what their holder may do.

    Parameters
    ----------
    name : str
        The holder's, by which the ledger and the log know it.
    hash : str, optional
        What `torchnp owner token` printed of the token: ``sha256:...``.
    datasets : sequence of str, optional
        Names or patterns of the datasets that the holder sees; ``digits`` stands for ``digits.x`` too. All by default.
    release : bool
        Whether noised sums and means of datasets may be asked for, within the ledger's budgets.
    allow : sequence of str, optional
        Operators or patterns of operators that may be used, among those that the server allows. All by default.
    limits : Limits, optional
        Of the holder's sessions; the server's by default.
    max_clients : int, optional
        Sessions that the holder may have at a time; as many as the server takes by default.
    certificate : str, optional
        A name that the holder's certificate has to have; without a hash it is enough, and no token is presented.

    Raises
    ------
    ValueError
        The name is not printable, the hash is none, there is neither hash nor certificate, or no session may be had.
    """

    name: str
    hash: str | None = None
    datasets: Sequence[str] | None = None
    release: bool = True
    allow: Sequence[str] | None = None
    limits: Limits | None = None
    max_clients: int | None = None
    certificate: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and 0 < len(self.name) <= 256 and self.name.isprintable()):
            raise ValueError(f"a token has a printable name of 1 to 256 characters, not {self.name!r}")
        if self.name == "*":
            raise ValueError("the name * stands for all clients together: name the token otherwise")
        if self.hash is None and not self.certificate:
            raise ValueError(f"the client {self.name!r} has neither the hash of a token nor the name of a certificate")
        if self.hash is not None and not (isinstance(self.hash, str) and _HASH.fullmatch(self.hash)):
            raise ValueError(
                f"the hash of the token {self.name!r} is sha256: and 64 hexadecimal digits, as `torchnp owner token` "
                "prints it"
            )
        if self.max_clients is not None and (type(self.max_clients) is not int or self.max_clients < 1):
            raise ValueError(f"max_clients of the token {self.name!r} is at least 1, not {self.max_clients!r}")


def everybodys(token: str) -> Token:
    """The one token of all clients that have none of their own."""
    return Token(ANYBODY, hash_of(token))


class Rights:
    """What a client may do, with everything looked up.

    Parameters
    ----------
    client : str
        Its name.
    datasets : mapping of str to array
        Those that it sees.
    limits : Limits
    release : bool
        Whether it may ask for releases.
    max_clients : int or None
        Sessions that it may have at a time.
    rules : sequence of (str, sequence of str)
        Whom a rule about operators is for, and the patterns that it allows.
    names : sequence of str
        The agreed table's operators.
    """

    def __init__(
        self,
        client: str,
        datasets: Mapping[str, np.ndarray],
        limits: Limits,
        release: bool,
        max_clients: int | None,
        rules: Iterable[tuple[str, Sequence[str]]],
        names: Sequence[str],
    ) -> None:
        self.client, self.datasets, self.limits = client, datasets, limits
        self.release, self.max_clients = release, max_clients
        self._rules = [(whom, tuple(patterns), allowed(patterns, names)) for whom, patterns in rules]
        # The indices of all that may run; None where there is no rule.
        self.allowed = frozenset.intersection(*(indices for _, _, indices in self._rules)) if self._rules else None

    def why_not(self, index: int, name: str) -> str:
        """Why an operator outside of `allowed` is refused: the first rule that it is not in."""
        whom, patterns = next((w, p) for w, p, indices in self._rules if index not in indices)
        more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
        return f"{name} is refused: the server's owner allows {whom} only {', '.join(patterns[:_SHOWN])}{more}"


def allowed(patterns: Sequence[str], names: Sequence[str]) -> frozenset[int]:
    """The indices of the operators that patterns mean: ``aten::add.Tensor``, ``aten::add`` with all its overloads, or
    ``aten::add*``.

    Raises
    ------
    ValueError
        A pattern means none, so that it must be a mistake.
    """
    found: set[int] = set()
    for pattern in patterns:
        hits = {i for i, n in enumerate(names) if fnmatchcase(n, pattern) or fnmatchcase(n.partition(".")[0], pattern)}
        if not hits:
            raise ValueError(f"allow: {pattern!r} means no operator that can be sent; `torchnp ops` lists names")
        found |= hits
    return frozenset(found)


def visible(datasets: Mapping[str, np.ndarray], token: Token) -> dict[str, np.ndarray]:
    """The datasets that a token's holder sees.

    Raises
    ------
    ValueError
        The token names one that there is not.
    """
    if token.datasets is None:
        return dict(datasets)
    for pattern in token.datasets:
        if not any(_means(pattern, name) for name in datasets):
            raise ValueError(
                f"tokens.{token.name}.datasets: there is no dataset {pattern!r}; there are "
                f"{', '.join(sorted(datasets)) or 'none'}"
            )
    return {n: array for n, array in datasets.items() if any(_means(p, n) for p in token.datasets)}


def _means(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(dataset_of(name), pattern)


class Tokens:
    """Those whom a server knows; a false token takes the same time whichever it resembles."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self.by_name: dict[str, Token] = {}
        seen: set[tuple[str | None, str | None]] = set()
        for token in tokens:
            if not isinstance(token, Token):
                raise TypeError(f"tokens are rpc.Token(...), not values of type {type(token).__name__}")
            if token.name in self.by_name:
                raise ValueError(f"there are two tokens of the name {token.name!r}")
            shown = (token.hash, None if token.hash else token.certificate)
            if shown in seen:
                raise ValueError(
                    f"the token {token.name!r} has the {'hash' if token.hash else 'certificate'} of another"
                )
            seen.add(shown)
            self.by_name[token.name] = token

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def certificates(self) -> bool:
        """Whether somebody is known by a certificate."""
        return any(t.certificate for t in self.by_name.values())

    def holder(self, token: str, names: Collection[str] = ()) -> str | None:
        """The name of whoever presents a token, or none, and a certificate of some names; None if nobody is known by
        them. Looks at all tokens, whichever it is.
        """
        presented, found = hash_of(token).encode(), None
        for name, known in self.by_name.items():
            right = not token if known.hash is None else hmac.compare_digest(presented, known.hash.encode())
            if right and (known.certificate is None or known.certificate in names):
                found = name
        return found

    def gone(self, later: Tokens) -> set[str]:
        """The names of those who are known otherwise later, or not at all."""
        shown = lambda tokens: {(t.name, t.hash, t.certificate) for t in tokens.by_name.values()}
        return {name for name, _, _ in shown(self) - shown(later)}
