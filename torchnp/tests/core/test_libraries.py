"""Other libraries' operators, declared by `torchnp.kernel` or by a package's entry point.

Each case runs in its own process, because declarations stay.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import torchnp
from torchnp.tests.rpc import server_pool

ROWS = '''
import numpy as np
import torchnp

@torchnp.kernel("mylib::scale", schema="""
    scale(Tensor self, Scalar factor=2) -> Tensor
    scale_(Tensor(a!) self, Scalar factor=2) -> Tensor(a!)
    scale.out(Tensor self, Scalar factor=2, *, Tensor(a!) out) -> Tensor(a!)
""")
def scale(self, factor=2):
    """x times a number."""
    return self * np.asarray(factor, self.dtype)
'''
TORCHS = """
import torch
library = torch.library.Library("mylib", "DEF")
library.define("scale(Tensor self, Scalar factor=2) -> Tensor")
library.define("scale_(Tensor(a!) self, Scalar factor=2) -> Tensor(a!)")
library.define("scale.out(Tensor self, Scalar factor=2, *, Tensor(a!) out) -> Tensor(a!)")
library.impl("scale", lambda x, factor=2: torch.empty_like(x), "Meta")
"""


def run(code, *paths):
    here = Path(torchnp.__file__).parent.parent
    path = os.pathsep.join(map(str, (*paths, here)))
    asked = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(asked, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def package(tmp_path):
    """An installed package that has rows of ``mylib``."""
    (tmp_path / "mylib_rows.py").write_text("print('imported')\n" + ROWS)
    info = tmp_path / "mylib_rows-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib-rows\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchnp.kernels]\nmylib = mylib_rows\nbroken = mylib_broken\nempty = json\n"
    )
    (tmp_path / "mylib_broken.py").write_text(ROWS.replace("mylib", "broken") + "raise ValueError('half-way')\n")
    return tmp_path


def test_forms_are_derived_and_counted():
    run(
        ROWS
        + """
x, table = np.ones(2, np.float32), torchnp.table
assert torchnp.mylib.scale(x).tolist() == [2, 2]
assert torchnp.mylib.scale_(x, 3) is x and x.tolist() == [3, 3]
out = np.empty(0, np.float32)
assert table["mylib::scale.out"](x, out=out) is out and out.tolist() == [6, 6]
assert [table.status(f"mylib::scale{s}") for s in ("", "_", ".out")] == ["kernel", "derived", "derived"]
assert sum(table.counts().values()) == len(table.schemas) and table.schemas["mylib::scale_"].mutates
assert table.find("mylib.scale") == ["mylib::scale", "mylib::scale.out"]
import pickle
assert pickle.loads(pickle.dumps(torchnp.mylib.scale)) is torchnp.mylib.scale
assert pickle.loads(pickle.dumps(table["mylib::scale_"])) is table["mylib::scale_"]
"""
    )


def test_a_package_is_imported_when_its_namespace_is_met(package):
    said = run(
        """
        import torchnp, numpy as np
        torchnp.table["aten::add.Tensor"], torchnp.table.get("other::op")
        print("before")
        print(torchnp.mylib.scale(np.ones(1)), "mylib::scale_" in torchnp.table)
        """,
        package,
    )
    assert said.split("\n")[:3] == ["before", "imported", "[2.] True"]


def test_a_package_that_fails_leaves_nothing(package):
    said = run(
        """
        import torchnp
        for name in ("broken::scale", "broken::scale", "empty::scale"):
            try:
                torchnp.table[name]
            except ImportError as error:
                print(error)
        assert "broken::scale" not in torchnp.table.schemas
        """,
        package,
    )
    broken, again, empty = said.splitlines()
    assert broken == again and "mylib-rows" in broken and broken.endswith("half-way")
    assert empty.endswith("the module has declared none by @torchnp.kernel")


def asked(package, *arguments, status=0):
    """Return a command's output (both streams) in an environment where the package is installed."""
    path = os.pathsep.join((str(package), str(Path(torchnp.__file__).parent.parent)))
    command = [sys.executable, "-m", "torchnp", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_the_lists_have_an_installed_package_s_operators(package):
    out, err = asked(package, "ops", "mylib::*")
    said, *rows, _, sums = out.splitlines()
    assert said == "imported" and err == "" and sums == "3 overloads: 1 kernel, 2 derived"
    assert [row.split()[:3] for row in rows[1:]] == [
        ["mylib::scale", "kernel", "mylib_rows"],
        ["mylib::scale_", "derived", "mylib_rows"],
        ["mylib::scale.out", "derived", "mylib_rows"],
    ]
    out, err = asked(package, "ops", "*", "--names")
    assert {"aten::add.Tensor", "prims::add", "mylib::scale_"} <= {*out.splitlines()}
    assert err.count("cannot be loaded: half-way") == 1 and "broken::" not in out
    assert asked(package, "ops", "relu", "--names")[0].splitlines()[-1] == "aten::relu.out"


@pytest.mark.parametrize("name", ["mylib::scale", "torch.ops.mylib.scale", "mylib.scale", "scale"])
def test_a_library_s_operator_is_explained(package, name):
    said = asked(package, "explain", name)[0]
    assert "x times a number." in said and "mylib::scale(Tensor self, Scalar factor=2) -> Tensor" in said
    assert "kernel in mylib_rows" in said and "written into out=: mylib::scale.out" in said


def test_what_a_library_lacks_is_told(package):
    assert "derived from mylib::scale (in-place)" in asked(package, "explain", "mylib::scale_")[0]
    assert "no name 'mylib::scal' is known" in asked(package, "explain", "mylib::scal", status=2)[1]
    assert "cannot be loaded: half-way" in asked(package, "explain", "broken::scale", status=2)[1]


def test_every_form_of_running(package, tmp_path):
    run(
        TORCHS
        + f"""
import numpy as np, torchnp, torchnp.device
from torchnp.interop import NumpyMode
op, x = torch.ops.mylib, torch.ones(2)
y = torch.ones(2, device="np")  # the first to meet the namespace
assert op.scale(y).cpu().tolist() == [2, 2] and op.scale_(y, 3) is y and y.cpu().tolist() == [3, 3]
with NumpyMode() as mode:
    assert op.scale(x).tolist() == [2, 2] and op.scale.out(x, 5, out=torch.empty(2)).tolist() == [5, 5]
assert mode.calls["mylib::scale"] == 1
assert torch.compile(lambda x: op.scale(x) + 1, backend="torchnp")(x).tolist() == [3, 3]

class Model(torch.nn.Module):
    def forward(self, x):
        return op.scale(x, 4) + 1

torch.export.save(torch.export.export(Model(), (x,)), {str(tmp_path / "m.pt2")!r})
""",
        package,
    )
    said = run(
        f"""
        import sys, numpy as np, torchnp
        program = torchnp.load({str(tmp_path / "m.pt2")!r})
        print(program(np.ones(2, np.float32)), [r.status for r in program.requires()], "torch" in sys.modules)
        """,
        package,
    )
    assert said == "imported\n[5. 5.] ['kernel', 'kernel'] False\n"


def test_schemas_come_from_the_registration():
    run(
        TORCHS
        + """
import numpy as np, torchnp

@torchnp.kernel("mylib::scale")
def scale(self, factor=2):
    return self * np.asarray(factor, self.dtype)

assert torchnp.mylib.scale.overloads() == ["default", "out"] and torchnp.mylib.scale_(np.ones(1)).tolist() == [2]
try:
    torchnp.kernel("mylib::scale", schema="scale(Tensor self, Scalar factor=3) -> Tensor")
except ValueError as error:
    assert "is not what torch has" in str(error)
else:
    raise AssertionError
"""
    )


@pytest.mark.parametrize(
    ("names", "schema", "words"),
    [
        (["mylib::scale"], "scale(Tensor self, Scalar factor) -> Tensor", "factor has no default in the schema"),
        (["mylib::scale"], "scale(Tensor self, Scalar factor=3) -> Tensor", "the default 2, and 3 in the schema"),
        (["mylib::scale"], "scale(Tensor self, *, Scalar factor=2) -> Tensor", "given by keyword alone"),
        (["mylib::scale"], "scale(Tensor self) -> Tensor", "takes \\(self, factor\\), and the schema \\(self\\)"),
        (["mylib::scale"], "scale(Tenzor self, Scalar factor=2) -> Tensor", "'Tenzor'"),
        (["mylib::scale"], "scale(Tensor self, Scalar factor=2)", "is no schema"),
        (["mylib::scale"], "other::scale(Tensor self) -> Tensor", "another namespace than 'mylib'"),
        (["mylib::scale"], "other(Tensor self) -> Tensor", "none of the schemas given is of mylib::scale"),
        (["mylib::scale", "other::scale"], "scale(Tensor self) -> Tensor", "two namespaces"),
        (["aten::scale"], "scale(Tensor self) -> Tensor", "itself"),
        (["scale"], "scale(Tensor self) -> Tensor", "no full name"),
        (["mylib::scale.default"], "scale(Tensor self) -> Tensor", "the default overload is 'mylib::scale'"),
        (["mylib_unknown_to_torch::scale"], "", "has no schema: give it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(names, schema, words):
    def scale(self, factor=2):
        raise AssertionError

    with pytest.raises(ValueError, match=words):
        torchnp.kernel(*names, schema=schema)(scale)
    assert not [n for n in torchnp.table.schemas if n.startswith("mylib")]


def test_twice_is_refused_and_unknown_spaces_are_named():
    said = run(
        ROWS
        + """
for act in (
    lambda: torchnp.kernel("mylib::scale", schema="scale(Tensor self, Scalar factor=2) -> Tensor")(scale),
    lambda: torchnp.table["nolib::op"],
    lambda: torchnp.table["mylib::scal"],
    lambda: torchnp.nolib,
):
    try:
        act()
    except (ValueError, LookupError, AttributeError) as error:
        print(error)
"""
    )
    twice, space, near, attribute = said.splitlines()
    assert "mylib::scale is declared twice" in twice
    assert "no rows of the namespace 'nolib'; there are those of aten, mylib, prims" in space
    assert near.endswith("Nearest rows: mylib::scale, mylib::scale.out, mylib::scale_")
    assert attribute == "module 'torchnp' has no attribute 'nolib'"


def test_a_server_without_the_library_goes_on_serving():
    with server_pool.process() as (address, _):
        said = run(
            TORCHS
            + ROWS
            + f"""
from torchnp import rpc
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
for session in (rpc.connect({address!r}), rpc.local()):
    with session:
        model, x = session.module(torch.nn.Linear(3, 2)), session.send(torch.ones(2, 3))
        model(x).square().mean().backward()
        assert model.weight.grad.publish().shape == (2, 3)
        assert torch.ops.mylib.twice(x).publish().tolist() == [[2] * 3] * 2
        for call in (torch.ops.mylib.scale, torch.ops.mylib.scale_, lambda x: torch.ops.mylib.scale.out(x, out=x)):
            try:
                call(x)
            except NotImplementedError as error:
                print(error)
        assert x.publish().tolist() == [[1] * 3] * 2
"""
        )
    # the in-place and out= forms are derived from the functional form, which is missing
    assert [line.split(" ")[0] for line in said.splitlines()] == ["mylib::scale"] * 6
    words = (
        "is another library's operator, and the server runs only those of aten and prims: start it with torchnp serve"
    )
    assert f"{words} --libraries mylib if there are rows for it, or publish() what it takes" in said
