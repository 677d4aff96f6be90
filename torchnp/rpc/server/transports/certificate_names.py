"""The names in a client's certificate, read from its DER encoding.

gRPC gives names as C strings, which end at a zero byte: to it, the name ``ann`` and the name ``ann``, a zero byte and
more are one. TLS over TCP does not need this module, because Python's ``ssl`` gives names in full.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator

_SEQUENCE, _EXTENSIONS = 0x30, 0xA3
_COMMON_NAME, _ALTERNATIVE_NAMES = b"\x55\x04\x03", b"\x55\x1d\x11"
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
_TEXTS, _ADDRESS = (0x81, 0x82, 0x86), 0x87  # a mail address, a host, or a URI; an IP address


def names_in(pem: str) -> frozenset[str]:
    """Return the common names and the alternative names of a certificate in PEM form, complete.

    Raises
    ------
    ValueError
        The text is no certificate.
    """
    ((_, certificate),) = _parts(ssl.PEM_cert_to_DER_cert(pem))
    (_, signed), *_ = _parts(certificate)
    fields = list(_parts(signed))
    # Version, which may be missing, then serial number, algorithm, issuer, validity, and subject.
    subject = [part for tag, part in fields if tag == _SEQUENCE][3]
    found = set(_common_names(subject))
    for extensions in (part for tag, part in fields if tag == _EXTENSIONS):
        found.update(_alternative_names(extensions))
    return frozenset(found)


def _common_names(subject: bytes) -> Iterator[str]:
    for _, parts in _parts(subject):
        for _, pair in _parts(parts):
            (_, kind), (tag, value) = _parts(pair)
            if kind == _COMMON_NAME and tag in _ENCODINGS:
                yield value.decode(_ENCODINGS[tag], "replace")


def _alternative_names(extensions: bytes) -> Iterator[str]:
    ((_, each),) = _parts(extensions)
    for _, extension in _parts(each):
        (_, kind), *_, (_, value) = _parts(extension)
        if kind == _ALTERNATIVE_NAMES:
            ((_, names),) = _parts(value)
            for tag, name in _parts(names):
                if tag in _TEXTS:
                    yield name.decode("ascii", "replace")
                elif tag == _ADDRESS:
                    yield str(ipaddress.ip_address(name))


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each value in a sequence of DER values."""
    at = 0
    while at < len(der):
        if at + 2 > len(der):
            raise ValueError("a value of DER is cut short")
        tag, length, start = der[at], der[at + 1], at + 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(der[at + 2 : start], "big")
        if start + length > len(der):
            raise ValueError("a value of DER is cut short")
        yield tag, der[start : start + length]
        at = start + length
