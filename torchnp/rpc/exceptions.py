"""Errors of the connection between a client and a server, and operator failures that a server reports."""

from __future__ import annotations


class RPCError(Exception):
    """Base class of the errors of remote tensors, except failures of operators.

    Attributes
    ----------
    reason : str
        If the error is a limitation of handles by design, that limitation in a few words; else "".
    """

    reason = ""


class ConnectionLost(RPCError, ConnectionError):
    """Raised when the server cannot be reached or the connection broke; all handles of the session are lost."""


class DeadlineExceeded(RPCError, TimeoutError):
    """Raised when the server did not answer in time. The session and the server's work continue; ask again later."""


class SessionClosed(RPCError, RuntimeError):
    """Raised when a handle is used after its session was closed."""


class VersionMismatch(RPCError):
    """Raised when client and server differ in protocol version or operator table."""


class AuthenticationError(RPCError):
    """Raised when the server refused the token or the certificate, or the server's certificate is not trusted."""


class ProtocolError(RPCError):
    """Raised when the peer (client or server) sent something that the protocol does not allow."""


class QuotaError(RPCError):
    """Raised when the session has reached the server's limit of bytes or objects."""


class PrivacyError(RPCError):
    """Raised when the client asks for exact values of an owner's data, or of values computed from it."""


class BudgetError(PrivacyError):
    """Raised when a release would exceed the remaining privacy budget, or there is no budget."""


class LedgerError(RPCError):
    """Raised when the server cannot read or write its ledger, or entries of the ledger were altered."""


class ValueAccessError(RPCError, RuntimeError):
    """Raised when code reads the values of a handle by other means than ``publish()``."""

    def __init__(self, text: str, reason: str = "values are read on the client") -> None:
        super().__init__(text)
        self.reason = reason


class HandleError(RPCError, RuntimeError):
    """Raised when a handle is used in a way, or together with an object, that handles do not support."""

    def __init__(self, text: str, reason: str = "something else than a handle is asked for") -> None:
        super().__init__(text)
        self.reason = reason


class RemoteOpError(Exception):
    """Raised when an operator failed on the server. The raised subclass also derives from the kernel's exception class.

    Attributes
    ----------
    op : str
        Full overload name.
    seq : int
        Sequence number of the operator in its session.
    location : str
        ``file:line`` of the client's code that called the operator.
    remote_text : str
        The message of the kernel's error.
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


# Exceptions that a kernel may raise, most specific first. Any other exception is sent as a RuntimeError whose message
# gives its name. The client maps LinAlgError to a class that also derives from torch's.
KERNEL_ERRORS: dict[str, type[RemoteOpError]] = {
    "LinAlgError": RemoteRuntimeError,
    "NotImplementedError": RemoteNotImplementedError,
    "IndexError": RemoteIndexError,
    "ValueError": RemoteValueError,
    "TypeError": RemoteTypeError,
    "RuntimeError": RemoteRuntimeError,
}

# Kinds of ERR frames that are not failures of operators.
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
