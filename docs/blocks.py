"""Find the blocks of code in hand-written pages, the output that a page shows, and the reasons why blocks do not run.

A block of ``python`` shows values in comments (`f(x)  # 3: why`). It shows printed output in comments too, or in a
``text`` block right after it. In ``pycon`` and ``console`` (commands after ``$``) the output is below its command.
``...`` stands for any text.

A comment in the line above a block says how it is run:

<!-- not run: REASON -->
<!-- saved as FILE -->      it is also a file in the page's folder, whatever its language
<!-- in the background -->  a server: its output is what it prints when it is ready, and it ends with the page
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = ("python", "pycon", "console")
CODE = (*RUN, "py", "python3", "sh", "shell", "bash", "zsh")  # all languages of blocks that a reader might run
FENCE = re.compile(r"^ *(?P<mark>`{3,}|~{3,}) *(?:\{code(?:-block)?\} *)?(?P<language>[^\s`]*)")
MARK = re.compile(r"^<!-- (?:not run: (?P<why>\S.*)|saved as (?P<saved>\S+)|(?P<background>in the background)) -->$")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int  # line of the page at which the code begins
    shown: str = ""  # the output that a text block after it shows
    shown_line: int = 0
    why: str = ""  # reason why it is not run
    saved: str = ""
    background: bool = False


def find(page: Path) -> list[Block]:
    """Return the blocks of a page that are code, or that are saved as files, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = list(_fences(lines))
    found = []
    for (start, end, language), following in zip(fences, [*fences[1:], None]):
        mark = MARK.match(_above(lines, start))
        said = mark.groupdict("") if mark else {"why": "", "saved": "", "background": ""}
        if language not in CODE and not said["saved"]:
            continue
        shown, shown_line = "", 0
        if following and following[2] == "text" and not any(lines[end + 1 : following[0]]):
            shown, shown_line = _text(lines, *following[:2]), following[0] + 2
        how = said | {"background": bool(said["background"])}
        found.append(Block(language, _text(lines, start, end), start + 2, shown, shown_line, **how))
    return found


def texts(page: Path, language: str) -> list[str]:
    """Return the contents of a page's blocks of one language."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [_text(lines, start, end) for start, end, found in _fences(lines) if found == language]


def _fences(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield for each fenced block the indices of the lines that open and close it, and its language."""
    opened, start = None, 0
    for i, line in enumerate(lines):
        fence = FENCE.match(line)
        if opened is None:
            opened, start = fence, i
        elif fence and fence["mark"].startswith(opened["mark"]) and line.strip() == fence["mark"]:
            yield start, i, opened["language"]
            opened = None


def _text(lines: list[str], start: int, end: int) -> str:
    return "".join(line + "\n" for line in lines[start + 1 : end])


def _above(lines: list[str], start: int) -> str:
    return next((line.strip() for line in reversed(lines[:start]) if line.strip()), "")
