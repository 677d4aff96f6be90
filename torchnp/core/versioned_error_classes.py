"""Errors whose class changed in a version of torch while their message stayed the same.

Kernels raise RuntimeError, the class that all these errors had at first. `of_version` converts an error to the class
that the target version of torch raises. With each version, torch turns errors about dtypes into NotImplementedError or
TypeError for more operators.
"""

from __future__ import annotations

import functools
import re

from torchnp.core.target import Version, current, parse

# The first version that raises another class, that class, and a regular expression for the start of torch's message.
CHANGED: tuple[tuple[str, type[Exception], str], ...] = (
    ("2.14", NotImplementedError, r"(Subtraction|Negation), the `-` operator,"),
    ("2.14", NotImplementedError, r"The `\+` operator, on a bool tensor"),
    ("2.14", NotImplementedError, r"Bool(ean)? inputs not supported for"),
    ("2.14", NotImplementedError, r"(cumulative_)?trapezoid: received a bool input"),
    ("2.14", NotImplementedError, r"cov\(\): bool dtype is not supported"),
    ("2.14", NotImplementedError, r"Unsupported dtype (Half|BFloat16|Float8)"),
    ("2.14", NotImplementedError, r"MKL FFT doesn't support tensors of type"),
    ("2.14", NotImplementedError, r"stft\(.* : expected a tensor of floating point or complex values"),
    ("2.14", TypeError, r"(i?rfftn?|ihfftn?) expects a real(-valued)? input tensor"),
    ("2.14", TypeError, r"Only supports floating-point dtypes, but found"),
    ("2.14", TypeError, r"istft requires a complex-valued input"),
    ("2.14", ValueError, r"linalg\.cond got an invalid norm type"),
    (
        "2.15",
        NotImplementedError,
        r"(torch\.)?linalg\.\w+: (Expected a floating point or complex tensor|(Low|Half) precision dtypes)",
    ),
    ("2.15", NotImplementedError, r"logdet: (Expected a floating point or complex tensor|Low precision dtypes)"),
    ("2.15", NotImplementedError, r"nansum on CPU does not support complex inputs"),
    ("2.15", NotImplementedError, r"nanmean\(\): (integral types|expected input to have floating)"),
    ("2.15", NotImplementedError, r"norm\(\): input dtype should be either floating point or complex"),
    ("2.15", NotImplementedError, r"Unsupported input type encountered for isin\(\)"),
    ("2.15", NotImplementedError, r"Expected both inputs to be Half, Float or Double tensors"),
    ("2.15", NotImplementedError, r"heaviside is not yet implemented for complex"),
    ("2.15", NotImplementedError, r"torch\.gradient does not support uint8"),
    ("2.15", NotImplementedError, r"mean\(\): could not infer output dtype"),
    ("2.15", NotImplementedError, r"linalg\.vander supports floating point"),
    ("2.15", NotImplementedError, r"(deg2rad|rad2deg) is not supported for complex"),
    ("2.15", NotImplementedError, r"arg(max|min)\(\): does not support bool"),
    ("2.15", NotImplementedError, r"(topk|sort) does not support bool dtypes"),
    ("2.15", NotImplementedError, r"view_as_complex is only supported for"),
    ("2.15", NotImplementedError, r"(std|var|std_mean|var_mean|std and var) only supports? floating point"),
    ("2.15", TypeError, r"(minimum|maximum|fmin|fmax|aminmax) not implemented for"),
    ("2.15", TypeError, r"view_as_real is only supported for complex tensors"),
    ("2.15", TypeError, r"imag is not implemented for tensors with non-complex"),
    ("2.15", TypeError, r" (Sort|topk) does not support complex dtypes"),
    ("2.15", TypeError, r"is(neg|pos)inf does not support complex"),
    ("2.15", TypeError, r"(arg)?(max|min)\(\): does not support complex input"),
)


@functools.cache
def _patterns(version: Version) -> tuple[tuple[type[Exception], re.Pattern[str]], ...]:
    found: dict[type[Exception], list[str]] = {}
    for since, cls, words in CHANGED:
        if parse(since) <= version:
            found.setdefault(cls, []).append(f"(?:{words})")
    return tuple((cls, re.compile("|".join(words))) for cls, words in found.items())


def of_version(error: BaseException | None) -> Exception | None:
    """Return the error in the class that the target version of torch raises; None if the class stays the same."""
    if type(error) is not RuntimeError:
        return None
    words = str(error)
    return next((cls(words) for cls, pattern in _patterns(current()) if pattern.match(words)), None)
