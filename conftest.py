"""One OpenMP thread for the tests: small arrays gain nothing from more, and pytest-xdist and the harness have processes."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
