"""The sidebar: an operator's page lists its family, a page of differences the other topics, a table of names the
others.
"""

from __future__ import annotations

import functools
from typing import Any

import op_pages
from name_pages import LIBRARIES, TITLES

import torchnp
from torchnp.difference_catalogue import CHAPTERS


def add(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a page the links of its sidebar, if it has one."""
    title, links = of(page)
    if links:
        context["page_links"] = {"title": title, "links": links}
        context["sidebars"] = ["sidebar_links.html"]


def of(page: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the title of a page's sidebar, and the names and pages that it lists."""
    folder, _, name = page.partition("/")
    if folder == "ops" and name in families():
        return families()[name]
    if folder == "differences":
        chapters = [(op_pages.title_of(c), f"differences/{op_pages.name_of(c)}") for c in CHAPTERS]
        return "Differences", [("The ten most dangerous", "differences/ten"), *chapters]
    if folder == "names":
        return "Names", [(TITLES[library], f"names/{library}") for library in LIBRARIES]
    return "", []


@functools.cache
def families() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return by an operator's page its family, and the names and pages of all operators of the family."""
    members: dict[str, dict[str, None]] = {}
    for name in torchnp.table:
        members.setdefault(torchnp.table[name].family, {})[name.partition(".")[0]] = None
    found = {}
    for family, packets in members.items():
        links = [(p.removeprefix("aten::"), f"ops/{op_pages.page_name(p)}") for p in sorted(packets)]
        found |= {op_pages.page_name(p): (family, links) for p in packets}
    return found
