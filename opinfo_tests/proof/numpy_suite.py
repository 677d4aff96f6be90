"""Runs NumPy's own tests on tensors: the installed test files, with `torchnp.np` instead of the numpy that they import.

Each file of ``numpy/*/tests`` is compiled unchanged, and its import statements return NumPy's functions on tensors.
`numpy.testing` remains NumPy's, and compares values. Many tests are about features that tensors lack (object arrays,
records, subclasses, a given memory layout), so no file is expected to pass completely. The counts are an independent
check.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib.util
import io
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILES = (
    "_core/tests/test_numeric.py", "_core/tests/test_umath.py", "_core/tests/test_ufunc.py", "_core/tests/test_indexing.py",
    "_core/tests/test_function_base.py", "_core/tests/test_shape_base.py", "_core/tests/test_einsum.py",
    "_core/tests/test_item_selection.py", "_core/tests/test_half.py", "lib/tests/test_function_base.py",
    "lib/tests/test_shape_base.py", "lib/tests/test_twodim_base.py", "lib/tests/test_arraysetops.py",
    "lib/tests/test_nanfunctions.py", "lib/tests/test_histograms.py", "lib/tests/test_arraypad.py",
    "lib/tests/test_index_tricks.py", "lib/tests/test_stride_tricks.py", "lib/tests/test_type_check.py",
    "lib/tests/test_ufunclike.py", "lib/tests/test_polynomial.py", "lib/tests/test_packbits.py",
    "linalg/tests/test_linalg.py", "fft/tests/test_pocketfft.py", "fft/tests/test_helper.py",
)  # fmt: skip
# Words in a failure message that name features that tensors lack; tests with these are counted separately.
_BEYOND = (
    "tensors have no dtype", "object", "longdouble", "no attribute '__array_finalize__'", "structured", "datetime", "timedelta",
    "NumPy has no", "not a tensor", "subclass", "MyArray", "masked", "'<U", "'S1'", "clongdouble", "byteorder",
)  # fmt: skip


class TestingOnArrays:
    """`numpy.testing` with comparison functions that accept `TensorArray`."""

    __test__ = False

    def __getattr__(self, name: str) -> Any:
        from torchnp.np.rebind_numpy_functions import computed_by_numpy

        value = getattr(np.testing, name)
        plain = name.startswith(("assert_raises", "assert_warns", "assert_no_warnings")) or not name.startswith(
            "assert"
        )
        return value if plain or isinstance(value, type) else computed_by_numpy(name, value)


def _import(name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
    """Replace ``__import__`` in a test file; modules of NumPy are imported as modules on tensors."""
    from torchnp.np.rebind_numpy_functions import NAMESPACE, rebound_module

    found = builtins.__import__(name, space, local, wanted, level)
    if name.partition(".")[0] != "numpy" or level:
        return found
    if name == "numpy.testing" or (name.startswith("numpy.testing.") and not wanted):
        return TestingOnArrays() if wanted else NAMESPACE
    if not wanted or found is np:
        return NAMESPACE
    if name.startswith(("numpy.lib", "numpy.linalg", "numpy.fft", "numpy._core.numeric", "numpy._core.umath",
                        "numpy._core.fromnumeric", "numpy._core.shape_base", "numpy.exceptions")):  # fmt: skip
        return rebound_module(found, NAMESPACE)
    return found


class _TestFile(pytest.Module):
    """A test file of NumPy whose imports return functions on tensors."""

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(f"numpy_on_tensors_{self.path.stem}")
        module.__file__ = str(self.path)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        sys.modules[module.__name__] = module
        exec(compile(self.path.read_text(encoding="utf-8"), str(self.path), "exec"), vars(module))
        return module


class SuitePlugin:
    """Collects the files as `_TestFile`, and counts results."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failures: list[tuple[str, str]] = []

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> Any:
        """Return a `_TestFile` for a test file."""
        return _TestFile.from_parent(parent, path=module_path)

    def pytest_collectreport(self, report: Any) -> None:
        """Count a file that cannot be imported."""
        if report.failed:
            self.failures.append((report.nodeid, f"not imported: {str(report.longrepr)[-300:]}"))
            self.counts.setdefault(Path(report.nodeid).name, Counter())["not imported"] += 1

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test's outcome."""
        if report.when != "call" and report.passed:
            return
        file = Path(report.nodeid.partition("::")[0]).name
        outcome = report.outcome
        if outcome == "failed":
            words = str(report.longrepr)
            last = words.strip().splitlines()[-1] if words.strip() else ""
            reason = next((line for line in reversed(words.splitlines()) if line.startswith("E  ")), last)
            outcome = "beyond tensors" if any(b in words[-3000:] for b in _BEYOND) else "failed"
            self.failures.append((report.nodeid, f"{outcome}: {reason[:160]}"))
        self.counts.setdefault(file, Counter())[outcome] += 1


def _array_or_numpys(*args: Any, **kwargs: Any) -> Any:
    """Run ``np.array`` on tensors, but use NumPy's own for objects and strings, which test files need at import."""
    from torchnp.np.rebind_numpy_functions import array_function, to_arrays

    try:
        return array_function("array")(*args, **kwargs)
    except TypeError as error:
        if "tensors have no dtype" not in str(error):
            raise
        return np.array(*to_arrays(args), **kwargs)


def run_suite(files: tuple[str, ...] = FILES, select: str = "") -> SuitePlugin:
    """Run NumPy's test files on tensors, in this process, and return the counts."""
    from torchnp.np.rebind_numpy_functions import NAMESPACE

    NAMESPACE.array = _array_or_numpys  # type: ignore[attr-defined]
    root = Path(np.__file__).parent
    plugin = SuitePlugin()
    paths = [str(root / f) for f in files if (root / f).exists()]
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain", "--rootdir", str(root), "-c", "/dev/null", "--noconftest",
               "-W", "ignore", "--tb=short", "-o", "addopts=", "-p", "no:hypothesispytest"]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        pytest.main([*options, *paths, *(["-k", select] if select else [])], plugins=[plugin])
    return plugin


def main(arguments: list[str] | None = None) -> int:
    """Print the counts of each file: passed, failed, beyond tensors (see `_BEYOND`), skipped."""
    parser = argparse.ArgumentParser(prog="python -m opinfo_tests.proof.numpy_suite", description=__doc__)
    parser.add_argument(
        "files", nargs="*", help="such as lib/tests/test_arraypad.py; default: all files about functions of torchnp.np"
    )
    parser.add_argument("-k", dest="select", default="", help="names of tests, as pytest's -k")
    parser.add_argument("--failures", action="store_true", help="list the failures")
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("numpy.lib.tests") is None:
        print("this NumPy was installed without its tests")
        return 1
    plugin = run_suite(tuple(given.files) or FILES, given.select)
    total: Counter[str] = Counter()
    for file, counts in plugin.counts.items():
        total.update(counts)
        print(f"{file}: " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    if given.failures:
        print(*(f"{name}\n    {words}" for name, words in plugin.failures), sep="\n")
    print("all: " + ", ".join(f"{n:,} {k}" for k, n in sorted(total.items())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
