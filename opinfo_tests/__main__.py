"""``python -m opinfo_tests``: runs `opinfo_tests.run.command`; Ctrl-C is quiet during its slow imports too."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Make Ctrl-C exit at once while torch is imported: KeyboardInterrupt inside its C++ would abort the process.

    Nothing needs cleanup yet. Outside the main thread this does nothing, as signals interrupt only that one.
    """

    def leave(*_: Any) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)

    ours = threading.current_thread() is threading.main_thread() and "torch" not in sys.modules
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # a parent may ignore it
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: list[str] | None = None, prog: str = "opinfo_tests") -> int:
    """Run, print, and return the exit status."""
    try:
        with _leaving_at_once():
            from .run.command import main as judge

        return judge(argv, prog)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
