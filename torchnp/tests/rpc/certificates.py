"""Certificates for the tests of TLS: an authority, a server on loopback, a client, and strangers with another
authority."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trustme


class Pair(NamedTuple):
    cert: Path
    key: Path


class Authority:
    """An authority with its own files in a directory."""

    def __init__(self, where: Path, name: str) -> None:
        self._authority, self._where, self._name = trustme.CA(), where, name
        self.ca = where / f"{name}-ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issued(self, identity: str, common_name: str | None = None) -> Pair:
        """The files of a certificate for a host or a person, and its key."""
        issued = self._authority.issue_cert(identity, common_name=common_name)
        pair = Pair(*(self._where / f"{self._name}-{identity}-{part}.pem" for part in ("cert", "key")))
        issued.cert_chain_pems[0].write_to_path(pair.cert)
        issued.private_key_pem.write_to_path(pair.key)
        return pair
