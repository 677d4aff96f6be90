"""The code of README and the guides is run, as in the site's build; and the pages that a build makes from the table."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import torchnp
from torchnp.tests.docs.site_modules import DOCS, site_module
from torchnp.tests.rpc.server_pool import until

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="installed without the documentation")
ROOT = DOCS.parent
blocks = site_module("blocks") if DOCS.is_dir() else None
guides = site_module("guides") if DOCS.is_dir() else None
WRITTEN = ("differences", "names", "ops")  # folders of pages that a build writes
PAGES = [*guides.pages(), *guides.beside()] if guides else []


# The site's build, and so CI, runs all pages.
@pytest.mark.parametrize(
    "page",
    [p if p.name == "quickstart.md" else pytest.param(p, marks=pytest.mark.weekly) for p in PAGES],
    ids=lambda page: page.name,
)
def test_what_a_page_shows_is_what_its_blocks_print(page):
    wrong = guides.run(page)
    assert not wrong, "\n".join(f"{page.name}:{line}: {text}" for line, text in wrong)


def test_all_pages_are_read():
    assert {"index.md", "quickstart.md", "remote.md", "README.md"} <= {page.name for page in PAGES}
    assert not set(guides.GENERATED) & {page.name for page in PAGES}


def test_the_files_that_a_page_names_exist():
    """A file that the page's own blocks write or use need not exist in the repository."""
    paths = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")]
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        of_page = " ".join(b.saved + " " + b.code for b in blocks.find(page))
        for name in set(re.findall(r"`([\w./-]+\.py)`", text)):
            exists = any(f"/{path}".endswith(f"/{name}") for path in paths)
            if not exists and name.removesuffix(".py") not in of_page:
                stale.append(f"{page.name}: {name}")
    assert not stale


def test_pages_with_links_that_work_only_on_the_site_say_so():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        links = re.findall(r"\]\(([\w./-]+\.md)\b", text)
        of_the_build = [link for link in links if link in guides.GENERATED or link.split("/")[0] in WRITTEN]
        says_so = page.name == "index.md" or re.search(r"\b[Tt]he\s+(built\s+)?site\b", text)
        assert says_so or not of_the_build, (page.name, of_the_build)


def test_pages_that_a_build_writes_are_no_guides():
    """If a build found more guides at its end than at its beginning (in a clean clone only), it would fail."""
    ignored = {Path(line).name for line in (ROOT / ".gitignore").read_text().split() if line.startswith("docs/")}
    assert {name for name in ignored if name.endswith(".md")} == set(guides.GENERATED)


# ---------------------------------------------------------------- what is found wrong


def block(code, language="python", shown=None, mark="", above="# A page\n\n"):
    output = "" if shown is None else f"\n```text\n{shown}\n```\n"
    return f"{above}{mark}\n```{language}\n{code}\n```\n{output}"


HOLDS = {
    "a value in a comment": block("1 + 1  # 2\n'a'  # a: a remark\n[1, 2]  # [1, 2], as it is"),
    "any text for dots": block("2 / 3  # 0.66...: two thirds\nprint('a b c')  # a ... c"),
    "what is printed": block("for i in range(2):\n    print(i)", shown="0\n1"),
    "printed and in the comment": block("print(3)  # 3\nprint(4)", shown="4"),
    "within a block": block("with open('x', 'w') as file:\n    file.name  # x\n    file.write('a')"),
    "an empty line": block("print('a')\nprint()\nprint('b')", shown="a\n\nb"),
    "a block in a line": block("for i in [3]: i  # 3\nif i: print(i)  # 3"),
    "by a function": block("def f():\n    print(1)\n\n\nf()", shown="1"),
    "nothing of what returns nothing": block("print()  # a remark", shown=""),
    "a name of the block before": block("x = 1") + block("x  # 1", above=""),
    "a prompt": block(">>> 1 + 1\n2\n>>> for i in range(2):\n...     print(i)\n0\n1", "pycon"),
    "a raised error": block(">>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError: division by zero", "pycon"),
    "a name of a prompt": block(">>> x = 1", "pycon") + block("x  # 1", above=""),
    "commands": block("$ echo a; echo b\na\nb\n$ echo c >file\n$ cat \\\n  file\nc", "console"),
    "a file of the block before": block("_ = open('x', 'w').write('a')") + block("$ cat x\na", "console", above=""),
    "a saved file": block("x = 1", mark="<!-- saved as x.py -->") + block("import x", above=""),
    "a saved file of another language": block("a", "toml", mark="<!-- saved as x -->") + block("$ cat x\na", "console"),
    "a reason": block("pip install x", "sh", mark="<!-- not run: it installs -->") + block("1 / 0", mark="<!-- not run: no -->"),
    "no code": block("{}", "json"),
}  # fmt: skip


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.md"


@pytest.mark.parametrize("text", HOLDS.values(), ids=HOLDS)
def test_a_page_that_holds(page, text):
    page.write_text(text)
    assert guides.run(page) == []


WRONG = {
    "another value": (block("x = 1\n\nx + 1  # 3"), 7, "2\nand the page says 3"),
    "a number for a truth": (block("1 == 1  # 1"), 5, "True\nand the page says 1"),
    "a part of a value": (block("23  # 2: two"), 5, "23"),
    "no value": (block("import math\nmath.pi"), 6, "3.14159"),
    "a remark on a value": (block("max(1, 2)  # the larger"), 5, "and the page says the larger"),
    "another output": (block("print('a')\nprint('b')", shown="a\nc"), 10, "-c\n+b"),
    "no output": (block("print('a')"), 5, "+a"),
    "a block that prints nothing": (block("x = 1", shown="1"), 9, "-1"),
    "an error, and the lines of the page": (block("def f():\n    1 / 0\n\n\nf()"), 6, "ZeroDivisionError"),
    "no Python": (block("x ="), 5, "SyntaxError"),
    "an exit": (block("raise SystemExit(3)"), 5, "SystemExit: 3"),
    "a prompt": (block(">>> x = 1\n>>> x\n2", "pycon"), 6, "-2\n+1"),
    "an error at a prompt": (block(">>> 1\n1\n>>> 1 / 0", "pycon"), 7, "ZeroDivisionError"),
    "a command": (block("$ echo a\na\n$ echo b\nc", "console"), 7, "-c\n+b"),
    "a line between dots": (block("$ seq 9\n...\n3\n5\n...\n8\n...", "console"), 5, " ...\n 3\n+4\n 5\n ...\n 8"),
    "a command that fails": (block("$ echo no; false", "console"), 5, "ends with status 1:\nno"),
    "output that no prompt gives": (block(">>> 1\n1\n\n2", "pycon"), 5, "some lines are no prompt's"),
    "no command": (block("echo a", "console"), 5, "begins with a command"),
    "a server that is no command": (block("1", mark="<!-- in the background -->"), 5, "begins with a command"),
    "output beside a console": (block("$ echo a\na", "console", shown="a"), 10, "belongs below its prompt"),
    "a block in a list": ("- x\n    ```python\n    1  # 1\n    ```\n", 3, "IndentationError"),
    "a shell without a reason": (block("pip install x", "sh"), 5, "a block of sh is not run"),
    "a reason without words": (block("pip install x", "bash", mark="<!-- not run: -->"), 5, "a block of bash is not run"),
    "another fence": ("~~~py\n1\n~~~\n", 2, "a block of py is not run"),
    "a directive": ("```{code-block} python\n1  # 2\n```\n", 2, "and the page says 2"),
    "a crash": (block("import os\nos._exit(7)"), 1, "ended with status 7"),
}  # fmt: skip


@pytest.mark.parametrize("text, line, words", WRONG.values(), ids=WRONG)
def test_a_page_that_does_not_hold(page, text, line, words):
    page.write_text(text)
    ((found, told),) = guides.run(page)
    assert found == line and words in told


def test_a_page_that_does_not_end_is_ended(page, monkeypatch):
    monkeypatch.setattr(guides, "LONGEST", 1)
    page.write_text(block("import time\ntime.sleep(99)"))
    begun = time.monotonic()
    assert guides.run(page) == [(1, "its blocks take more than 1 s")]
    assert time.monotonic() - begun < 30


def test_an_interrupted_build_leaves_nothing_running(page, tmp_path):
    told = tmp_path / "pid"
    page.write_text(block(f"import os, time\n_ = open({str(told)!r}, 'w').write(str(os.getpid()))\ntime.sleep(99)"))
    runner = subprocess.Popen(
        [sys.executable, DOCS / "guides.py", page], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(lambda: told.exists() and told.read_text())
    runner.terminate()
    assert b"KeyboardInterrupt" in runner.communicate(timeout=30)[1]
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


SERVER = """import http.server
server = http.server.HTTPServer(("127.0.0.1", 7077), http.server.SimpleHTTPRequestHandler)
print("serving at 7077", flush=True)
server.serve_forever()"""
CLIENT = """import urllib.request
urllib.request.urlopen("http://127.0.0.1:7077/x.py").read()[:6]  # b'import'"""


def test_a_server_runs_while_its_page_does(page):
    """The server uses a free port, because the page's own port may be taken."""
    started = block("$ python x.py\nserving at 7077", "console", mark="<!-- in the background -->")
    page.write_text(block(SERVER, mark="<!-- saved as x.py -->", language="py") + started + block(CLIENT))
    assert guides.run(page) == []


def test_messages_are_those_of_each_page(tmp_path, capsys):
    (tmp_path / "a.md").write_text(block("1  # 2"))
    (tmp_path / "b.md").write_text(block("1  # 1"))
    assert guides.main(["--json", str(tmp_path / "a.md"), str(tmp_path / "b.md")]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2


# ---------------------------------------------------------------- what is made of the table


def test_arguments_that_are_explained_are_of_operators():
    words = site_module("argument_words")
    names = {(f"{s.namespace}::{s.base}", a.name) for s in torchnp.table.schemas.values() for a in s.args}
    assert not words.WORDS.keys() - {name for _, name in names} and not words.OF.keys() - names
    core = [a for s in torchnp.table.schemas.values() if "core" in s.tags for a in s.args]
    assert sum(a.name in words.WORDS for a in core) > 0.85 * len(core)


def test_plots_are_drawn_of_what_is_so():
    pytest.importorskip("matplotlib")
    plots = site_module("plots")
    numpys, torchs = plots.steps("NumPy"), plots.steps("torch")
    assert {("int8", "float16"), ("int64", "float64"), ("uint8", "int16")} <= numpys
    assert {("int64", "float16"), ("int64", "bfloat16"), ("uint8", "int16")} <= torchs
    assert ("bool", "float64") not in numpys | torchs  # this follows from the other steps
    _, errors = plots.ulps()
    assert dict(errors)["hypot"] == pytest.approx([0.5] * 6, abs=0.02)
    counts = sum((found for _, found in plots.coverage()), Counter())
    assert counts.total() == sum(n.startswith(("aten::", "prims::")) for n in torchnp.table.schemas)


def test_readme_status_is_up_to_date():
    spec = importlib.util.spec_from_file_location("readme_status", ROOT / "scripts" / "readme_status.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text()
    assert module.updated(text) == text, "run scripts/readme_status.py"
