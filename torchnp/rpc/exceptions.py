"""What can go wrong between a client and a server, apart from the operators themselves."""

from __future__ import annotations


class RPCError(Exception):
    """Base of every error of the remote tensor that is not an operator's own.

    Attributes
    ----------
    reason : str
        What handles do not do by design, in a few words, where that is why; else "".
    """

    reason = ""


class ConnectionLost(RPCError, ConnectionError):
    """The server could not be reached, or the connection broke: all handles of the session are gone."""


class DeadlineExceeded(RPCError, TimeoutError):
    """The server has not answered in time. The session goes on, and so does what the server is at: ask again later."""


class SessionClosed(RPCError, RuntimeError):
    """A handle was used after its session was closed."""


class VersionMismatch(RPCError):
    """Client and server do not speak the same protocol or do not share the same table of operators."""


class AuthenticationError(RPCError):
    """The server refused the token or the certificate, or the server's certificate is not trusted."""


class ProtocolError(RPCError):
    """The other side sent something that the protocol does not allow."""


class QuotaError(RPCError):
    """The session holds as many bytes or objects as the server allows."""


class PrivacyError(RPCError):
    """Exact values of an owner's data, or of anything computed from it, were asked for."""


class BudgetError(PrivacyError):
    """A release would cost more than what is left of a privacy budget, or there is no budget."""


class LedgerError(RPCError):
    """The ledger of an owner's server cannot be read or written, or its entries are not what was written."""


class ValueAccessError(RPCError, RuntimeError):
    """Something asked a handle for values, which only ``publish()`` gives."""

    def __init__(self, text: str, reason: str = "values are read on the client") -> None:
        super().__init__(text)
        self.reason = reason


class HandleError(RPCError, RuntimeError):
    """A handle was combined with something that it cannot be combined with."""

    def __init__(self, text: str, reason: str = "something else than a handle is asked for") -> None:
        super().__init__(text)
        self.reason = reason


class RemoteOpError(Exception):
    """An operator failed on the server; raised as a subclass that is also the kernel's own exception class.

    Attributes
    ----------
    op : str
        Full overload name.
    seq : int
        Sequence number of the operator in its session.
    location : str
        ``file:line`` of the local code that issued it.
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


# What a kernel may raise, most specific first: anything else crosses the wire as a RuntimeError that names it. The client has
# a class for LinAlgError that is torch's too.
KERNEL_ERRORS: dict[str, type[RemoteOpError]] = {
    "LinAlgError": RemoteRuntimeError,
    "NotImplementedError": RemoteNotImplementedError,
    "IndexError": RemoteIndexError,
    "ValueError": RemoteValueError,
    "TypeError": RemoteTypeError,
    "RuntimeError": RemoteRuntimeError,
}

# The kinds of ERR frames that are not an operator's failure.
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
