"""How values come back: `publish`, the terms of a release, and what a server answers about its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchnp.rpc import wire

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Quote:
    """What a release would cost, and what is left.

    Attributes
    ----------
    dataset : str
        Whose budget pays.
    sigma : float
        Standard deviation of the noise in the result.
    rho, epsilon : float
        The cost of the release alone, as zCDP and at ``delta``.
    spent, after : float
        Epsilon of all that the client has spent of the dataset, now and after the release. Costs add up as rho, so the
        second is less than the sum of the first and ``epsilon``.
    budget : float
        The epsilon that the client may spend.
    delta : float
        At which the epsilons hold.
    releases : int
        How many like this one are left.
    """

    dataset: str
    sigma: float
    rho: float
    epsilon: float
    spent: float
    after: float
    budget: float
    delta: float
    releases: int


def terms_of(
    reduce: str | None = None, clip: float | None = None, eps: float | None = None, sigma: float | None = None
) -> wire.Terms:
    """The terms as the wire has them; TypeError or ValueError for what no server can mean."""
    if reduce is None or clip is None or (eps is None) == (sigma is None):
        raise TypeError(
            "a release takes reduce='sum' or 'mean', clip=, and one of eps= and sigma=: "
            "publish(reduce='sum', clip=1.0, eps=0.1)"
        )
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce is 'sum' or 'mean', not {reduce!r}")
    numbers = {"clip": clip, "eps": eps, "sigma": sigma}
    for name, value in numbers.items():
        if value is not None and not 0 < float(value) < float("inf"):
            raise ValueError(f"{name} is a finite number above 0, not {value!r}")
    return wire.Terms(reduce, float(clip), None if sigma is None else float(sigma), None if eps is None else float(eps))


class Published:
    """What gives the values of a handle."""

    __slots__ = ()

    _session: Any

    def publish(
        self,
        *,
        reduce: str | None = None,
        clip: float | None = None,
        eps: float | None = None,
        sigma: float | None = None,
    ) -> torch.Tensor:
        """The values, as a plain tensor over NumPy's memory; waits for the server.

        Of what was computed from an owner's data there are no exact values, only noised sums over its rows: each row is
        clipped to a norm on the server, and the privacy budget is debited, whatever the values are.

        Parameters
        ----------
        reduce : str, optional
            ``"sum"`` or ``"mean"`` over an owner's rows.
        clip : float, optional
            The L2 norm that each row is clipped to.
        eps : float, optional
            What this release alone may cost; the noise follows from it.
        sigma : float, optional
            Standard deviation of the noise in the result, in place of ``eps``.

        Returns
        -------
        Tensor
            Of the handle's shape; of a release, without the dimension that indexes the rows.

        Raises
        ------
        RemoteOpError
            An operator on the way failed; also an instance of the kernel's exception class.
        PrivacyError
            The values are an owner's data or were computed from it, and cannot be released so.
        BudgetError
            The release would cost more than what is left; nothing was spent.
        """
        handle: Any = self
        if reduce is None and clip is eps is sigma is None:
            return self._session._publish(handle)
        return self._session._publish(handle, terms_of(reduce, clip, eps, sigma))

    def quote(self, **terms: Any) -> Quote:
        """What `publish` with the same terms would cost; spends nothing."""
        handle: Any = self
        return self._session.quote(handle, **terms)
