"""torch's error messages, each defined once. The functions return an exception, which the caller raises.

A message of one kernel is in that kernel's module; messages of three or more kernels are here. The tests compare each
message with torch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchnp.dtypes import c_name, scalar_name

Shape = Sequence[int]

# The exceptions that a kernel raises for arguments that it does not support.
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class MissingKernelError(RuntimeError):
    """Raised when an operator has no kernel: in the table, under `NumpyMode`, on the device or on a server.

    `torchnp.table` raises a subclass that is also a KeyError. A remote tensor raises one that is also a
    NotImplementedError.
    """


def shape_text(shape: Shape) -> str:
    """Return a shape as torch prints it: ``[2, 3]``."""
    return f"[{', '.join(map(str, shape))}]"


# ---------------------------------------------------------------- dtypes


def not_implemented(kernel: str, dtype: np.dtype) -> NotImplementedError:
    """Return the error for a dtype that a torch kernel does not support: ``"ceil" not implemented for 'Bool'``."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(dtype)}'")


def overflow(target: str) -> RuntimeError:
    """Return the error for a number beyond the range of a C++ type; ``target`` is the type's spelling."""
    return RuntimeError(f"value cannot be converted to type {target} without overflow")


def cannot_cast(result: np.dtype, target: np.dtype, spell: Callable[[np.dtype], str] = scalar_name) -> RuntimeError:
    """Return the error for a result that is written into a tensor whose dtype cannot hold it."""
    return RuntimeError(f"result type {scalar_name(result)} can't be cast to the desired output type {spell(target)}")


def out_dtype(expected: np.dtype, found: np.dtype) -> RuntimeError:
    """Return the error for an ``out=`` whose dtype is not the result's, or not the requested one."""
    return RuntimeError(f"Expected out tensor to have dtype {c_name(expected)}, but got {c_name(found)} instead")


def expected_type(expected: np.dtype, found: np.dtype) -> RuntimeError:
    """Return the error for an operand without the dtype that a kernel requires."""
    return RuntimeError(f"expected scalar type {scalar_name(expected)} but found {scalar_name(found)}")


def found_dtype(found: np.dtype, expected: np.dtype) -> RuntimeError:
    """Return the error for a tensor whose dtype differs from the other tensors' in an op that does not promote."""
    return RuntimeError(f"Found dtype {scalar_name(found)} but expected {scalar_name(expected)}")


def mean_of(dtype: np.dtype) -> RuntimeError:
    """Return the error for the mean of integers, which an integer dtype cannot hold."""
    return RuntimeError(
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
        f"Got: {scalar_name(dtype)}"
    )


def dense_dtype(dtype: np.dtype) -> RuntimeError:
    """Return the error for a dtype that oneDNN does not support."""
    words = "itensor_view_from_dense expects float/bfloat16/half/int8/fp8 tensor input"
    return RuntimeError(words + scalar_name(dtype))


def complex_clamp() -> NotImplementedError:
    return NotImplementedError("clamp is not supported for complex types")


# ---------------------------------------------------------------- shapes


def size_mismatch(a: int, b: int, dim: int) -> RuntimeError:
    """Return the error for two tensors that do not broadcast."""
    return RuntimeError(
        f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {dim}"
    )


def expand_mismatch(wanted: int, own: int, dim: int, target: Shape, shape: Shape) -> RuntimeError:
    """Return the error for a tensor of ``shape`` that does not expand to ``target``, in dimension ``dim``."""
    return RuntimeError(
        f"The expanded size of the tensor ({wanted}) must match the existing size ({own}) at non-singleton dimension "
        f"{dim}.  Target sizes: {shape_text(target)}.  Tensor sizes: {shape_text(shape)}"
    )


# Dtypes that have a tensor type of their own in torch's legacy API; ``expand`` prints its name.
_LEGACY = frozenset({"Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"})


def tensor_type(dtype: np.dtype) -> str:
    """Return a tensor's type as torch prints it in messages that spell out the whole call."""
    name = scalar_name(dtype)
    return f"torch.{name}Tensor" if name in _LEGACY else f"CPU{name}Type"


def too_few_sizes(dtype: np.dtype, shape: Shape, target: Shape) -> RuntimeError:
    """Return the error for expanding a tensor to fewer dimensions than it has."""
    return RuntimeError(
        f"expand({tensor_type(dtype)}{{{shape_text(shape)}}}, size={shape_text(target)}): the number of sizes provided "
        f"({len(target)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
    )


def output_shape(target: Shape, result: Shape) -> RuntimeError:
    """Return the error for an in-place op whose result has another shape than its target."""
    return RuntimeError(
        f"output with shape {shape_text(target)} doesn't match the broadcast shape {shape_text(result)}"
    )


def negative_size(size: int, shape: Shape) -> RuntimeError:
    return RuntimeError(f"Trying to create tensor with negative dimension {size}: {shape_text(shape)}")


def invalid_view(shape: Shape, numel: int) -> RuntimeError:
    """Return the error for a reshape to another number of elements."""
    return RuntimeError(f"shape '{shape_text(shape)}' is invalid for input of size {numel}")


def ambiguous_view(shape: Shape) -> RuntimeError:
    """Return the error for a reshape of an empty tensor in which a size of -1 is ambiguous."""
    return RuntimeError(
        f"cannot reshape tensor of 0 elements into shape {shape_text(shape)} because the unspecified dimension size "
        "-1 can be any value and is ambiguous"
    )


def batch2_mismatch(batch: int, rows: int, found: Shape) -> RuntimeError:
    """Return the error for a batched product whose second operand does not match the first one's sizes."""
    return RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {rows}] but got: "
        f"[{found[0]}, {found[1]}]."
    )


# ---------------------------------------------------------------- dimensions, indices, lists


def dim_out_of_range(dim: int, ndim: int) -> IndexError:
    """Return the error for a dimension that is out of range; a 0-d tensor has the dimensions 0 and -1."""
    span = ndim or 1
    return IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})")


def no_dimensions(dim: int) -> IndexError:
    """Return the error for asking a 0-d tensor for the size of a dimension."""
    return IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


def index_out_of_range() -> IndexError:
    return IndexError("index out of range in self")


def empty_list() -> RuntimeError:
    return RuntimeError("Tensor list must have at least one tensor.")


# ---------------------------------------------------------------- messages of a few families


def multi_target() -> RuntimeError:
    return RuntimeError("0D or 1D target tensor expected, multi-target not supported")


def unknown_reduction(reduce: Any) -> RuntimeError:
    return RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")


def expected_true(condition: str) -> RuntimeError:
    """Return torch's error for a failed internal check; ``condition`` is the C++ expression."""
    improve = "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    return RuntimeError(f"Expected {condition} to be true, but got false.  {improve}")


# ---------------------------------------------------------------- linear algebra

# Why an algorithm failed, by a word in the algorithm's name; ``{0}`` stands for LAPACK's error code.
ALGORITHM_FAILED = {
    "inv": "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading minor of "
    "order {0} is not positive-definite).",
    "eig": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
    "eigenvalues (error code: {0}).",
    "svd": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular "
    "values (error code: {0}).",
    "lstsq": "The least squares solution could not be computed because the input matrix does not have full rank (error "
    "code: {0}).",
    "lu_factor": "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to "
    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
}
NOT_FINITE = "The algorithm failed to converge because the input matrix contained non-finite values."
INTERNAL_ASSERT = "false INTERNAL ASSERT FAILED, please report a bug to PyTorch."


# ---------------------------------------------------------------- convolutions

AXES = ("depth", "height", "width")
EMPTY_FILTER = (
    "non-empty 5D (n_output_plane x n_input_plane x kernel_depth x kernel_height x kernel_width) tensor expected for "
    "weight, but got:"
)


def by(sizes: Shape) -> str:
    """Return sizes as torch prints them in messages about convolutions: ``2 x 3``."""
    return " x ".join(map(str, sizes))


def conv_misfit(
    input: Shape, weight: Shape, bias: Shape | None, transposed: bool, groups: int, channels: int, outputs: int
) -> RuntimeError:
    """Return the error for convolution arguments whose shapes do not match."""
    shape, of_input = shape_text(weight), shape_text(input)
    wanted, found = f"expected weight to be divisible by {groups} at dimension 0", f"weight of size [{shape}] instead"
    given = f"Given groups={groups}"
    if len(weight) != len(input):
        given = f"Expected {len(weight)}-dimensional input for {len(weight)}-dimensional weight {shape}"
        return RuntimeError(f"{given}, but got {len(input)}-dimensional input of size {of_input} instead")
    if weight[0] < groups:
        wanted, found = f"expected weight to be at least {groups} at dimension 0", f"weight of size {shape} instead"
    elif not weight[0] % groups and input[1] != channels:
        given = f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size {shape}"
        wanted, found = f"expected input{of_input} to have {channels} channels", f"{input[1]} channels instead"
    elif not weight[0] % groups:
        given = f"Given {'transposed=1, ' * transposed}weight of size {shape}"
        wanted = f"expected bias to be 1-dimensional with {outputs} elements"
        found = f"bias of size {shape_text(bias or ())} instead"
    return RuntimeError(f"{given}, {wanted}, but got {found}")


def no_filter(sizes: Shape, weight: Shape, transposed: bool, dilated: bool) -> RuntimeError:
    """Return the error of torch's backend for a filter without elements."""
    words = "kernel size should be greater than zero, but got"
    if not transposed and dilated:
        return RuntimeError(f"{words} {shape_text(sizes)}")
    if len(sizes) == 2:
        return RuntimeError(f"{words} kernel_height: {sizes[0]} kernel_width: {sizes[1]}")
    if transposed:
        return RuntimeError(f"{EMPTY_FILTER} {shape_text(weight)}")
    return RuntimeError(f"{words}: {by(sizes)} (TxHxW)")


def no_channels(weight: Shape) -> RuntimeError:
    """Return the error of torch's native backend for a transposed convolution whose weight has no output channels."""
    if len(weight) == 5:
        return RuntimeError(f"{EMPTY_FILTER} {shape_text(weight)}")
    seen = weight if len(weight) == 4 else (*weight[:2], 1, *weight[2:])
    return RuntimeError(f"non-empty 2D or 4D weight tensor expected, but got: {shape_text(seen)}")


def small_output(sizes: Shape, out: Shape) -> RuntimeError:
    """Return the error for a transposed convolution whose result is empty."""
    words = f"Given input size per channel: ({by(sizes)}). Calculated output size per channel: ({by(out)})."
    return RuntimeError(f"{words} Output size is too small")


def no_primitive(name: str, kind: str = " forward propagation") -> RuntimeError:
    """Return the error for sizes of a convolution or a product that oneDNN does not support."""
    return RuntimeError(
        f"could not create a primitive descriptor for the {name}{kind} primitive. Run workload with "
        "environment variable ONEDNN_VERBOSE=all to get additional diagnostic information."
    )
