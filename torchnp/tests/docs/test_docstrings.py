"""Every public name has a numpydoc docstring with its parameters, results and errors."""

import importlib
import inspect
import re

import pytest

EMPTY = inspect.Signature.empty
PUBLIC = ("torchnp", "torchnp.compiler", "torchnp.interop", "torchnp.rpc", "opinfo_tests")


def names():
    for package in PUBLIC:
        module = importlib.import_module(package)
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found) or (inspect.isclass(found) and not issubclass(found, Exception)):
                yield pytest.param(found, id=f"{package}.{name}")


def sections(doc):
    """Return the sections of a numpydoc text by title, each as the list of the names that it explains."""
    lines = inspect.cleandoc(doc).splitlines()
    found = {"": lines}
    for i, line in enumerate(lines[:-1]):
        if line and re.fullmatch("-{3,}", lines[i + 1]):
            found[line] = []
            title = line
        elif len(found) > 1 and line and not line.startswith((" ", "-")) and i:
            found[title] += [n.strip(" *") for n in line.partition(" :")[0].split(",")]
    return found


def parameters(found):
    given = found.__init__ if inspect.isclass(found) else found
    if not inspect.isfunction(given):
        return []
    return [n for n in inspect.signature(given).parameters if n != "self" and not n.startswith("_")]


def source_of(found):
    given = vars(found).get("__post_init__", found.__init__) if inspect.isclass(found) else found
    # A dataclass generates its own methods.
    written = inspect.isfunction(given) and not given.__code__.co_filename.startswith("<")
    return inspect.getsource(given) if written else ""


@pytest.mark.parametrize("found", names())
def test_public_names_are_explained(found):
    """Return what is missing in the docstring of a function or class: parameters, results or errors."""
    explained, takes = sections(inspect.getdoc(found) or ""), parameters(found)
    known = [*explained.get("Parameters", ()), *explained.get("Attributes", ())]
    assert [n for n in takes if n not in known] == [], "arguments without a word"
    assert [n for n in explained.get("Parameters", ()) if n not in takes] == [], "words without an argument"
    if inspect.isfunction(found) and inspect.signature(found).return_annotation not in (None, "None", EMPTY):
        assert "Returns" in explained, "no word on what it returns"
    if re.search(r"^\s+raise \w", source_of(found), re.MULTILINE):
        assert "Raises" in explained, "no word on what it raises"


@pytest.mark.parametrize("cls", [n for n in names() if inspect.isclass(n.values[0])])
def test_public_methods_have_a_docstring(cls):
    methods = {n: m for n, m in vars(cls).items() if inspect.isfunction(m) and not n.startswith("_")}
    assert [n for n in methods if not inspect.getdoc(getattr(cls, n))] == []


def test_a_missing_word_is_noticed():
    def scaled(x, factor):
        """Return more.

        Parameters
        ----------
        x : ndarray
            The values.
        """
        raise ValueError(x * factor)

    with pytest.raises(AssertionError, match="arguments without a word"):
        test_public_names_are_explained(scaled)
    scaled.__doc__ = scaled.__doc__.replace("x :", "x, factor :")
    with pytest.raises(AssertionError, match="what it raises"):
        test_public_names_are_explained(scaled)
