"""The cost of reading a file: work and memory grow in proportion to its bytes, whatever they contain.

Work is counted, not timed: the calls and lines that Python runs, which do not depend on the machine or its load.
"""

import io
import json
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import torchnp
from torchnp.files.malformed import Malformed
from torchnp.files.zip_directory import read_members
from torchnp.rpc.server.config import datasets
from torchnp.runtime import ProgramError
from torchnp.tests.runtime import reader_budgets
from torchnp.tests.runtime import test_hostile_archives as hostile

SMALL = 30_000  # the least number of bytes by which a file grows, so that its constant part counts for little
STEPS, BYTES = 40, 150  # lines of Python, and bytes of memory, per byte of a file; most files take a tenth of that
FIXED = 3_000_000  # bytes of memory that a file of any size may take


def read(data):
    """Load a program, or accept its refusal."""
    try:
        torchnp.load(io.BytesIO(data))
    except ProgramError as error:
        assert len(str(error)) < 3 * len(data)


def steps(work):
    """Count the lines and calls that Python runs for some work, and the elements of lists that were searched or copied
    for it."""
    count = 0

    def count_line(frame, event, arg):
        nonlocal count
        count += event == "line"
        return count_line

    def count_call(frame, event, arg):
        nonlocal count
        count += 1
        return count_line

    before = sys.gettrace()
    sys.settrace(count_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def refusing(function, *args):
    """Return work that ends with the refusal of a file."""

    def work():
        with pytest.raises(ValueError):
            function(*args)

    return work


def peak(work):
    """Return the peak memory of some work, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", autouse=True)
def table():
    """Load the table first, so that it does not count as a file's work."""
    return torchnp.load(io.BytesIO(hostile.GOOD))


def sizes_of(make):
    """Return two sizes, the second twice the first, for which the files have grown enough."""
    n = 125
    while len(make(2 * n)) < len(hostile.GOOD) + SMALL:
        n *= 2
    return n, 2 * n


@pytest.mark.parametrize("what", reader_budgets.GROWN)
def test_work_and_memory_grow_with_the_file(what):
    make = reader_budgets.GROWN[what]
    first, second = (make(n) for n in sizes_of(make))
    few, many = (steps(lambda data=data: read(data)) for data in (first, second))
    assert many <= 2.3 * few, f"{len(first)} bytes took {few} steps, and {len(second)} took {many}"
    assert many <= STEPS * len(second)
    assert peak(lambda: read(second)) <= FIXED + BYTES * len(second)


class Counted(str):
    """A name that counts how often it is compared or hashed, because no trace shows that work of C code."""

    looked_at = 0
    __slots__ = ()

    def __eq__(self, other):
        Counted.looked_at += 1
        return str.__eq__(self, other)

    def __hash__(self):
        Counted.looked_at += 1
        return str.__hash__(self)


def looks(work):
    Counted.looked_at = 0
    work()
    return Counted.looked_at


def test_names_are_compared_a_few_times_each():
    from torchnp.files.strict_json import _unique, twice

    for n in (1000, 4000):
        pairs = [(Counted(f"k{i}"), i) for i in range(n)] + [(Counted(f"k{n - 1}"), 0)]
        assert looks(refusing(_unique, pairs)) < 8 * n
        assert looks(lambda: twice(name for name, _ in pairs)) < 4 * n


def test_names_of_a_signature_are_compared_a_few_times_each(monkeypatch):
    """During a load, fields that are names become counted names."""
    from torchnp.runtime import graph, json_fields, loading

    real = json_fields.as_kind

    def counted(value, kind, where):
        found = real(value, kind, where)
        return Counted(found) if type(found) is str and found[:1] == "z" else found

    for module in (json_fields, graph, loading):
        monkeypatch.setattr(module, "as_kind", counted)
    found = []
    for n in (500, 1000):
        data = reader_budgets.GROWN["inputs"](n)
        found.append(looks(lambda data=data: read(data)))
    assert found[0] > 500 and found[1] < 2.3 * found[0], found


def test_too_many_members_are_refused_before_one_is_built():
    data = hostile.pack({f"m{i}": b"" for i in range(3000)})
    assert len(read_members(io.BytesIO(data))) == 3000
    lines = steps(refusing(read_members, io.BytesIO(data), 2999))
    assert lines < 1000
    with pytest.raises(Malformed, match="3000 members, more than 2999"):
        read_members(io.BytesIO(data), 2999)


def test_a_directory_that_says_another_count_is_refused():
    data = bytearray(hostile.pack({f"m{i}": b"" for i in range(30)}))
    end = data.rindex(b"PK\5\6")
    for count, words in ((10, "of which 10 members take"), (31, "no member at byte"), (60_000, "too few for 60000")):
        data[end + 8 : end + 12] = struct.pack("<HH", count, count)
        with pytest.raises(ProgramError, match=words):
            torchnp.load(io.BytesIO(data))


def test_zipfile_and_the_reader_agree():
    """Members as other writers make them: with comments, 64-bit records, other encodings, deflate."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.comment = b"made by hand"
        made.writestr("größe", b"x" * 100, zipfile.ZIP_DEFLATED)
        with made.open(zipfile.ZipInfo("long"), "w", force_zip64=True) as member:
            member.write(b"y" * 50)
        made.writestr("empty", b"")
    wanted = [
        (i.filename, i.compress_type, i.CRC, i.compress_size, i.file_size, i.header_offset) for i in made.infolist()
    ]
    found = read_members(io.BytesIO(file.getvalue()))
    assert [(m.name, m.method, m.crc, m.packed, m.size, m.offset) for m in found] == wanted


# ---------------------------------------------------------------- arrays


def npy(shape, data=b"", descr="'<f4'", order="False", version=b"\x01\x00", more=""):
    """Return a .npy file with a given header."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}\n".encode()
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + length + text + data


def npz(members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, data in members:
            made.writestr(name, data)
    return file.getvalue()


BAD_NPY = {
    "a bool for a size": (npy("(True, 2)", bytes(8)), "its shape is .True, 2."),
    "a huge shape": (npy("(4611686018427387904, 2)"), "its shape is"),
    "a shape of terabytes": (npy("(1099511627776,)"), "needs 4398046511104 bytes"),
    "a shape that wraps": (npy("(4294967296, 4294967296)"), "whose elements no memory holds"),
    "a huge shape of no elements": (npy("(0, 9223372036854775807)"), "whose elements no memory holds"),
    "a negative size": (npy("(-2,)", bytes(8)), "whose elements no memory holds"),
    "a number for a shape": (npy("4", bytes(16)), "no tuple"),
    "a list for a shape": (npy("[1]", bytes(4)), "no tuple"),
    "a float for a size": (npy("(1.0,)", bytes(4)), "no tuple"),
    "many dimensions": (npy("(" + "1," * 65 + ")", bytes(4)), "no tuple of at most 64"),
    "too few bytes": (npy("(3,)", bytes(11)), "needs 12 bytes, and behind the header there are 11"),
    "objects": (npy("(1,)", bytes(8), "'|O'"), "no .npy file of numbers: its dtype is"),
    "text": (npy("(1,)", bytes(4), "'<U1'"), "no .npy file of numbers"),
    "dates": (npy("(1,)", bytes(8), "'<M8[s]'"), "no .npy file of numbers"),
    "records": (npy("(1,)", bytes(8), "[('a', '<f4'), ('b', '<f4')]"), "no .npy file of numbers"),
    "records in short": (npy("(1,)", bytes(8), "'f4,f4'"), "no .npy file of numbers"),
    "long numbers": (npy("(1,)", bytes(16), "'<f16'"), "no .npy file of numbers"),
    "a dtype that is none": (npy("(1,)", bytes(8), "'<q('"), "no .npy file of numbers"),
    "an order of its own": (npy("(1,)", bytes(4), order="1"), "has the order 1"),
    "a name twice": (npy("(1,)", bytes(4), more="'shape': (9,)"), "two values of the name 'shape'"),
    "a name too many": (npy("(1,)", bytes(4), more="'x': 1"), "its header has the names"),
    "code": (npy("__import__('os').getcwd()", bytes(4)), "no Python dict"),
    "deep": (npy("(" * 3000 + ")" * 3000, bytes(4)), "no Python dict"),
    "a long header": (npy("(" + " " * 20_000 + "1,)", bytes(4)), "is longer than 10,000"),
    "a header of gigabytes": (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}", "is longer than 10,000"),
    "a header cut short": (npy("(1,)")[:30], "cut short"),
    "another version": (npy("(1,)", bytes(4), version=b"\x09\x00"), "has the version 9.0"),
    "nothing": (b"", "this is no .npy file of numbers"),
    "a pickle": (b"\x80\x04N.", "this is no .npy file of numbers"),
}
GOOD_NPY = npy("(2,)", bytes(8))
BAD_NPZ = {what: (npz([("x.npy", data)]), words) for what, (data, words) in BAD_NPY.items()}
BAD_NPZ |= {
    "two of one name": (npz([("x.npy", GOOD_NPY), ("y.npy", GOOD_NPY), ("x.npy", GOOD_NPY)]), "two members of the name 'x.npy'"),
    "something else": (npz([("x.npy", GOOD_NPY), ("README", b"read me")]), "member 'README' is no .npy file"),
    "bytes behind": (npz([("x.npy", GOOD_NPY + b"more")]), "needs 8 bytes, and behind the header there are 12"),
    "no zip": (b"text", "this is no .npz file of numbers"),
    "cut short": (npz([("x.npy", GOOD_NPY)])[:-5], "this is no .npz file of numbers"),
    "another method": (npz([("x.npy", GOOD_NPY)], zipfile.ZIP_BZIP2), "compressed by the method 12"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("ending, what", [(".npy", w) for w in BAD_NPY] + [(".npz", w) for w in BAD_NPZ])
def test_arrays_that_lie_are_refused(ending, what, tmp_path):
    data, words = (BAD_NPY if ending == ".npy" else BAD_NPZ)[what]
    (tmp_path / f"x{ending}").write_bytes(data)

    def load():
        with pytest.raises(ValueError, match=words) as error:
            datasets.load("x", f"x{ending}", tmp_path)
        assert str(error.value).startswith(f"x{ending}: ")

    assert peak(load) < FIXED


def test_a_safetensors_header_has_each_name_once(tmp_path):
    text = b'{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "x": {"dtype": "I32", "shape": [1], "data_offsets": [0, 4]}}'
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(ValueError, match="two values of the name 'x'"):
        datasets.load("x", "x.safetensors", tmp_path)
    for dtype in ("[]", "{}", "1", "null", "true"):
        text = f'{{"x": {{"dtype": {dtype}, "shape": [1], "data_offsets": [0, 4]}}}}'.encode()
        (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
        with pytest.raises(ValueError, match="'x' has the dtype"):
            datasets.load("x", "x.safetensors", tmp_path)


def test_good_arrays_are_read(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.random((3, 4)),
        "f": np.asfortranarray(rng.random((3, 4))),
        "s": np.float32(2),
        "e": np.ones((0, 3)),
    }
    arrays |= {
        "big": rng.integers(0, 9, 5).astype(">i4"),
        "flags": np.array([True, False]),
        "z": np.zeros(3, np.complex64),
    }
    np.savez(tmp_path / "stored.npz", **arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays, zeros=np.zeros((1000, 1000)))
    for file in ("stored.npz", "packed.npz"):
        found = datasets.load("d", file, tmp_path)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[f"d.{name}"], array)
            assert found[f"d.{name}"].dtype == array.dtype.newbyteorder("=")
    assert found["d.zeros"].shape == (1000, 1000) and not found["d.zeros"].any()
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        np.testing.assert_array_equal(datasets.load("x", f"{name}.npy", tmp_path)["x"], array)


def test_compressed_members_make_no_more_than_they_claim(tmp_path):
    """A member that grows beyond its declared size, and one that declares more than deflate can make."""
    data = bytearray(npz([("x.npy", npy("(20000,)", bytes(80_000)))], zipfile.ZIP_DEFLATED))
    entry = data.index(b"PK\1\2")
    for size, words in ((1000, "has more than the 1000 bytes"), (2**31, "claims 2147483648 bytes, and has")):
        data[entry + 24 : entry + 28] = struct.pack("<I", size)
        (tmp_path / "x.npz").write_bytes(data)
        assert peak(refusing(datasets.load, "x", "x.npz", tmp_path)) < FIXED
        with pytest.raises(ValueError, match=words):
            datasets.load("x", "x.npz", tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_bytes_changed_at_random(tmp_path):
    """Valid files of each kind with some bytes changed, removed or inserted are loaded, or refused with a message,
    within the memory limit."""
    rng = np.random.default_rng(3)
    tensors = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    text = json.dumps(tensors).encode()
    seeds = {
        ".npy": npy("(2, 3)", bytes(24)),
        ".npz": npz([("x.npy", GOOD_NPY), ("y.npy", GOOD_NPY)], zipfile.ZIP_DEFLATED),
        ".safetensors": len(text).to_bytes(8, "little") + text + bytes(8),
        ".pt2": hostile.GOOD,
    }
    refused = 0
    for ending, good in seeds.items():
        for _ in range(150):
            data = bytearray(good)
            for place in rng.random(rng.integers(1, 5)):
                at, kind = int(place * len(data)), rng.integers(3)
                if kind == 0:
                    data[at] = rng.integers(256)
                elif kind == 1:
                    del data[at : at + int(rng.integers(1, 9))]
                else:
                    data[at:at] = rng.bytes(int(rng.integers(1, 9)))
            path = tmp_path / f"x{ending}"
            path.write_bytes(data)

            def work(path=path, ending=ending):
                if ending == ".pt2":
                    torchnp.load(path)
                else:
                    datasets.load("x", path.name, path.parent)

            try:
                assert peak(work) < FIXED + BYTES * len(data)
            except ValueError as error:
                refused += 1
                assert str(error)
    assert refused > 300


# ---------------------------------------------------------------- the command line


@pytest.mark.parametrize("what", BAD_NPY)
def test_inputs_of_the_command_line(what, tmp_path, capsys):
    from torchnp.cli import main

    (tmp_path / "x.npy").write_bytes(BAD_NPY[what][0])
    (tmp_path / "m.pt2").write_bytes(hostile.GOOD)
    assert main(["run", str(tmp_path / "m.pt2"), "--input", f"input={tmp_path / 'x.npy'}"]) == 2
    assert f"torchnp run: {tmp_path / 'x.npy'}: " in capsys.readouterr().err


def test_a_configuration_has_a_size(tmp_path, capsys):
    from torchnp.cli import main

    for text, words in (("#" * (1 << 21), "more than 1,048,576"), ("x = " + "[" * 20_000, "nested too deeply")):
        (tmp_path / "server.toml").write_text(text)
        assert main(["serve", "--check", "--config", str(tmp_path / "server.toml")]) == 2
        assert words in capsys.readouterr().err
