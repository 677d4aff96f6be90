"""The names in a client's certificate.

gRPC gives names as C strings, which end at a zero byte: to it, the name ``ann`` and the name ``ann``, a zero byte and
more are one. TLS over TCP does not need this module, because Python's ``ssl`` gives names in full.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import NameOID

_ALTERNATIVES = (x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier, x509.IPAddress)


def names_in(pem: str) -> frozenset[str]:
    """Return the common names and the alternative names of a certificate in PEM form, complete.

    Raises
    ------
    ValueError
        The text is no certificate.
    """
    certificate = x509.load_pem_x509_certificate(pem.encode())
    found = {str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset(found)
    found.update(str(name.value) for name in extension.value if isinstance(name, _ALTERNATIVES))
    return frozenset(found)
