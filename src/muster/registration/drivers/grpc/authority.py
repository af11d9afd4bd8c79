"""The authority that signs the certificates of gRPC agents, as it is in two files now.

Whoever keeps it may replace it at any time: each signature is made with what the files say then. A certificate that is not for the
key beside it is what a reader sees while somebody replaces both; nothing is signed with such a pair, nor with an authority that has
ended, and whoever asked tries again. In a file with several certificates the one that the key is for counts, so that a bundle with
the authority's predecessor does too.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from muster.kube.certificates import CertificateAuthority, UnusableAuthority
from muster.machinery.confinement import read, shown
from muster.runtime.client import stamp_of


class NoAuthority(Exception):
    """Nothing can be signed now; `file` is the one to look after."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{shown(file)}: {problem}")
        self.file = file
        self.problem = problem


class SigningAuthority:
    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._loaded: tuple[object, CertificateAuthority] | None = None
        """With what the files looked like."""

    def current(self, now: datetime) -> CertificateAuthority:
        """Raises NoAuthority."""
        # Taken before reading: what is written meanwhile will be seen to have changed.
        stamps = (stamp_of(self._certificate), stamp_of(self._key))
        if self._loaded is None or self._loaded[0] != stamps:
            self._loaded = (stamps, self._load(_read(self._certificate), _read(self._key)))
        authority = self._loaded[1]
        end = authority.certificate.not_valid_after_utc
        if end <= now:
            raise NoAuthority(self._certificate, f"this authority ended at {end:%Y-%m-%dT%H:%M:%SZ}; put a new one there")
        return authority

    def _load(self, certificate: bytes, key: bytes) -> CertificateAuthority:
        try:
            return CertificateAuthority.read(certificate, key)
        except UnusableAuthority as error:
            raise NoAuthority(self._key if error.of_key else self._certificate, error.problem) from None


def _read(file: Path) -> bytes:
    try:
        return read(file)
    except OSError as error:
        raise NoAuthority(file, error.strerror or str(error)) from None
