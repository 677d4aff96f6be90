"""Sessions with a server, which send tensors and modules, and fetch published values."""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

import torchnp
from torchnp.core.libraries import OWN
from torchnp.engine.engine import Engine, kind_of
from torchnp.engine.tensor.call_sites import caller
from torchnp.engine.tensor.overload_info import MissingOperator, OverloadInfo, missing_operator
from torchnp.engine.tensor.pytree import mapped
from torchnp.engine.tensor.shape_inference import spec_of
from torchnp.engine.tensor.tracing import refuse_recording
from torchnp.rpc import wire
from torchnp.rpc.client.patches.optimizers import keep_counters
from torchnp.rpc.client.program.recording import Recording
from torchnp.rpc.client.program.remote_program import RemoteProgram
from torchnp.rpc.client.session.channel import Channel
from torchnp.rpc.client.session.factory_functions import Creation
from torchnp.rpc.client.session.upload_cache import SMALLEST, UploadCache
from torchnp.rpc.client.tensor.conj_neg import toggled
from torchnp.rpc.client.tensor.indexing_by_handle import get_item, length, set_item
from torchnp.rpc.client.tensor.publish import Quote, terms_of
from torchnp.rpc.client.tensor.remote_refs import RemoteObject, keep_interrupts
from torchnp.rpc.client.tensor.rpctensor import RPCTensor
from torchnp.rpc.client.transports.requests import Announced, PublishFuture, check_seconds
from torchnp.rpc.client.transports.transport import InProcess, Transport
from torchnp.rpc.exceptions import HandleError, RPCError
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.session.protocol import Connection, ServerState
from torchnp.rpc.wire import Agreement, agreement


@dataclass(frozen=True)
class Stats:
    """Counters of a session. Those of the server are from its last answer.

    Attributes
    ----------
    ops : int
        Operators sent.
    round_trips : int
        Times the client waited for the server: one per `sync` and `publish`.
    bytes_sent, bytes_received : int
        Bytes on the wire, length prefixes included.
    objects, object_bytes : int
        Number and size of the objects that the server held for the session at the last `sync`.
    bytes_reused : int
        Bytes that were not sent again, because the server copied a tensor in the upload cache.
    """

    ops: int
    round_trips: int
    bytes_sent: int
    bytes_received: int
    objects: int
    object_bytes: int
    bytes_reused: int


_numbers = itertools.count(1)
# Set here because these functions use subclasses of RPCTensor, which can be defined only after it.
RPCTensor._toggled = staticmethod(toggled)  # type: ignore[method-assign]
RPCTensor.__getitem__, RPCTensor.__setitem__, RPCTensor.__len__ = get_item, set_item, length  # type: ignore[method-assign]


class Session(Creation, Engine):
    """A connection to a server, and the engine of its handles; a context manager that closes itself.

    Operators are sent without waiting. A failure is raised when a value that depends on it is published. `sync`,
    `close` and the end of a ``with`` block without an exception raise failures that have not been raised yet.

    Parameters
    ----------
    transport : Transport
        Carries the frames; `connect` and `local` make it.
    token : str, optional
        The token that the server's owner gave out.
    agreed : Agreement, optional
        The overloads that both sides have, torchnp's table by default.
    number : int, optional
        The session's number; by default the next free one.
    timeout : float, optional
        Seconds to wait for the server's first answer; with None, wait for ever.
    deadline : float, optional
        Seconds to wait for each later answer: see the attribute.
    compress : bool, optional
        Whether uploads are compressed: see the attribute.
    cache_bytes : int, optional
        Size of the upload cache: see the attribute.

    Attributes
    ----------
    name : str
        The server's name in messages.
    number : int
        The session's number, counted in this process.
    datasets : dict
        The owner's datasets on the server: name to (shape, dtype). `dataset` opens one.
    auto_send_bytes : int
        Plain tensors up to this size are sent automatically when an operator takes them together with a handle.
    cache_bytes : int
        The server keeps up to this many bytes of sent tensors, and copies a tensor if the same one is sent again. They
        count towards the session's quota.
    """

    kind, views, inplace = RPCTensor, True, True
    auto_send_bytes = 16 << 20

    def __init__(
        self,
        transport: Transport,
        token: str | None = None,
        agreed: Agreement | None = None,
        number: int | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        compress: bool = False,
        cache_bytes: int = 0,
    ) -> None:
        super().__init__()
        agreed = agreed or agreement()
        keep_interrupts()
        self.number = next(_numbers) if number is None else number
        self.name = transport.name
        self.channel = Channel(transport, agreed, token, timeout)
        theirs = [(library.name, library.ops, library.digest) for library in self.channel.welcome.libraries]
        agreed, self._differing = agreed.with_server_libraries(theirs)
        self._libraries = agreed.libraries
        self.index: Mapping[str, Any] = agreed.index
        self._names = agreed.names
        self.calls = [0] * len(agreed.names)
        self.deadline, self.compress, self.cache_bytes = deadline, compress, cache_bytes
        self._cache, self._quota_errors, self._reused = UploadCache(), 0, 0
        self._empty: RPCTensor | None = None
        self.programs: weakref.WeakSet[Recording] = weakref.WeakSet()  # defined on the server, or about to be
        self.recording = threading.Lock()  # held while a function is recorded
        self._held = (0, 0)
        self.datasets = {d.name: (torch.Size(d.shape), getattr(torch, d.dtype)) for d in self.channel.welcome.datasets}

    # ------------------------------------------------------------ to the server

    def _upload(self, tensor: torch.Tensor) -> RPCTensor:  # type: ignore[override]
        tensor = tensor.resolve_conj().resolve_neg()
        order, dense = _memory_order(tensor)
        if not dense.is_contiguous():
            tensor = tensor.clone()
            order, dense = _memory_order(tensor)
        raw = memoryview(b"")
        if n := tensor.numel():  # strides of one-element dimensions are arbitrary, even 0
            raw = dense.as_strided((n,), (1,)).view(torch.uint8).numpy().data
        own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        if SMALLEST <= len(raw) <= self.cache_bytes and own.clone().stride() == own.stride():
            return self._copied(own, order, raw)
        return self._sent(own, order, raw)

    def _sent(self, own: torch.Tensor, order: list[int], raw: memoryview) -> RPCTensor:
        """Send the bytes of a tensor that the meta tensor ``own`` describes."""
        dtype = str(own.dtype).removeprefix("torch.")
        remote = self.channel.upload(dtype, list(own.shape), order, raw, caller(), make=self._object)
        return RPCTensor._wrap(spec_of(own), remote)  # a part of a larger storage gets its own storage

    def _copied(self, own: torch.Tensor, order: list[int], raw: memoryview) -> RPCTensor:
        """Return a server-side copy of a kept tensor with these bytes; if there is none, send them."""
        if self._quota_errors != self.channel.quota_errors:  # the quota may have refused a kept tensor
            self._quota_errors = self.channel.quota_errors
            self._cache.clear()
        if (tape := self.channel.tape) is not None:
            tape.sends(caller())  # a copy would be recorded as if the values were always the same
        key = UploadCache.key(str(own.dtype), own.shape, own.stride(), raw)
        kept = self._cache.get(key)
        if kept is None:
            kept = self._sent(own, order, raw)
            self._cache.keep(key, kept, len(raw), self.cache_bytes)
        else:
            self._reused += len(raw)
        with torch.no_grad():
            return kept.clone()

    def _anchor(self) -> RPCTensor:
        """Return a handle on a tensor without elements, from which `create` makes others."""
        if self._empty is None:
            self._empty = self._sent(torch.empty(0, device="meta"), [0], memoryview(b""))
        return self._empty

    @property
    def compress(self) -> bool:
        """Whether uploads are compressed if that makes them at least a tenth smaller.

        Replies are never compressed. With compression, an upload's length tells an observer of the network how
        compressible its values are.
        """
        return self.channel.compress

    @compress.setter
    def compress(self, value: bool) -> None:
        if type(value) is not bool:
            raise TypeError(f"compress is a bool, not a value of type {type(value).__name__}")
        self.channel.compress = value

    def _object(self, id_: int) -> RemoteObject:
        return RemoteObject(id_, self, wire.Handle(id_))

    def _constant(self, tensor: torch.Tensor) -> RemoteObject:
        """Upload a plain tensor that an operator takes together with a handle, up to `auto_send_bytes`."""
        if tensor.nbytes > self.auto_send_bytes:
            raise HandleError(
                f"a plain tensor of {tensor.nbytes:,} bytes met a handle; up to {self.auto_send_bytes:,} are sent on their own. "
                "Send it once with session.send(tensor), or raise session.auto_send_bytes"
            )
        return self._upload(tensor.detach())._object

    def missing_operator(
        self, plan: OverloadInfo, needed_by: tuple[str, ...], inner: MissingOperator | None = None
    ) -> MissingOperator:
        """Return the error for an operator that the server lacks; if that is by design, the message says why."""
        if why := torchnp.table.reason(plan.name):
            return MissingOperator(f"{plan.name}: torchnp does not provide it: it {why}")
        if plan.func.namespace not in OWN:
            error = MissingOperator(f"{plan.name} is another library's operator, {self._why_not(plan.func.namespace)}")
            error.reason = "another library's operator"
            return error
        if plan.name in torchnp.table and not wire.can_travel(torchnp.table.schemas[plan.name]):
            error = MissingOperator(
                f"{plan.name} is not sent to a server: its arguments or its results are not all tensors or numbers"
            )
            error.reason = "arguments or results are not all tensors or numbers"
            return error
        return missing_operator(plan, "the server's table has no such row", self.index, needed_by, inner)

    def _why_not(self, library: str) -> str:
        """Say why the server cannot run an operator of another library, and what to do."""
        if library in self._differing:
            return f"and {self.name} has other rows for {library} than this process: install the same packages on both sides"
        instead = (
            "publish() what it takes, call it here and send() what it gives, or write it with torch's own operators"
        )
        if library in self._libraries:
            return f"which has no row, or whose arguments and results are not all tensors of known shapes: {instead}"
        return (
            f"and the server runs only those of {' and '.join(OWN)}: start it with torchnp serve --libraries {library} if "
            f"there are rows for it, or {instead}"
        )

    def dataset(self, name: str) -> RPCTensor:
        """Return a read-only handle on an owner's dataset.

        The exact values of the dataset, and of all that is computed from it, are not published.
        """
        if not isinstance(name, str):
            raise TypeError(f"session.dataset takes the name of a dataset, not {kind_of(name)}")
        if name not in self.datasets:
            raise ValueError(f"{self.name} has no dataset {name!r}; it has {', '.join(self.datasets) or 'none'}")
        shape, dtype = self.datasets[name]
        spec = spec_of(torch.empty(shape, dtype=dtype, device="meta"))
        return RPCTensor._wrap(spec, self.channel.open(name, caller(), make=self._object))

    def program(self, function: Callable[..., Any], key: Callable[[], Hashable] | None = None) -> RemoteProgram:
        """Turn a function on handles into a program, which is sent to the server once and then called by its hash.

        The first calls run the function and record what it sends. Once two consecutive calls were alike, a call is one
        short frame, and the function itself does not run. Instead, the server repeats its operators, with new random
        numbers, and the call returns handles on their results.

        Parameters
        ----------
        function : callable
            Takes handles, numbers and nests of them. It must return or drop every handle that it makes (gradients too:
            call ``optimizer.zero_grad()`` at its end), and neither send nor publish. Its results have no gradient. A
            training step with backward pass and optimizer is such a function.
        key : callable, optional
            Returns, as a hashable value, the state that the function depends on besides its arguments. It is called in
            each call, and each value has its own recording (``key=lambda: scheduler.get_last_lr()[0]``).

        Returns
        -------
        RemoteProgram
            Call it like the function; ``@session.program`` works too. If the calls are not alike, it keeps running the
            function, and a warning says why. Every hundredth call runs the function as a check, and raises
            `HandleError` if the function now sends other operators.
        """
        if not callable(function):
            raise TypeError(f"session.program takes a function, not {kind_of(function)}")
        return RemoteProgram(self, function, key)

    def optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Make an optimizer keep its step counters on the server, as `program` requires; return the optimizer.

        Its parameters must be handles. Adam, AdamW and Adagrad need ``fused=True``: their other forms read the counter
        on the client, and `HandleError` is raised. ``session.publish(optimizer.state_dict())`` includes the counters.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"session.optimizer takes a torch.optim.Optimizer, not {kind_of(optimizer)}")
        keep_counters(self, optimizer)
        return optimizer

    def manual_seed(self, seed: int) -> None:
        """Call ``torch.manual_seed(seed)``, which also seeds operators on handles, in all sessions."""
        try:
            seed = operator.index(seed)
        except TypeError:
            raise TypeError(f"session.manual_seed takes an integer, not {kind_of(seed)}") from None
        torch.manual_seed(seed)

    # ------------------------------------------------------------ from the server

    def sync(self) -> Stats:
        """Wait until the server has done everything; raise the earliest failure that has not been raised yet."""
        status = self.channel.sync()
        self._held = status.objects, status.bytes
        return self.stats

    def raise_earlier_failure(self) -> None:
        """Raise the earliest server failure that has not been raised yet, because torch would have stopped there."""
        if not self.recording.locked():
            with contextlib.suppress(RPCError):  # without a connection only the client's refusal is raised
                self.channel.sync()

    def publish(self, tree: Any, **terms: Any) -> Any:
        """Copy a nest of dicts, lists, tuples and dataclasses, with its handles replaced by their values.

        Everything else stays as it is. ``session.publish(model.state_dict())`` can be saved and loaded anywhere.

        Parameters
        ----------
        tree : nest, or a handle
        **terms
            Terms of a release of an owner's rows, as for `RPCTensor.publish`. They are allowed only for a single
            handle: in a nest, the first releases would already have been paid for when a later one is refused.

        Raises
        ------
        RemoteOpError, PrivacyError
            As in `RPCTensor.publish`, for the first handle that cannot be published.
        """
        if terms and not isinstance(tree, RPCTensor):
            raise TypeError(
                "a release is of one handle, on terms of its own: handle.publish(reduce='sum', clip=, eps=)"
            )
        return mapped(lambda x: x.publish(**terms) if isinstance(x, RPCTensor) else x, tree)

    def quote(self, handle: RPCTensor, **terms: Any) -> Quote:
        """Ask what `RPCTensor.publish` with the same terms would cost; this spends nothing."""
        return self.channel.quote(handle._object.id, terms_of(**terms))

    def wait(self, *handles: RPCTensor) -> None:
        """Wait until the server has computed the handles, without fetching anything.

        Raises
        ------
        RemoteOpError
            An operator failed on which one of them depends; the earliest such failure is raised.
        """
        for handle in handles:
            if not isinstance(handle, RPCTensor) or handle._session is not self:
                raise TypeError(f"session.wait takes handles of this session, not {kind_of(handle)}")
        for start in range(0, len(handles), wire.MAX_ITEMS):
            self.channel.wait([h._object.id for h in handles[start : start + wire.MAX_ITEMS]])

    def _fetch(self, handle: RPCTensor, terms: wire.Terms | None = None) -> torch.Tensor:
        refuse_recording("publish()")
        return _as_tensor(*self.channel.publish(handle._object.id, terms, self._announced(handle, terms)))

    def _fetch_async(self, handle: RPCTensor, terms: wire.Terms | None = None) -> PublishFuture:
        refuse_recording("publish_async()")
        future = PublishFuture()

        def done(value: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(_as_tensor(*value))
            else:
                future.set_exception(error)

        self.channel.publish_async(handle._object.id, terms, self._announced(handle, terms), done)
        return future

    def _announced(self, handle: RPCTensor, terms: wire.Terms | None) -> Announced:
        own = str(handle.dtype).removeprefix("torch.")
        dtypes = (own,) if terms is None or handle.dtype.is_floating_point else ("float64",)
        return Announced(self.name, dtypes, tuple(handle.shape), terms is not None)

    @property
    def deadline(self) -> float | None:
        """Seconds that `publish`, `sync` and `quote` wait for their answer; None means no limit.

        After that time they raise `DeadlineExceeded`, and the session continues. The deadline can be set at any time.
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
        return Stats(
            c.ops_sent, c.round_trips, c.transport.bytes_sent, c.transport.bytes_received, *self._held, self._reused
        )

    @property
    def overloads(self) -> Counter[str]:
        """Operators sent, by full overload name."""
        return Counter({self._names[i]: n for i, n in enumerate(self.calls) if n})

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Leave the server, which forgets the session's objects; handles become unusable.

        Wait until the server has done everything sent, and raise the earliest failure that has not been raised yet. The
        session is closed even if a failure is raised.
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
        """The session's name in messages; it distinguishes several sessions with the same server."""
        return f"session {self.number} with {self.name}"

    def __repr__(self) -> str:
        return f"<torchnp.rpc {self.title}{f' ({self.over})' if self.over else ''}>"


def _as_tensor(dtype: str, shape: list[int], raw: Any) -> torch.Tensor:
    if not raw.size:
        return torch.empty(shape, dtype=getattr(torch, dtype))
    return torch.from_numpy(raw).view(getattr(torch, dtype)).reshape(shape)


def _memory_order(tensor: torch.Tensor) -> tuple[list[int], torch.Tensor]:
    """Return the dimensions from outermost to innermost in memory, and the tensor permuted to that order."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    return order, tensor.permute(order)


def local(
    *,
    datasets: Any = None,
    limits: Limits = Limits(),
    table: Any = None,
    ledger: Any = None,
    libraries: Any = None,
    compress: bool = False,
    cache_bytes: int = 0,
) -> Session:
    """Open a session with a server in this process; frames are encoded and decoded as for a network.

    Parameters
    ----------
    datasets : mapping of str to array, optional
        The owner's arrays, as for `serve`.
    limits : Limits
        The number and size of the objects that the session may hold.
    table : mapping, optional
        Kernels by full overload name, which replace torchnp's table.
    ledger : str or Path, optional
        The ledger of the datasets' privacy budgets.
    libraries : sequence of str, optional
        Other libraries whose operators the server runs, such as ``["torchvision"]``.
    compress, cache_bytes
        As for `connect`.

    Returns
    -------
    Session
        An open session; a context manager that closes itself.
    """
    state = ServerState(table, datasets, None, limits, ledger=ledger, libraries=libraries)
    number = next(_numbers)
    transport = InProcess(Connection(state, f"local session {number}"))
    agreed = None if table is None else state.agreement
    return Session(transport, agreed=agreed, number=number, compress=compress, cache_bytes=cache_bytes)


__all__ = ["Session", "Stats", "local"]
