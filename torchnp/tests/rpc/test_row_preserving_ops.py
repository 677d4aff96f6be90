"""`torchnp owner ops` and the table in docs/privacy_reference.md show the list that the server uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchnp import cli
from torchnp.rpc.server.row_preserving_ops import listed, table
from torchnp.rpc.server.session.server_state import ServerState

DOCS = Path(__file__).parents[3] / "docs" / "privacy_reference.md"


def test_the_list_is_what_the_server_goes_by(capsys):
    assert cli.main(["owner", "ops", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    state = ServerState()
    rows = {n: state.row(i) for n, i in state.agreement.index.items()}
    assert printed == listed() and set(printed) == {n for n, row in rows.items() if row.by_rows}
    assert {"aten::mm", "aten::add_.Tensor", "aten::cat", "aten::native_layer_norm_backward"} <= set(printed)
    assert not {"aten::sum", "aten::cholesky", "aten::native_batch_norm", "aten::special_bessel_j0"} & set(printed)
    assert cli.main(["owner", "ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(printed)
    assert any(
        line.split() == ["aten::mm", "a", "product", "that", "does", "not", "sum", "over", "the", "rows"]
        for line in lines
    )


@pytest.mark.skipif(not DOCS.exists(), reason="the docs are not installed")
def test_the_docs_have_the_same_list():
    text = DOCS.read_text()
    found = text.partition("<!-- torchnp owner ops -->\n")[2].partition("<!-- end -->")[0].strip()
    assert found == table(), (
        "put the output of torchnp.rpc.server.row_preserving_ops.table() between the marks in docs/privacy_reference.md"
    )
