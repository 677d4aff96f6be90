"""Authentication and authorization: tokens, of which a server stores only hashes, certificate names, and rights.

A token is 32 random bytes, so it cannot be guessed, and one SHA-256 is enough to protect it. A password chosen by a
person would need a slow hash; there is deliberately no command to hash one.
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
ANYBODY = "client"  # the name of all clients without a token of their own
_SHOWN = 12  # maximum number of a rule's patterns that an error message lists


def new_token() -> str:
    """Generate a random token."""
    return secrets.token_hex(32)  # hex digits never begin with a dash, unlike a command-line option


def hash_of(token: str) -> str:
    """Return the hash of a token as a server stores it: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(token.encode(errors="replace")).hexdigest()


@dataclass(frozen=True)
class Token:
    """Credentials of a client (a token, a certificate or both), and the client's rights.

    Parameters
    ----------
    name : str
        Name of the client in the ledger and the log.
    hash : str, optional
        Hash of the token, as `torchnp owner token` prints it: ``sha256:...``.
    datasets : sequence of str, optional
        Names or patterns of the datasets that the client sees; ``digits`` also covers ``digits.x``. All datasets by
        default.
    release : bool
        Whether the client may request noised sums and means of datasets, within the ledger's budgets.
    allow : sequence of str, optional
        Operators or patterns that the client may use, out of those that the server allows. All of these by default.
    limits : Limits, optional
        Limits of the client's sessions; by default the server's.
    max_clients : int, optional
        Number of sessions that the client may have at a time; by default as many as the server accepts.
    certificate : str, optional
        A name that the client's certificate must have. Without ``hash`` the certificate is sufficient, and no token is
        needed.

    Raises
    ------
    ValueError
        The name or the hash is malformed, both hash and certificate are missing, or ``max_clients`` is below 1.
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
    """Return the shared token of all clients that have no token of their own."""
    return Token(ANYBODY, hash_of(token))


class Rights:
    """The rights of a client, which result from its token and the server's settings.

    Parameters
    ----------
    client : str
        Name of the client.
    datasets : mapping of str to array
        Datasets that the client sees, by name.
    limits : Limits
    release : bool
        Whether the client may request releases.
    max_clients : int or None
        Number of sessions that the client may have at a time.
    rules : sequence of (str, sequence of str)
        Rules about operators. Each has the clients to whom it applies (for error messages), and the patterns that it
        allows.
    names : sequence of str
        Names of the operators for which client and server have the same numbers (`Agreement.names`); the patterns of
        ``rules`` select from them.
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
        # Indices of the operators that every rule allows; None if there are no rules.
        self.allowed = frozenset.intersection(*(indices for _, _, indices in self._rules)) if self._rules else None

    def why_not(self, index: int, name: str) -> str:
        """Return the error text for an operator outside `allowed`; it names the first rule that refuses it."""
        whom, patterns = next((w, p) for w, p, indices in self._rules if index not in indices)
        more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
        return f"{name} is refused: the server's owner allows {whom} only {', '.join(patterns[:_SHOWN])}{more}"


def allowed(patterns: Sequence[str], names: Sequence[str]) -> frozenset[int]:
    """Return the indices of the operators that match any of the patterns.

    A pattern is ``aten::add.Tensor``, ``aten::add`` for all its overloads, or ``aten::add*``.

    Raises
    ------
    ValueError
        A pattern matches no operator, so it must be a mistake.
    """
    found: set[int] = set()
    for pattern in patterns:
        hits = {i for i, n in enumerate(names) if fnmatchcase(n, pattern) or fnmatchcase(n.partition(".")[0], pattern)}
        if not hits:
            raise ValueError(f"allow: {pattern!r} means no operator that can be sent; `torchnp ops` lists names")
        found |= hits
    return frozenset(found)


def visible(datasets: Mapping[str, np.ndarray], token: Token) -> dict[str, np.ndarray]:
    """Return the datasets that the holder of a token sees.

    Raises
    ------
    ValueError
        The token names a dataset that does not exist.
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
    """All tokens of a server. Checking a wrong token takes the same time, however similar it is to a right one."""

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
        """Whether any client is identified by a certificate."""
        return any(t.certificate for t in self.by_name.values())

    def holder(self, token: str, names: Collection[str] = ()) -> str | None:
        """Return the name of the client with this token (possibly empty) and these certificate names, or None.

        The token is compared with every token, so the time does not depend on which one matches.
        """
        presented, found = hash_of(token).encode(), None
        for name, known in self.by_name.items():
            right = not token if known.hash is None else hmac.compare_digest(presented, known.hash.encode())
            if right and (known.certificate is None or known.certificate in names):
                found = name
        return found

    def gone(self, later: Tokens) -> set[str]:
        """Return the names of the clients whose credentials are missing in ``later`` or have changed there."""
        shown = lambda tokens: {(t.name, t.hash, t.certificate) for t in tokens.by_name.values()}
        return {name for name, _, _ in shown(self) - shown(later)}
