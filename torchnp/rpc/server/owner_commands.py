"""``torchnp owner``: manage the budgets and freezes of a server's datasets in the ledger file, and make tokens."""

from __future__ import annotations

import argparse
import datetime
import difflib
import json
import os
from collections.abc import Callable

from torchnp.rpc.exceptions import LedgerError
from torchnp.rpc.server.privacy import accountant
from torchnp.rpc.server.privacy.ledger import EVERYBODY, Ledger

DELTA = 1e-6


def add_owner_commands(parser: argparse.ArgumentParser) -> None:
    """Add the owner's commands to a parser."""
    commands = parser.add_subparsers(dest="owner_command", required=True, metavar="COMMAND")

    def command(name: str, act: Callable, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.add_argument(
            "--ledger", metavar="FILE", default=os.environ.get("TORCHNP_LEDGER"), help="default: $TORCHNP_LEDGER"
        )
        sub.add_argument("--config", metavar="FILE", help="server.toml, whose datasets and clients are known names too")
        sub.set_defaults(act=act)
        return sub

    def amounts(sub: argparse.ArgumentParser, required: bool) -> None:
        sub.add_argument("--epsilon", type=float, required=required, help="of all releases together")
        sub.add_argument("--delta", type=float, default=DELTA, help="at which epsilon holds (default: %(default)s)")

    sub = command("grant", _grant, "Give a client a privacy budget of a dataset; replaces the one it had.")
    sub.add_argument("client", help="its name on the server")
    sub.add_argument("dataset", help="name of the dataset; digits for digits.x and digits.y")
    amounts(sub, True)
    sub = command("revoke", _revoke, "Take a client's budget away; what it spent stays spent.")
    sub.add_argument("client")
    sub.add_argument("dataset")
    sub = command("budget", _budget, "Show all budgets, or set the one of a dataset over all clients.")
    sub.add_argument("dataset", nargs="?")
    sub.add_argument("--new", action="store_true", help="the dataset has a name that the ledger does not know yet")
    amounts(sub, False)
    command("ledger", _ledger, "List the entries of the ledger.")
    sub = command("verify", _verify, "Look whether the ledger is what was written; prints the hash of its last entry.")
    sub.add_argument("--head", metavar="HASH", help="a hash printed before, whose entry has to be there still")
    sub = command("freeze", _freeze, "Stop all releases of a dataset.")
    sub.add_argument("dataset")
    sub.add_argument("--off", action="store_true", help="allow them again")
    text = "List the operators that keep a row label: what has rows can be released, and all else is mixed."
    sub = commands.add_parser("ops", help=text, description=text, allow_abbrev=False)
    sub.add_argument("--json", action="store_true", help="an object of names and rules")
    text = "Make a token for a client; prints it, which is the only time, and what server.toml keeps of it."
    sub = commands.add_parser("token", help=text, description=text, allow_abbrev=False)
    sub.add_argument("name", help="the client's, as in the ledger")


def run(args: argparse.Namespace) -> int:
    """Run the command that the options select; return the exit status.

    Raises
    ------
    ValueError, LedgerError
        The command cannot be carried out; the message is written for the user.
    """
    if args.owner_command == "token":
        return _token(args.name)
    if args.owner_command == "ops":
        from torchnp.rpc.server.row_preserving_ops import shown

        print(shown(args.json))
        return 0
    if not args.ledger:
        raise ValueError("name the ledger with --ledger FILE or $TORCHNP_LEDGER")
    ledger = Ledger(args.ledger, create=args.owner_command == "budget" and args.dataset is not None)
    try:
        if getattr(args, "dataset", None) is not None:
            _check_names(ledger, args)
        return args.act(ledger, args) or 0
    finally:
        ledger.close()


def _check_names(ledger: Ledger, args: argparse.Namespace) -> None:
    """Raise ValueError for a dataset that neither the ledger nor server.toml lists, or a client not in server.toml.

    The first budget of a new ledger may name any dataset, and so may a budget with ``--new``.
    """
    known, clients = ledger.datasets(), None
    if args.config is not None:
        from torchnp.rpc.server.serve_arguments import names_in

        datasets, clients = names_in(args.config)
        known |= datasets
    is_new = args.owner_command == "budget" and (args.new or not known)
    if args.dataset not in known and not is_new:
        words = f"there is no dataset {args.dataset!r}{_near(args.dataset, known)}"
        if args.owner_command == "budget":
            words += ". If it is a new one, say so with --new"
        elif args.config is None:
            words += ". Name server.toml with --config for what it serves, or give a budget first: torchnp owner budget"
        raise ValueError(words)
    if args.owner_command == "grant" and clients is not None and args.client not in {*clients, EVERYBODY}:
        raise ValueError(f"{args.config} has no client {args.client!r}{_near(args.client, clients)}")


def _near(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known)) or 'none'}"


def _token(name: str) -> int:
    from torchnp.rpc.server.config.tokens import Token, hash_of, new_token

    token = new_token()
    made = Token(name, hash_of(token))
    print(
        f'the token of {name}, which is not stored: {token}\n\n[tokens.{json.dumps(name, ensure_ascii=False)}]\nhash = "{made.hash}"'
    )
    return 0


def _grant(ledger: Ledger, args: argparse.Namespace) -> None:
    if args.client == EVERYBODY:
        raise ValueError(f"`torchnp owner budget {args.dataset}` sets what all clients have together")
    ledger.set_budget(args.dataset, args.epsilon, args.delta, args.client)
    print(f"{args.client} may spend epsilon {args.epsilon:g} at delta {args.delta:g} of {args.dataset}")
    if ledger.account(EVERYBODY, args.dataset).limit is None:
        print(
            f"nothing is released before {args.dataset} has a budget: torchnp owner budget {args.dataset} --epsilon E"
        )


def _revoke(ledger: Ledger, args: argparse.Namespace) -> None:
    ledger.revoke(args.client, args.dataset)
    print(f"{args.client} has no budget of {args.dataset} any more")


def _budget(ledger: Ledger, args: argparse.Namespace) -> None:
    if args.dataset is not None:
        if args.epsilon is None:
            raise ValueError(f"give the budget of {args.dataset} with --epsilon E")
        ledger.set_budget(args.dataset, args.epsilon, args.delta)
        print(f"all clients together may spend epsilon {args.epsilon:g} at delta {args.delta:g} of {args.dataset}")
        return
    rows = [("dataset", "client", "epsilon", "spent", "delta", "rho left", "")]
    for a in ledger.accounts():
        note = "frozen" if ledger.frozen(a.dataset) else "revoked" if a.limit is None else ""
        limit = f"{a.epsilon:g}" if a.limit is not None else "-"
        left = f"{float(a.left * accountant.UNIT):.4g}"
        client = "(all)" if a.client == EVERYBODY else a.client
        rows.append((a.dataset, client, limit, f"{a.epsilon_spent():.4g}", f"{a.delta:g}", left, note))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for cells in rows:
        print("  ".join(map(str.ljust, cells, widths)).rstrip())


def _ledger(ledger: Ledger, args: argparse.Namespace) -> None:
    for e in ledger.entries():
        when = datetime.datetime.fromtimestamp(e.time, datetime.UTC).isoformat(timespec="seconds")
        cost = f"rho={float(e.units * accountant.UNIT):.6g} " if e.units else ""
        said = " ".join(f"{k}={v}" for k, v in json.loads(e.body).items())
        print(f"{e.seq} {when} {e.kind} {e.dataset} {e.client} {cost}{said}".rstrip())


def _verify(ledger: Ledger, args: argparse.Namespace) -> int:
    try:
        head, count = ledger.verify(args.head), ledger.count()
        print(
            f"the chain of {count:,} entries holds, and so do totals and results: they are what was written. Its last hash:"
        )
        print(head)
    except LedgerError as error:
        print(f"the ledger was tampered with: {error}")
        return 1
    return 0


def _freeze(ledger: Ledger, args: argparse.Namespace) -> None:
    ledger.freeze(args.dataset, not args.off)
    print(f"{args.dataset} is {'released again' if args.off else 'frozen: nothing of it is released'}")
