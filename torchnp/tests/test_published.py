"""The reference as data: that its files say what their schemas say, and are those of the table and the catalogue."""

from __future__ import annotations

import json

import jsonschema
import pytest

import torchnp
from torchnp.catalogue import CATALOGUE
from torchnp.cli import main
from torchnp.lookup import published


@pytest.mark.parametrize("name", published.FILES)
def test_files_are_what_their_schemas_say(name):
    files = published.files()
    schema = json.loads(files[f"{name}.schema.json"])
    jsonschema.Draft202012Validator.check_schema(schema)
    rows = json.loads(files[f"{name}.json"])
    jsonschema.validate(rows, schema)
    rows[0].pop("title" if name == "differences" else "schema")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(rows, schema)


def test_every_overload_and_difference_is_there():
    assert [row["name"] for row in published.ops()] == [
        n for n in torchnp.table.schemas if n.startswith(("aten", "prims"))
    ]
    rows = published.differences()
    assert [row["id"] for row in rows] == list(CATALOGUE)
    assert all(torchnp.table.find(op) for row in rows for op in row["ops"])
    assert "aten::var" in next(row["ops"] for row in rows if row["id"] == "correction")


def test_the_command(capsys):
    assert main(["differences"]) == 0
    said = capsys.readouterr().out
    assert "  correction  " in said and f"{len(CATALOGUE)} differences" in said
    assert main(["differences", "correction", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["correction"]
    assert main(["differences", "np.var"]) == 2
    assert "torchnp explain 'np.var'" in capsys.readouterr().err
