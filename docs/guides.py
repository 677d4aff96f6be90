"""Run the code in the hand-written pages: `python docs/guides.py [PAGE ...]`. The tests and the build call ``run``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import blocks

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GENERATED = ("differences.md", "start.md", "version_changes.md")  # op_pages.py and the tests run their code
LONGEST = 300  # seconds that a page may take
children: set[subprocess.Popen] = set()


def pages() -> list[Path]:
    """Return the paths of the site's guides."""
    return [page for page in sorted(DOCS.glob("*.md")) if page.name not in GENERATED]


def beside() -> list[Path]:
    """Return the paths of pages that are not part of the site but must show right output, too."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def unmarked(page: Path) -> list[tuple[int, str]]:
    """Return the blocks of code that nothing runs and that give no reason."""
    return [
        (b.line, f"a block of {b.language} is not run: make it one of {', '.join(blocks.RUN)}, or say <!-- not run: why -->")
        for b in blocks.find(page)
        if b.language not in blocks.RUN and not b.why and not b.saved
    ]  # fmt: skip


def run(page: Path) -> list[tuple[int, str]]:
    """Run a page in its own process and folder; return its problems, each with the line."""
    if problems := unmarked(page):
        return problems
    if all(block.why for block in blocks.find(page)):
        return []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        child = subprocess.Popen(
            [sys.executable, str(DOCS / "run_page.py"), str(page)], cwd=folder, env=environment(folder), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        children.add(child)
        try:
            answer, messages = child.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            return [(1, f"its blocks take more than {LONGEST} s")]
        finally:
            end(child)
            child.wait()
            children.discard(child)
    if child.returncode:
        return [(1, f"the process that runs its blocks ended with status {child.returncode}:\n{messages}")]
    return [(line, text) for line, text in json.loads(answer)]


def end(child: subprocess.Popen) -> None:
    """Kill a page's process and the servers that it has started, if the process has not ended by itself."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def environment(folder: str) -> dict[str, str]:
    """Return environment variables that select this Python and this clone, and make the output the same everywhere."""
    first = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(ROOT)}
    paths = {name: os.pathsep.join(filter(None, [path, os.environ.get(name)])) for name, path in first.items()}
    fixed = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TORCHNP_CACHE": str(Path(folder) / ".cache")}
    return {"OMP_NUM_THREADS": "1"} | dict(os.environ) | paths | fixed


def run_all(pages: list[Path]) -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    """Run pages in parallel; yield each page with its problems when it is done."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        try:
            longest_first = sorted(pages, key=lambda page: -page.read_text(encoding="utf-8").count("```console"))
            futures = {pool.submit(run, page): page for page in longest_first}
            for done in as_completed(futures):
                yield futures[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in list(children):
                end(child)
            raise


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each page when it is done; with ``--json``, in the form that the site's build reads."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description="Run the guides, and compare what they show with what is printed.")
    parser.add_argument(
        "pages", nargs="*", type=Path, metavar="PAGE", help="Markdown files; all guides and README by default"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each page, for the build")
    options = parser.parse_args(arguments)
    if missing := [str(page) for page in options.pages if not page.is_file()]:
        parser.error(f"there is no page {', '.join(missing)}")
    named = [page.resolve() for page in options.pages]
    status = 0
    for page, problems in run_all(named or [*pages(), *beside()]):
        status |= bool(problems)
        if options.json:
            print(json.dumps([str(page), problems]), flush=True)
            continue
        print(f"{page.name}: {len(problems)} wrong", flush=True)
        for line, text in problems:
            print(f"{page.name}:{line}: {text}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
