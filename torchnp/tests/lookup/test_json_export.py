"""The reference as data: the files follow their schemas, and contain the table and the catalogue."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jsonschema
import pytest

import torchnp
from torchnp.cli import main
from torchnp.core.schema import load, of_any_version
from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import json_export


@pytest.mark.parametrize("name", json_export.NAMES)
def test_files_are_what_their_schemas_say(name):
    schema = json.loads(json_export.text(f"{name}.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:torchnp:schema:{name}"  # the name stays the same, wherever the files are served
    rows = json.loads(json_export.text(f"{name}.json"))
    jsonschema.validate(rows, schema)
    rows[0].pop("title" if name == "differences" else "schema")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(rows, schema)


def test_every_overload_and_difference_is_there():
    """test_op_index checks with ``make_lookup.py --check`` that the files are up to date."""
    assert [row["name"] for row in json.loads(json_export.text("ops.json"))] == list(of_any_version())
    mine = {n for n in torchnp.table.schemas if n.startswith(("aten", "prims"))}
    assert mine <= set(json_export.ops())
    rows = json_export.differences()
    assert list(rows) == list(CATALOGUE)
    assert all(torchnp.table.find(op) for row in rows.values() for op in row["ops"])
    assert "aten::var" in rows["correction"]["ops"]


@pytest.mark.parametrize("name", json_export.NAMES)
def test_the_commands_print_the_files(name):
    # A separate process, because other tests have declared rows of other libraries in this one.
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "torchnp", name, "--json"], capture_output=True,
                          text=True, encoding="utf-8", env=os.environ | {"PYTHONUTF8": "1"}, timeout=60)  # fmt: skip
    rows = {row.get("name", row.get("id")): row for row in json.loads(json_export.text(f"{name}.json"))}
    if name == "ops":  # the file has the overloads of all versions
        rows = {n: rows[n] | {"schema": str(s)} for n, s in load().items()}
    assert done.stdout == json_export.listed(rows.values()) + "\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "torchnp.lookup.op_index" in imported
    assert not [m for m in imported if m == "torch" or m.startswith("torchnp.kernels.")]


def test_the_command(capsys):
    assert main(["differences"]) == 0
    said = capsys.readouterr().out
    assert "  correction  " in said and f"{len(CATALOGUE)} differences" in said
    assert main(["differences", "correction", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["correction"]
    assert main(["differences", "np.var"]) == 2
    assert "torchnp explain 'np.var'" in capsys.readouterr().err
