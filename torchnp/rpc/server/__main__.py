"""``python -m torchnp.rpc.server``: run a server on a free port."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from torchnp.rpc.exceptions import LedgerError
from torchnp.rpc.server.config.options import add_options
from torchnp.rpc.server.serve_arguments import serve_with


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``torchnp serve`` on a free port; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m torchnp.rpc.server", description="Run the operators of remote tensors."
    )
    add_options(parser, port=0)
    try:
        serve_with(parser.parse_args(argv))
    except (ValueError, TypeError, OSError, LedgerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
