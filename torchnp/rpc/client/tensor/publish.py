"""Publishing values: `publish`, the terms of a release, and quotes of its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchnp.rpc import wire

if TYPE_CHECKING:
    import torch

    from torchnp.rpc.client.transports.requests import PublishFuture


@dataclass(frozen=True)
class Quote:
    """The cost of a release, and the budget that is left.

    Attributes
    ----------
    dataset : str
        The dataset whose budget pays.
    sigma : float
        Standard deviation of the noise in the result.
    rho, epsilon : float
        The cost of this one release, in zCDP and as an epsilon at ``delta``.
    spent, after : float
        Total epsilon that the client has spent on the dataset, before and after the release. Costs add up as rho, so
        ``after`` is less than ``spent + epsilon``.
    budget : float
        The epsilon that the client may spend.
    delta : float
        The delta at which the epsilons hold.
    releases : int
        Number of such releases that the budget still allows.
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
    """Check the terms and convert them for the wire; raise TypeError or ValueError for invalid terms."""
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
    """Mixin with `publish` and `quote`, for handles whose values can be fetched."""

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
        """Wait for the server and fetch the values as a plain tensor, whose memory belongs to NumPy.

        Values computed from an owner's data are never published exactly, only as noised sums over its rows. The server
        clips each row to a norm, and debits the privacy budget, whatever the values are.

        Parameters
        ----------
        reduce : str, optional
            ``"sum"`` or ``"mean"`` over an owner's rows.
        clip : float, optional
            The L2 norm to which each row is clipped.
        eps : float, optional
            The epsilon that this one release may cost; it determines the noise.
        sigma : float, optional
            Standard deviation of the noise in the result; give it instead of ``eps``.

        Returns
        -------
        Tensor
            The values, in the handle's shape; a release lacks the dimension of the rows.

        Raises
        ------
        RemoteOpError
            An operator failed on which the values depend. The error is also an instance of the kernel's exception
            class.
        PrivacyError
            The values are an owner's data or were computed from it, and these terms do not allow their release.
        BudgetError
            The release would cost more than the remaining budget; nothing was spent.
        """
        handle: Any = self
        if reduce is None and clip is eps is sigma is None:
            return self._session._fetch(handle)
        return self._session._fetch(handle, terms_of(reduce, clip, eps, sigma))

    def publish_async(self, **terms: Any) -> PublishFuture:
        """Ask for the values without waiting for them: ``await handle.publish_async()``, or ``.result(timeout)``.

        Later operators and requests are sent without waiting for the answer. The terms and errors are those of
        `publish`; `Session.deadline` does not end the wait.
        """
        handle: Any = self
        given = any(value is not None for value in terms.values())
        return self._session._fetch_async(handle, terms_of(**terms) if given else None)

    def quote(self, **terms: Any) -> Quote:
        """Ask what `publish` with the same terms would cost; this spends nothing."""
        handle: Any = self
        return self._session.quote(handle, **terms)
