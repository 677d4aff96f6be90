"""One OpenMP thread for the tests: the harness forks workers, and a forked child cannot use its parent's thread pool."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
