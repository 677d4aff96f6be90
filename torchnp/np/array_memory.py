"""Memory of a `TensorArray`: its flags, and the source of a reversed copy."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torchnp.np.shapes import is_fortran


class Mirror:
    """The source of a copy in reversed order. torch has no negative strides, so writes to the copy are repeated in it.

    Parameters
    ----------
    copy : Tensor
        The copy; views of it share the mirror.
    source : TensorArray
        The array that was indexed.
    index : index
        An index with a negative step.
    """

    def __init__(self, copy: Tensor, source: Any, index: Any) -> None:
        self._copy, self._source, self._index = copy, source, index

    def update(self) -> None:
        """Write the copy's values to the source."""
        self._source[self._index] = type(self._source)(self._copy)


class ArrayFlags:
    """`numpy.ndarray.flags` of a `TensorArray`."""

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def writeable(self) -> bool:
        """Whether the array may be written."""
        return not self._array.readonly

    @writeable.setter
    def writeable(self, value: bool) -> None:
        self._array.readonly = not value

    @property
    def c_contiguous(self) -> bool:
        """Whether rows are contiguous."""
        return self._array.tensor.is_contiguous()

    contiguous = c_contiguous

    @property
    def f_contiguous(self) -> bool:
        """Whether columns are contiguous."""
        tensor = self._array.tensor
        return is_fortran(tensor) or (tensor.dim() < 2 and tensor.is_contiguous())

    fnc = property(lambda self: self.f_contiguous and not self.c_contiguous)
    forc = property(lambda self: self.f_contiguous or self.c_contiguous)
    aligned = owndata = property(lambda self: True)

    def __getitem__(self, name: str) -> bool:
        return bool(getattr(self, name.lower()))
