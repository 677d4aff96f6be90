"""On-disk cache of generated calls with torch's results, for the quick tier and the mutation tool.

A file holds one task's calls, indexed by overload, so that a run reads only the calls that it judges. Each folder is
for one version of torch and of NumPy, one state of the harness and one seed: if any of these changes, another folder is
used.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import pickle
import platform
import shutil
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..backends.backend import Backend, Seen
from ..case import Case
from ..generate.samples.opinfo import samples_of
from ..generate.samples.opinfo_reach import homes, listed
from ..generate.samples.recording import Recorder
from ..generate.task import Task

KEPT = 3  # number of folders kept; older ones are deleted
FEW = 12  # number of first samples of an entry and dtype that all run; later samples are thinned out
PARTS = ("generate", "backends/torch_backend.py", "backends/backend.py", "case.py", "schema_facts.py", "data/reach.tsv")


@cache
def state() -> str:
    """Return a hash of everything that determines which calls are generated and what torch returns for them."""
    root = Path(__file__).parents[1]
    h = hashlib.blake2b(digest_size=8)
    for version in (torch.__version__, np.__version__, platform.python_version(), platform.machine()):
        h.update(f"{version}\n".encode())
    h.update(f"{torch.backends.cpu.get_cpu_capability()} {os.environ['ONEDNN_MAX_CPU_ISA']}".encode())
    for part in (*PARTS, "run/oracle_cache.py"):
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            h.update(file.read_bytes())
    return h.hexdigest()


def cache_folder() -> Path:
    """Return the cache's root: the environment variable ``TORCHNP_CACHE``, or a folder in the user's cache."""
    given = os.environ.get("TORCHNP_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "torchnp" / "cases"


@dataclass(frozen=True)
class OracleCache:
    """The quick tier's calls: for each overload and dtype, the first ``calls`` calls (by hash) of each home entry.

    Parameters
    ----------
    folder : path
        The folder for the current state of the harness and this seed.
    calls : int
        The largest number of calls of each overload and dtype in a task.
    """

    folder: Path
    calls: int
    seed: int = 0
    choice: int = 0
    backward: bool = True
    order: int = 2

    def held(self, task: Task, wanted: Callable[[str], bool], oracle: Backend) -> list[tuple[Case, Seen]]:
        """Return a task's wanted calls with torch's results: from the cache, or generated now if they are not in it.

        All calls of the task are generated, except if it is a list of calls and less than half of its overloads are
        wanted.
        """
        whole = self.path(task)
        some = [op for op in listed(task.source) if wanted(op)]
        part = 0 < len(some) < len(listed(task.source)) / 2
        path = whole
        if part and not whole.exists():
            path = whole.with_name(
                f"{whole.name}-{hashlib.blake2b(' '.join(some).encode(), digest_size=8).hexdigest()}"
            )
        try:
            return read(path, wanted)
        except FileNotFoundError:
            pass
        except (EOFError, ValueError, pickle.UnpicklingError, zlib.error):  # a truncated file, perhaps from a full disk
            path.unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.write(path, self.drawn(task, oracle, wanted if part else lambda op: True))
        return read(path, wanted)

    def was_green(self, tasks: Sequence[Task]) -> bool:
        """Return whether torch has passed the control experiment on these tasks in an earlier run."""
        return self.green(tasks).exists()

    def note_green(self, tasks: Sequence[Task]) -> None:
        self.green(tasks).touch()

    def green(self, tasks: Sequence[Task]) -> Path:
        return self.folder / f"green-{hashlib.blake2b(repr(tasks).encode(), digest_size=8).hexdigest()}"

    def path(self, task: Task) -> Path:
        name = hashlib.blake2b(task.source.encode(), digest_size=4).hexdigest()
        letters = "".join(c if c.isalnum() else "_" for c in task.source)
        return self.folder / f"{letters}-{name}" / task.dtype

    def drawn(self, task: Task, oracle: Backend, wanted: Callable[[str], bool]) -> dict[str, list[tuple[Case, Seen]]]:
        """Generate a task's calls; return the selected ones with torch's results, by overload."""
        free = task.is_drawn  # all of these calls are kept
        at_home = lambda op: free or (wanted(op) and task.source in homes().get(op, ()))
        kept: dict[tuple[str, str], list[tuple[float, str, Case]]] = defaultdict(list)

        def take(case: Case) -> None:
            heap = kept[case.op, case.dtype]
            item = (-shard(case.digest, self.choice), case.digest, case)
            if any(digest == case.digest for _, digest, _ in heap):
                return
            if free or len(heap) < self.calls:
                heapq.heappush(heap, item)
            elif item > heap[0]:
                heapq.heapreplace(heap, item)

        recorder = Recorder(at_home, take, relay=not free)
        asked: dict[str, Any] = {"seed": self.seed, "backward": self.backward, "order": self.order}
        for _ in samples_of(task, recorder, few=FEW, **asked):
            pass
        by_op: dict[str, list[tuple[Case, Seen]]] = defaultdict(list)
        for (op, _), heap in sorted(kept.items()):
            by_op[op] += [(case, oracle.execute(case)) for _, _, case in sorted(heap, reverse=True)]
        return by_op

    @staticmethod
    def write(path: Path, by_op: dict[str, list[tuple[Case, Seen]]]) -> None:
        index: dict[str, tuple[int, int]] = {}
        blobs, offset = [], 0
        for op, pairs in by_op.items():
            blob = zlib.compress(pickle.dumps(pairs, pickle.HIGHEST_PROTOCOL), 1)
            index[op] = offset, len(blob)
            offset += len(blob)
            blobs.append(blob)
        head = pickle.dumps(index)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(blobs))
        part.replace(path)


def read(path: Path, wanted: Callable[[str], bool]) -> list[tuple[Case, Seen]]:
    """Return a file's calls of the wanted overloads, with torch's results."""
    found: list[tuple[Case, Seen]] = []
    with path.open("rb") as file:
        index: dict[str, tuple[int, int]] = pickle.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        for op, (offset, size) in index.items():
            if wanted(op):
                file.seek(start + offset)
                found += pickle.loads(zlib.decompress(file.read(size)))
    return found


def shard(digest: str, seed: int) -> float:
    """Return a pseudorandom number in [0, 1) that depends on a case's digest and a seed."""
    found = hashlib.blake2b(f"{digest}{seed}".encode(), digest_size=4).digest()
    return int.from_bytes(found, "little") / 2**32


def opened(seed: int = 0, choice: int = 0, backward: bool = True, order: int = 2, calls: int = 5) -> OracleCache:
    """Return the cache folder for the current state of the harness; remove all but the newest folders."""
    # a registered PrivateUse1 device changes torch's error messages
    device = getattr(torch._C, "_get_privateuse1_backend_name", str)()
    asked = f"{state()} {seed} {choice} {backward} {order} {calls} {device}"
    folder = cache_folder() / hashlib.blake2b(asked.encode(), digest_size=8).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    others = sorted(folder.parent.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in others[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return OracleCache(folder, calls, seed, choice, backward, order)
