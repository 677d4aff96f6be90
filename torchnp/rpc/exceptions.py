"""Errors between a client and a server, and the operator failures that a server reports."""

from __future__ import annotations


class RPCError(Exception):
    """Base class of the remote tensor's errors, except operator failures.

    Attributes
    ----------
    reason : str
        The limit of handles that caused the error, in a few words, if it is by design; else "".
    """

    reason = ""


class ConnectionLost(RPCError, ConnectionError):
    """The server could not be reached, or the connection broke: all handles of the session are gone."""


class DeadlineExceeded(RPCError, TimeoutError):
    """The server did not answer in time. The session and the server's work go on: ask again later."""


class SessionClosed(RPCError, RuntimeError):
    """A handle was used after its session was closed."""


class VersionMismatch(RPCError):
    """Client and server differ in protocol version or operator table."""


class AuthenticationError(RPCError):
    """The server refused the token or the certificate, or the server's certificate is not trusted."""


class ProtocolError(RPCError):
    """The other side sent something that the protocol does not allow."""


class QuotaError(RPCError):
    """The session has reached the server's limit of bytes or objects."""


class PrivacyError(RPCError):
    """The client asked for exact values of an owner's data, or of something computed from it."""


class BudgetError(PrivacyError):
    """A release would exceed the remaining privacy budget, or there is no budget."""


class LedgerError(RPCError):
    """The server cannot read or write its ledger, or the ledger's entries were altered."""


class ValueAccessError(RPCError, RuntimeError):
    """Something asked a handle for values, which only ``publish()`` returns."""

    def __init__(self, text: str, reason: str = "values are read on the client") -> None:
        super().__init__(text)
        self.reason = reason


class HandleError(RPCError, RuntimeError):
    """A handle was used in a way, or combined with something, that handles do not support."""

    def __init__(self, text: str, reason: str = "something else than a handle is asked for") -> None:
        super().__init__(text)
        self.reason = reason


class RemoteOpError(Exception):
    """An operator failed on the server; the raised subclass also derives from the kernel's exception class.

    Attributes
    ----------
    op : str
        Full overload name.
    seq : int
        Sequence number of the operator in its session.
    location : str
        ``file:line`` of the local code that issued the operator.
    remote_text : str
        The kernel's message.
    """

    op: str
    seq: int
    location: str
    remote_text: str


class RemoteRuntimeError(RemoteOpError, RuntimeError):
    pass


class RemoteIndexError(RemoteOpError, IndexError):
    pass


class RemoteValueError(RemoteOpError, ValueError):
    pass


class RemoteTypeError(RemoteOpError, TypeError):
    pass


class RemoteNotImplementedError(RemoteOpError, NotImplementedError):
    pass


# Exceptions that a kernel may raise, most specific first. Any other crosses the wire as a RuntimeError that names it.
# The client maps LinAlgError to a class that is also torch's.
KERNEL_ERRORS: dict[str, type[RemoteOpError]] = {
    "LinAlgError": RemoteRuntimeError,
    "NotImplementedError": RemoteNotImplementedError,
    "IndexError": RemoteIndexError,
    "ValueError": RemoteValueError,
    "TypeError": RemoteTypeError,
    "RuntimeError": RemoteRuntimeError,
}

# ERR frame kinds that are not operator failures.
INFRASTRUCTURE: dict[str, type[RPCError]] = {
    "auth": AuthenticationError,
    "protocol": ProtocolError,
    "private": PrivacyError,
    "budget": BudgetError,
    "ledger": LedgerError,
    "lost": ConnectionLost,
    "quota": QuotaError,
    "version": VersionMismatch,
}
