"""Run the guides while Sphinx builds the site, and warn if a page shows other output than this run printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import blocks
import guides
from docutils import nodes
from sphinx.util import logging
from sphinx.util.display import status_iterator

logger = logging.getLogger(__name__)
running: list[tuple[subprocess.Popen, list[Path]]] = []


def begin(app: Any) -> None:
    pages = guides.pages()
    command = [sys.executable, str(guides.DOCS / "guides.py"), "--json", *map(str, pages)]
    running.append((subprocess.Popen(command, stdout=subprocess.PIPE, text=True), pages))


def end(app: Any, exception: Exception | None) -> None:
    """Wait for the guides that still run, and report the problems of each page."""
    runner, pages = running.pop()
    if exception:
        runner.terminate()
        return
    lines = status_iterator(runner.stdout, "running the guides... ", "purple", len(pages), app.verbosity, name_of)
    told = dict(map(json.loads, lines))
    for page, problems in told.items():
        for line, text in problems:
            logger.warning(text, location=(Path(page).stem, line))
    status = runner.wait()
    if len(told) < len(pages):
        logger.warning("the guides were not run to the end: status %s", status)


def name_of(line: str) -> str:
    return Path(json.loads(line)[0]).stem


def overlooked(app: Any, doctree: nodes.document) -> None:
    """Warn about code on a guide that Sphinx sees but ``blocks.find`` does not, because nothing would run it."""
    page = Path(doctree["source"])
    if page not in guides.pages():
        return
    found = {block.code.strip() for block in blocks.find(page)}
    for node in doctree.findall(nodes.literal_block):
        included = node.get("source") or (node.source and Path(node.source) != page)
        if node.get("language") in blocks.CODE and not included and node.astext().strip() not in found:
            logger.warning("nothing runs this block: write it as a fenced block of its own", location=node)
