"""Thresholds: each size at which a kernel switches to another code path is a constant that the conformance tests
find."""

import ast
import inspect

import torchnp
from torchnp.thresholds import modules, thresholds

SIZES = {"size", "nbytes", "shape", "len", "prod", "rows", "columns", "width", "length", "count", "elements", "terms"}
LEAST, MOST = 8, 1 << 31  # smaller numbers count dimensions; no array here has more elements than MOST
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# Comparisons of sizes with numbers that are no thresholds, by what they check.
OTHERS = {
    "b.size >= int(10 * a.size ** 0.145)": "torch's own rule of isin, drawn on both sides by its samples",
    "rows.shape[-1] <= 2 ** 24": "quantile refuses more",
    "_largest(y) * _largest(w) * math.prod(kernel) * (o // groups) < 65504": "whether float16 overflows",
    "math.prod(w.sizes) >= 1 << 8 * x.itemsize - 1": "whether an index fits in the dtype",
    "16 * dtype.itemsize + terms.bit_length() <= _EXACT_BITS": "whether float64 holds a sum",
    "count * small >= 10": "the mean of a binomial distribution",
    "size <= 8": "values of a Bessel function",
    "state.shape[1] >= _BITS": "whether a state of Sobol's generator is whole",
    "count >= 2 ** 28": "sobol refuses more",
}


def number(node, constants=()):
    """Return the value of a constant integer expression, or None."""
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, dict(constants))
    except (NameError, TypeError, AttributeError, ValueError, SyntaxError):
        return None
    return value if type(value) is int else None


def numbers_of(tree):
    """Return a module's integer constants that are no thresholds."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            names, values = node.targets[0], node.value
            pairs = (
                zip(names.elts, values.elts)
                if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple)
                else [(names, values)]
            )
            found |= {n.id: number(v) for n, v in pairs if isinstance(n, ast.Name) and number(v) is not None}
    return found


def numbers_in(node, constants):
    """Yield the values of the largest constant parts of an expression."""
    value = number(node, constants) if isinstance(node, ast.expr) else None
    if value is not None:
        yield value
    else:
        for inner in ast.iter_child_nodes(node):
            yield from numbers_in(inner, constants)


def names_in(node):
    return {
        x.attr if isinstance(x, ast.Attribute) else x.id
        for x in ast.walk(node)
        if isinstance(x, ast.Attribute | ast.Name)
    }


def unnamed(tree):
    """Yield a module's comparisons of a size with a number that is no threshold."""
    constants = numbers_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and all(isinstance(op, ORDERED) for op in node.ops):
            sides = [node.left, *node.comparators]
            found = [n for side in sides for n in numbers_in(side, constants)]
            if any(names_in(side) & SIZES for side in sides) and any(LEAST <= n < MOST for n in found):
                yield ast.unparse(node)


def test_sizes_are_compared_with_thresholds():
    found = {f"{m.__name__}: {text}" for m in modules() for text in unnamed(ast.parse(inspect.getsource(m)))}
    assert {f for f in found if f.partition(": ")[2] not in OTHERS} == set()
    assert set(OTHERS) == {f.partition(": ")[2] for f in found}


def test_what_the_rule_finds():
    program = "_FEW = 1 << 4\nMANY: Threshold = 99\ndef f(x, n):\n    {}"
    for text in ("x.size > 64", "64 < len(x)", "x.shape[0] <= _FEW", "math.prod(x.shape) >= 2 * _FEW"):
        assert [*unnamed(ast.parse(program.format(text)))] == [text]
    for text in ("x.size > MANY", "n > 64", "x.ndim < 16", "len(x) == 4", "x.size >= 2**40"):
        assert not [*unnamed(ast.parse(program.format(text)))]


def test_thresholds_are_found_with_their_values():
    found = thresholds()
    assert len(found) > 40 and all(type(n) is int and n > 0 for n in found.values())
    assert found["torchnp.threads", "LARGE"] == torchnp.threads.LARGE
