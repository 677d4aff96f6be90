"""A client's session with a server: sends tensors and modules, and fetches what is published."""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from torchnp.rpc import wire
from torchnp.rpc.client.patches.optimizers import keep_counters
from torchnp.rpc.client.program.recording import Recording
from torchnp.rpc.client.program.remote_program import RemoteProgram
from torchnp.rpc.client.session.channel import Channel
from torchnp.rpc.client.session.engine import Engine, kind_of
from torchnp.rpc.client.tensor.call_sites import caller
from torchnp.rpc.client.tensor.conj_neg import toggled
from torchnp.rpc.client.tensor.indexing import get_item, length, set_item
from torchnp.rpc.client.tensor.pytree import mapped
from torchnp.rpc.client.tensor.release import Quote, terms_of
from torchnp.rpc.client.tensor.remote_refs import RemoteObject, keep_interrupts
from torchnp.rpc.client.tensor.rpctensor import RPCTensor
from torchnp.rpc.client.tensor.shape_inference import spec_of
from torchnp.rpc.client.tensor.tracing import refuse_recording
from torchnp.rpc.client.transports.requests import Announced, check_seconds
from torchnp.rpc.client.transports.transport import InProcess, Transport
from torchnp.rpc.exceptions import HandleError, RPCError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.session.protocol import Connection, Service
from torchnp.rpc.wire import Agreement, agreement


@dataclass(frozen=True)
class Stats:
    """Counters of a session; the server's part is as of its last answer.

    Attributes
    ----------
    ops : int
        Operators sent.
    round_trips : int
        Times the client waited for the server: one per `sync` and `publish`.
    bytes_sent, bytes_received : int
        On the wire, lengths included.
    objects, object_bytes : int
        What the server held for the session when `sync` asked last.
    """

    ops: int
    round_trips: int
    bytes_sent: int
    bytes_received: int
    objects: int
    object_bytes: int


_numbers = itertools.count(1)
# By subclasses, which need the class to be there.
RPCTensor._toggled = staticmethod(toggled)  # type: ignore[method-assign]
RPCTensor.__getitem__, RPCTensor.__setitem__, RPCTensor.__len__ = get_item, set_item, length  # type: ignore[method-assign]


class Session(Engine):
    """Handles, and the connection under them; a context manager that closes itself.

    Operators are sent and not waited for. One that fails raises where a value that depends on it is published; what
    nobody published is raised by `sync` and `close`, and at the end of a ``with`` block that no exception ends.

    Parameters
    ----------
    transport : Transport
        What carries frames; `connect` and `local` make it.
    token : str, optional
        What the server's owner gave out.
    agreed : Agreement, optional
        The overloads that both sides have, torchnp's table by default.
    number : int, optional
        The session's, the next one by default.
    timeout : float, optional
        Seconds to wait for the server's first answer; None waits for ever.
    deadline : float, optional
        Seconds to wait for each later one: see the attribute.

    Attributes
    ----------
    name : str
        The server, as messages name it.
    number : int
        The session's, counted in this process.
    datasets : dict
        The owner's datasets on the server: name to (shape, dtype). `dataset` opens one.
    auto_send_bytes : int
        Plain tensors that meet a handle in an operator are sent as they are, up to this size.
    """

    kind = RPCTensor
    auto_send_bytes = 16 << 20

    def __init__(
        self,
        transport: Transport,
        token: str | None = None,
        agreed: Agreement | None = None,
        number: int | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> None:
        super().__init__()
        agreed = agreed or agreement()
        keep_interrupts()
        self.number = next(_numbers) if number is None else number
        self.name = transport.name
        self.index, self._names = agreed.index, agreed.names
        self.calls = [0] * len(agreed.names)
        self.channel = Channel(transport, agreed, token, timeout)
        self.deadline = deadline
        self.programs: weakref.WeakSet[Recording] = weakref.WeakSet()  # that the server has been told, or is to be
        self.recording = threading.Lock()  # held while a function is recorded
        self._held = (0, 0)
        self.datasets = {d.name: (torch.Size(d.shape), getattr(torch, d.dtype)) for d in self.channel.welcome.datasets}

    # ------------------------------------------------------------ to the server

    def _upload(self, tensor: torch.Tensor) -> RPCTensor:
        tensor = tensor.resolve_conj().resolve_neg()
        order, dense = _memory_order(tensor)
        if not dense.is_contiguous():
            tensor = tensor.clone()
            order, dense = _memory_order(tensor)
        raw = memoryview(b"")
        if n := tensor.numel():  # strides of one-element dimensions may be anything, 0 too
            raw = dense.as_strided((n,), (1,)).view(torch.uint8).numpy().data
        dtype = str(tensor.dtype).removeprefix("torch.")
        remote = self.channel.upload(dtype, list(tensor.shape), order, raw, caller(), make=self._object)
        return self._handle(tensor, remote)  # a part of a larger storage becomes a storage of its own

    def _object(self, id_: int) -> RemoteObject:
        return RemoteObject(id_, self, wire.Handle(id_))

    def _constant(self, tensor: torch.Tensor) -> RemoteObject:
        """A plain tensor that met a handle, as an argument of one operator."""
        if tensor.nbytes > self.auto_send_bytes:
            raise HandleError(
                f"a plain tensor of {tensor.nbytes:,} bytes met a handle; up to {self.auto_send_bytes:,} are sent on their own. "
                "Send it once with session.send(tensor), or raise session.auto_send_bytes"
            )
        return super()._constant(tensor)

    def dataset(self, name: str) -> RPCTensor:
        """A handle on a dataset of the owner's: read-only, and neither it nor what is computed from it is published."""
        if not isinstance(name, str):
            raise TypeError(f"session.dataset takes the name of a dataset, not {kind_of(name)}")
        if name not in self.datasets:
            raise ValueError(f"{self.name} has no dataset {name!r}; it has {', '.join(self.datasets) or 'none'}")
        shape, dtype = self.datasets[name]
        spec = spec_of(torch.empty(shape, dtype=dtype, device="meta"))
        return RPCTensor._wrap(spec, self.channel.open(name, caller(), make=self._object))

    def program(self, function: Callable[..., Any], key: Callable[[], Hashable] | None = None) -> RemoteProgram:
        """A function of handles that is sent to the server once, and from then on called there by its hash.

        The first calls run the function, and what it sends is recorded. Once two in a row have been alike, a call is one
        short frame, and the function itself does not run: what it does to handles is repeated on the server, with new
        random numbers, and its result is handles on what that gave.

        Parameters
        ----------
        function : callable
            Of handles, numbers and nests of them. What it makes it returns or lets go of (gradients too:
            ``optimizer.zero_grad()`` stands at its end), and it neither sends nor publishes. What it returns has no
            gradient. A step of a training loop with its backward pass and optimizer is such a function.
        key : callable, optional
            What the function goes by beside its arguments, as a hashable value: asked in each call, and each value has a
            recording of its own (``key=lambda: scheduler.get_last_lr()[0]``).

        Returns
        -------
        RemoteProgram
            To be called like the function; also what ``@session.program`` makes of it. If the calls are not alike it
            goes on to run the function, and a warning says why. Every hundredth call runs the function as well, and
            `HandleError` is raised if that does something else by now.
        """
        if not callable(function):
            raise TypeError(f"session.program takes a function, not {kind_of(function)}")
        return RemoteProgram(self, function, key)

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """The optimizer itself, which keeps its counters of steps on the server from now on, as `program` needs it.

        Its parameters are handles. Adam, AdamW and Adagrad have to be made with ``fused=True``: their other forms read the
        counter here, and `HandleError` is raised. ``session.publish(optimizer.state_dict())`` has the counters, too.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"session.optimizer takes a torch.optim.Optimizer, not {kind_of(optimizer)}")
        keep_counters(self, optimizer)
        return optimizer

    def manual_seed(self, seed: int) -> None:
        """``torch.manual_seed(seed)``, which seeds the operators of handles as well, those of other sessions too."""
        try:
            seed = operator.index(seed)
        except TypeError:
            raise TypeError(f"session.manual_seed takes an integer, not {kind_of(seed)}") from None
        torch.manual_seed(seed)

    # ------------------------------------------------------------ from the server

    def sync(self) -> Stats:
        """Wait until the server has done everything; raises the earliest failure that has not been raised yet."""
        status = self.channel.sync()
        self._held = status.objects, status.bytes
        return self.stats

    def raise_earlier_failure(self) -> None:
        """Raise the earliest failure on the server that has not been raised yet: torch would have stopped there."""
        if not self.recording.locked():
            with contextlib.suppress(RPCError):  # without a connection the refusal here is what there is to say
                self.channel.sync()

    def publish(self, tree: Any, **terms: Any) -> Any:
        """A nest of dicts, lists, tuples and dataclasses with the values of its handles in their place.

        What is no handle stays as it is. ``session.publish(model.state_dict())`` can be saved and loaded anywhere.

        Parameters
        ----------
        tree : nest, or a handle
        **terms
            Of a release of an owner's rows, as `RPCTensor.publish` takes them. They go with one handle: of a nest, the
            first releases would be paid for when a later one is refused.

        Raises
        ------
        RemoteOpError, PrivacyError
            As `RPCTensor.publish` does, of the first handle that cannot be had.
        """
        if terms and not isinstance(tree, RPCTensor):
            raise TypeError(
                "a release is of one handle, on terms of its own: handle.publish(reduce='sum', clip=, eps=)"
            )
        return mapped(lambda x: x.publish(**terms) if isinstance(x, RPCTensor) else x, tree)

    def quote(self, handle: RPCTensor, **terms: Any) -> Quote:
        """What `RPCTensor.publish` with the same terms would cost; spends nothing."""
        return self.channel.quote(handle._object.id, terms_of(**terms))

    def _publish(self, handle: RPCTensor, terms: wire.Terms | None = None) -> torch.Tensor:
        refuse_recording("publish()")
        own = str(handle.dtype).removeprefix("torch.")
        dtypes = (own,) if terms is None or handle.dtype.is_floating_point else ("float64",)
        announced = Announced(self.name, dtypes, tuple(handle.shape), terms is not None)
        dtype, shape, raw = self.channel.publish(handle._object.id, terms, announced)
        if not raw.size:
            return torch.empty(shape, dtype=getattr(torch, dtype))
        return torch.from_numpy(raw).view(getattr(torch, dtype)).reshape(shape)

    @property
    def deadline(self) -> float | None:
        """Seconds that `publish`, `sync` and `quote` wait for their answer; None for no end.

        Then they raise `DeadlineExceeded`, and the session goes on. It can be set at any time.
        """
        return self.channel.deadline

    @deadline.setter
    def deadline(self, seconds: float | None) -> None:
        if seconds is not None:
            check_seconds(deadline=seconds)
        self.channel.deadline = seconds

    @property
    def stats(self) -> Stats:
        """The counters so far."""
        c = self.channel
        return Stats(c.ops_sent, c.round_trips, c.transport.bytes_sent, c.transport.bytes_received, *self._held)

    @property
    def overloads(self) -> Counter[str]:
        """Operators sent, by full overload name."""
        return Counter({self._names[i]: n for i, n in enumerate(self.calls) if n})

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Leave the server, which forgets the session's objects; handles cannot be used any more.

        Waits for what has been sent and raises the earliest failure that has not been raised yet; the session is closed
        then as well.
        """
        self.channel.finish()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.channel.finish()
        else:
            self.channel.close()

    @property
    def over(self) -> str:
        """``"closed"`` or ``"lost"`` when the session has ended, else ""."""
        return "closed" if self.channel.closed else "lost" if self.channel.dead else ""

    @property
    def where(self) -> str:
        return f"on the server {self.name}"

    @property
    def title(self) -> str:
        """The session as messages name it where there may be several with one server."""
        return f"session {self.number} with {self.name}"

    def __repr__(self) -> str:
        return f"<torchnp.rpc {self.title}{f' ({self.over})' if self.over else ''}>"


def _memory_order(tensor: torch.Tensor) -> tuple[list[int], torch.Tensor]:
    """The dimensions from outermost in memory to innermost, and the tensor with them so."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    return order, tensor.permute(order)


def local(*, datasets: Any = None, limits: Limits = Limits(), table: Any = None, ledger: Any = None) -> Session:
    """A session with a server in this process; frames are encoded and decoded as on a wire.

    Parameters
    ----------
    datasets : mapping of str to array, optional
        The owner's arrays, as for `serve`.
    limits : Limits
        What the session may hold, in bytes and objects.
    table : mapping, optional
        Kernels by full overload name, in place of torchnp's table.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets.

    Returns
    -------
    Session
        Open; a context manager that closes itself.
    """
    service = Service(table, datasets, None, limits, ledger=ledger)
    number = next(_numbers)
    return Session(InProcess(Connection(service, f"local session {number}")), agreed=service.agreement, number=number)


__all__ = ["Session", "Stats", "local"]
