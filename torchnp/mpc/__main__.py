"""Commands: ``python -m torchnp.mpc dealer`` runs the dealer, ``certificate`` makes a party's certificate and key."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from torchnp.mpc.certificates import make_certificate
from torchnp.mpc.dealer_process import serve_dealer
from torchnp.mpc.links import Party


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    top = argparse.ArgumentParser(prog="python -m torchnp.mpc", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("certificate", help="write NAME.pem, to give to the others, and NAME.key, to keep")
    sub.add_argument("name")
    sub.add_argument("--days", type=int, default=365, help="how long it is valid (default: %(default)s)")
    sub = commands.add_parser("dealer", help="deal correlated randomness; must not belong to a party")
    sub.add_argument("address", help="host:port to listen on")
    sub.add_argument("--certificate", required=True, metavar="PEM", help="of the dealer")
    sub.add_argument("--key", required=True, metavar="PEM", help="of the dealer")
    sub.add_argument(
        "--party", action="append", required=True, metavar="PEM", help="a party's certificate: once for each, in order"
    )
    sub.add_argument("--sessions", type=int, default=0, help="sessions after which it ends (default: no end)")
    args = top.parse_args(argv)
    if args.command == "certificate":
        print(*make_certificate(args.name, days=args.days))
        return 0
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    parties = [Party("", certificate) for certificate in args.party]
    serve_dealer(Party(args.address, args.certificate), args.key, parties, sessions=args.sessions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
