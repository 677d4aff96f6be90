"""A badge with the share of passing calls, as SVG or as the JSON that badge services read."""

from __future__ import annotations

import json
from pathlib import Path

_COLOURS = ((1.0, "#2f7d4f"), (0.99, "#4c9a4f"), (0.95, "#8a9a2b"), (0.8, "#b8860b"), (0.0, "#b3362b"))
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {text}">
<title>{label}: {text}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{middle_left}" y="14" textLength="{text_left}">{label}</text><text x="{middle_right}" y="14" textLength="{text_right}">{text}</text></g>
</svg>
"""


def share_text(good: int, total: int) -> str:
    """Return the share as text, rounded down, so that 100% means all."""
    if not total:
        return "nothing judged"
    return "100%" if good == total else f"{int(good / total * 1000) / 10:.1f}%"


def colour(good: int, total: int) -> str:
    share = good / total if total else 0.0
    return next(c for least, c in _COLOURS if share >= least)


def svg(good: int, total: int, label: str = "torch conformance") -> str:
    """Return the badge as SVG."""
    text = share_text(good, total)
    text_left, text_right = round(6.3 * len(label)), round(7.2 * len(text))
    left, right = text_left + 12, text_right + 12
    return _SVG.format(
        label=label, text=text, colour=colour(good, total), width=left + right, left=left, right=right,
        middle_left=left / 2, middle_right=left + right / 2, text_left=text_left, text_right=text_right,
    )  # fmt: skip


def endpoint(good: int, total: int, label: str = "torch conformance") -> str:
    """Return the badge as JSON for an endpoint badge of shields.io."""
    found = {"schemaVersion": 1, "label": label, "message": share_text(good, total), "color": colour(good, total)}
    return json.dumps(found) + "\n"


def write_badge(good: int, total: int, path: Path) -> None:
    """Write the badge: JSON if the name ends in .json, else SVG."""
    make = endpoint if path.suffix == ".json" else svg
    path.write_text(make(good, total), encoding="utf-8")
