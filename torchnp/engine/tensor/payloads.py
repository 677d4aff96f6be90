"""References from handles to an engine's payloads. If a payload is replaced, its views are updated when read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class PayloadRef:
    """The reference that handles on the same memory share. It has the engine's payload, which stands for the values.

    Attributes
    ----------
    session : Engine
    version : int
        The number of writes so far, through this reference and its views.
    """

    __slots__ = ("_payload", "session", "version")

    def __init__(self, payload: Any, session: Any) -> None:
        self._payload, self.session, self.version = payload, session, 0

    @property
    def wire(self) -> PayloadRef:
        return self

    @property
    def root(self) -> PayloadRef:
        """The reference to the memory of which this is a part: this reference itself."""
        return self

    def read(self) -> Any:
        """Return the payload."""
        return self._payload

    def write(self, payload: Any) -> None:
        """Replace the payload."""
        self._payload = payload
        self.version += 1


class ViewRef(PayloadRef):
    """A view of another reference, with its own payload.

    Parameters
    ----------
    payload : object
        The current payload of the view.
    base : handle
        A handle on the viewed memory.
    replay : callable
        Makes a new payload of the view from ``base``.
    scatter : callable
        Takes a payload of the view, and returns a payload of ``base`` with these values at the view's elements; raises
        an error if that is impossible.
    same_values : bool
        Whether the view has values of its base, and not their conjugates or negatives.
    """

    __slots__ = ("_base", "_replay", "_same_values", "_scatter")

    def __init__(
        self,
        payload: Any,
        base: Any,
        replay: Callable[[Any], Any],
        scatter: Callable[[Any, Any], Any],
        same_values: bool = True,
    ) -> None:
        super().__init__(payload, base._session)
        self._base, self._replay, self._scatter, self._same_values = base, replay, scatter, same_values
        self.version = self.root.version

    def memory(self) -> Any:
        """Return a handle on the memory of which this view is a part.

        Return None for a conjugate or negative view, and for views of such a view.
        """
        inner = self._base._object
        found = inner.memory() if isinstance(inner, ViewRef) else self._base
        return found if self._same_values else None

    @property
    def root(self) -> PayloadRef:
        """The reference to the memory of which this is a part."""
        return self._base._object.root

    def read(self) -> Any:
        """Return the payload; make it again from the base if that has been written since."""
        if self.version != self.root.version:
            self._payload = self._replay(self._base)
            self.version = self.root.version
        return self._payload

    def write(self, payload: Any) -> None:
        """Replace the payload, and also the part of the base that this reference views."""
        self._base._object.write(self._scatter(self._base, payload))
        self._payload, self.version = payload, self.root.version
