"""Event log of a server, which contains the client's address and name, but no value or text from a client.

Event names come from a fixed set. Fields contain only operators of the table, error classes, locations in the server's
code, and numbers. So log lines can be stored and shown to others.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

log = logging.getLogger("torchnp.rpc")
MOST_FRAMES = 8


def note(level: int, event: str, peer: str = "", **fields: Any) -> None:
    """Log an event, leaving out its empty fields."""
    if log.isEnabledFor(level):
        fields = {k: v for k, v in fields.items() if v not in (None, "")}
        text = " ".join([event, *(f"{k}={v}" for k, v in fields.items())])
        log.log(
            level, "%s", f"{peer}: {text}" if peer else text, extra={"event": event, "fields": fields, "peer": peer}
        )


def place_of(error: BaseException) -> str:
    """Return where an error was raised, as ``folder/module.py:line``.

    The error's text is not logged, because it may come from a client.
    """
    return next(reversed(_places(error)), "")


def trace_of(error: BaseException) -> str:
    """Return the innermost frames of an error's stack, beginning with the one that raised the error.

    Each frame is given as in `place_of`, with its function. At most `MOST_FRAMES` frames are returned, because a client
    can make kernels nest deeply.
    """
    if not log.isEnabledFor(logging.INFO):
        return ""
    return " < ".join(_places(error, functions=True)[: -MOST_FRAMES - 1 : -1]).replace(" ", "")


def _places(error: BaseException, functions: bool = False) -> list[str]:
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        path = Path(code.co_filename)
        places.append(f"{path.parent.name}/{path.name}:{trace.tb_lineno}" + f":{code.co_name}" * functions)
        trace = trace.tb_next
    return places


class _Json(logging.Formatter):
    """Formatter that writes one JSON object per line.

    For records of other packages, it writes only the logger's name, not the message.
    """

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {
            "time": when,
            "level": record.levelname.lower(),
            "event": getattr(record, "event", f"message of {record.name}"),
        }
        if peer := getattr(record, "peer", ""):
            line["peer"] = peer
        return json.dumps(line | getattr(record, "fields", {}), default=str)


class _Plain(logging.Formatter):
    """Formatter that writes one line of text per record. Of other packages' records it writes as little as `_Json`.

    Their messages may have text from a client: gRPC, for example, logs metadata that is no UTF-8.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        if not hasattr(record, "event"):
            bare = {"msg": "a message", "args": None, "exc_info": None, "exc_text": None, "stack_info": None}
            record = logging.makeLogRecord(record.__dict__ | bare)
        return super().format(record)


def configure(level: str = "INFO", form: str = "text") -> None:
    """Log to this process's standard error, as text or JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Plain())
    logging.basicConfig(level=level, handlers=[handler])


def redirect_child_output() -> list[int]:
    """Make this child process print only its log; return the file descriptors to which the log goes.

    Libraries print to standard output and error: for example, LAPACK prints which argument was wrong if a matrix
    contains nan.
    """
    kept, own = [], dict[int, Any]()
    logging.lastResort = logging.StreamHandler(sys.stderr)  # logging's own default, if nobody has configured it
    logging.lastResort.setLevel(logging.WARNING)
    for handler in (logging.lastResort, *log.handlers, *logging.root.handlers):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the handler does not write to a file
            number = handler.stream.fileno()  # type: ignore[attr-defined]
            if number in (1, 2):
                own[number] = own.get(number) or os.fdopen(os.dup(number), "w", errors="backslashreplace")
                handler.setStream(own[number])  # type: ignore[attr-defined]
            kept.append(handler.stream.fileno())  # type: ignore[attr-defined]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    warnings.simplefilter("ignore")
    return kept
