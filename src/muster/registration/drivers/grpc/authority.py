"""The certificate authority that signs the certificates of gRPC agents, reloaded from two files.

The files may be replaced at any time: each signature uses their present content. While both are being replaced, a reader may see a
certificate that does not belong to the key; nothing is signed with such a pair, nor with an expired authority, and the caller
retries. In a file with several certificates the one that belongs to the key is used, so that a bundle with the previous authority
works too.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from muster.kube.certificates import CertificateAuthority, UnusableAuthority
from muster.machinery.confinement import read, shown
from muster.runtime.client import stamp_of


class NoAuthority(Exception):
    """Nothing can be signed now; `file` is the one to correct."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{shown(file)}: {problem}")
        self.file = file
        self.problem = problem


class SigningAuthority:
    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._loaded: tuple[object, CertificateAuthority] | None = None
        """The authority, with the stat results of its files."""

    def current(self, now: datetime) -> CertificateAuthority:
        """The present authority. Raises NoAuthority."""
        # Taken before reading, so that a write during the read is noticed as a change.
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
