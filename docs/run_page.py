"""Run the blocks of one page, in order and in one namespace, and compare what they print with what the page shows.

``guides.py`` starts this file once for each page, each time in a new folder, because blocks make files, register
devices and start servers. A problem is a line number of the page with a message.
"""

from __future__ import annotations

import ast
import difflib
import doctest
import io
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tokenize
import traceback
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import blocks
from blocks import Block

Problem = tuple[int, str]
FLAGS = doctest.ELLIPSIS | doctest.DONT_ACCEPT_TRUE_FOR_1
PORT = "7077"  # the port in the guides; if a page starts a server, a free port replaces it
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Broken(Exception):
    """Raised if the rest of the page cannot be run."""


def run(page: Path) -> Iterator[Problem]:
    """Run the blocks of a page up to the first that raises an error; yield the problems."""
    found = [block for block in blocks.find(page) if not block.why]
    port = free_port() if any(block.background for block in found) else PORT
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    with ExitStack() as servers:
        for block in found:
            try:
                here = replace(block, code=block.code.replace(PORT, port), shown=block.shown.replace(PORT, port))
                for line, text in run_block(here, vars(main), str(page), servers):
                    yield line, text.replace(port, PORT)
            except Broken as error:
                yield error.args
                return


def run_block(block: Block, names: dict[str, Any], page: str, servers: ExitStack) -> Iterator[Problem]:
    if block.shown and block.language != "python":
        raise Broken(block.shown_line, f"what {block.language} prints belongs below its prompt, in the same block")
    if block.saved:
        Path(block.saved).write_text(block.code, encoding="utf-8")
    if block.background:
        return background(block, servers)
    return RUNNERS[block.language](block, names, page) if block.language in RUNNERS else iter(())


# ---------------------------------------------------------------- python


class Told(io.TextIOBase):
    """Records what a block prints, and the values of its expressions, each with the line of the page."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.heard: list[tuple[int, bool, str]] = []

    def write(self, text: str) -> int:
        self.heard.append((self._line(), False, text))
        return len(text)

    def value(self, value: Any) -> None:
        if value is not None:
            self.heard.append((self._line(), True, str(value) + "\n"))

    def _line(self) -> int:
        frame = sys._getframe(2)
        while frame.f_back and frame.f_code.co_filename != self.page:
            frame = frame.f_back
        return frame.f_lineno if frame.f_code.co_filename == self.page else 0  # 0: printed by another thread


def python(block: Block, names: dict[str, Any], page: str) -> Iterator[Problem]:
    source = "\n" * (block.line - 1) + block.code  # so that line numbers are those of the page, also in tracebacks
    told = Told(page)
    hook, sys.displayhook = sys.displayhook, told.value
    try:
        tree = ast.parse(source, page)
        with redirect_stdout(told):
            exec(compile(ast.Interactive(tree.body), page, "single"), names)  # as at a prompt, to get values
    except (Exception, SystemExit) as error:
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == page]
        error.__traceback__ = error.__traceback__.tb_next  # leave out the frame of this file
        raise Broken(frames[-1] if frames else block.line, "".join(traceback.format_exception(error))) from error
    finally:
        sys.displayhook = hook
    yield from judged(block, source, tree, told)


def judged(block: Block, source: str, tree: ast.Module, told: Told) -> Iterator[Problem]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]

    def spoke(heard: tuple[int, bool, str]) -> tuple[ast.stmt | None, bool]:
        around = (s for s in statements if s.lineno <= heard[0] <= s.end_lineno)
        return min(around, key=lambda s: (s.end_lineno - s.lineno, -s.col_offset), default=None), heard[1]

    printed = ""
    for (statement, is_value), heard in itertools.groupby(told.heard, spoke):
        text = "".join(part for _, _, part in heard)
        comment = comments.get(statement.end_lineno, "") if statement else ""
        if comment and says(comment, text):
            continue
        if not is_value:
            printed += text
        elif comment or not isinstance(
            getattr(statement, "value", None), ast.Call
        ):  # the page need not show a call's value
            yield statement.lineno, f"the value is\n{text}and the page says {comment or 'nothing'}"
    yield from compared(block.shown, printed, block.shown_line or block.line)


def says(comment: str, text: str) -> bool:
    """Return whether a comment shows the recorded text, alone or followed by a remark after a `:`, `,` or `;`."""
    return any(alike(comment[: end.start()], text.removesuffix("\n")) for end in re.finditer("[:,;] |$", comment))


# ---------------------------------------------------------------- prompts


def pycon(block: Block, names: dict[str, Any], page: str) -> Iterator[Problem]:
    problems: list[Problem] = []

    class Runner(doctest.DocTestRunner):
        def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
            problems.extend(compared(example.want, got, block.line + example.lineno))

        def report_unexpected_exception(self, out: Any, test: Any, example: doctest.Example, exc_info: Any) -> None:
            raise Broken(block.line + example.lineno, "".join(traceback.format_exception(*exc_info)))

    parsed = doctest.DocTestParser().parse(block.code)
    if any(part.strip() for part in parsed if isinstance(part, str)):
        raise Broken(block.line, "some lines are no prompt's: an empty line of its output is written <BLANKLINE>")
    test = doctest.DocTestParser().get_doctest(block.code, names, "page", page, block.line)
    Runner(optionflags=FLAGS).run(test, clear_globs=False)
    names.update(test.globs)
    yield from problems


def console(block: Block, names: dict[str, Any], page: str) -> Iterator[Problem]:
    for command, shown, line in commands(block):
        done = subprocess.run(command, shell=True, text=True, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise Broken(line, f"{command}\nends with status {done.returncode}:\n{done.stdout}{done.stderr}")
        for _, text in compared(shown, done.stdout, line):
            yield line, f"{text}\n{done.stderr}".rstrip()


def commands(block: Block) -> Iterator[tuple[str, str, int]]:
    """Yield each command of a console block, the output that the page shows for it, and its line."""
    if not block.code.startswith("$ "):
        raise Broken(block.line, "a console begins with a command after `$ `")
    for match in COMMAND.finditer(block.code):
        yield match[1], match[2], block.line + block.code.count("\n", 0, match.start())


def background(block: Block, servers: ExitStack) -> Iterator[Problem]:
    for command, shown, line in commands(block):
        server = servers.enter_context(started(command))
        ready = "".join(server.stdout.readline() for _ in shown.splitlines())
        if server.poll() is not None:
            raise Broken(line, f"{command}\nends with status {server.returncode}:\n{ready}")
        yield from compared(shown, ready, line)


@contextmanager
def started(command: str) -> Iterator[subprocess.Popen]:
    where = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    server = subprocess.Popen("exec " + command, shell=True, text=True, **where)
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=20)


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


# ---------------------------------------------------------------- comparing


def alike(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, FLAGS)


def compared(shown: str, printed: str, line: int) -> Iterator[Problem]:
    shown, printed = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).rstrip("\n") for text in (shown, printed))
    if not alike(shown, printed):
        texts = shown.splitlines(), abridged(shown.splitlines(), printed.splitlines())
        yield line, "\n".join(difflib.unified_diff(*texts, "shown by the page", "printed by this run", lineterm=""))


def abridged(shown: list[str], printed: list[str]) -> list[str]:
    """Return what was printed, with `...` where the page has it, so that a diff shows only what is wrong."""
    dotted = [line for line in shown if "..." in line and line != "..."]
    printed = [next((d for d in dotted if alike(d, line)), line) for line in printed]
    lines = []
    for _, i, end, j, stop in difflib.SequenceMatcher(None, shown, printed, autojunk=False).get_opcodes():
        part, there = printed[j:stop], shown[i:end]
        if "..." in there:
            before = there.index("...")
            after = len(there) - before - 1
            part = [*part[:before], "...", *part[max(before, len(part) - after) :]]
        lines += part
    return lines


RUNNERS = {"python": python, "pycon": pycon, "console": console}

if __name__ == "__main__":
    answer = os.dup(1)
    os.dup2(2, 1)  # output that Python does not print (of other processes) goes to standard error
    sys.path[0] = ""
    found = list(run(Path(sys.argv[1])))
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
