"""``python -m opinfo_tests``: runs `opinfo_tests.run.command`. Ctrl-C prints no traceback, even during imports."""

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
    """Make Ctrl-C exit immediately while torch is imported: a KeyboardInterrupt inside torch's C++ code would abort.

    Nothing needs cleanup at this point. Outside the main thread this does nothing, since signals interrupt only the
    main thread.
    """

    def leave(*_: Any) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)

    ours = threading.current_thread() is threading.main_thread() and "torch" not in sys.modules
    # a parent may have made the process ignore Ctrl-C
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: list[str] | None = None, prog: str = "opinfo_tests") -> int:
    """Run the command line, and return the exit status."""
    try:
        with _leaving_at_once():
            from .run.command import main as judge

        return judge(argv, prog)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
