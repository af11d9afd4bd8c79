"""The environment that determines a program's AWS identity and endpoints: variables and files, as values.

Nothing in this package reads `os.environ`: a pod of a local fleet is one of several tasks of a process. `found` reads the
environment of the current confinement (`machinery/confinement`) once; after that it is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from muster.machinery import confinement

ROLE_ARN: Final = "AWS_ROLE_ARN"
TOKEN_FILE: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"
SESSION_NAME: Final = "AWS_ROLE_SESSION_NAME"
REGION: Final = "AWS_REGION"
DEFAULT_REGION: Final = "AWS_DEFAULT_REGION"
CA_BUNDLE: Final = "AWS_CA_BUNDLE"
ENDPOINT_URL: Final = "AWS_ENDPOINT_URL"


@dataclass(frozen=True)
class ProcessEnv:
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    read: Callable[[Path], bytes] = Path.read_bytes
    """Reads a file that a variable names. Raises OSError."""
    of_machine: bool = False
    """Whether it is the machine's own environment: then a user's profiles are used, with their programs and logins."""

    @property
    def region(self) -> str:
        """Empty if it is not set."""
        return self.environ.get(REGION) or self.environ.get(DEFAULT_REGION, "")

    def endpoint(self, service: str) -> str:
        """The configured URL of a service; empty for AWS itself."""
        return self.environ.get(f"{ENDPOINT_URL}_{service.upper()}") or self.environ.get(ENDPOINT_URL, "")

    def authority(self) -> bytes:
        """CAs to trust instead of the machine's; empty if none are configured. Raises OSError."""
        file = self.environ.get(CA_BUNDLE, "")
        return self.read(Path(file)) if file else b""


def found() -> ProcessEnv:
    """The environment of the current task: a pod's, or the process's own."""
    pod = confinement.current()
    return ProcessEnv(confinement.environ(), partial(_read, pod), of_machine=pod is None)


def _read(pod: confinement.Confinement | None, path: Path) -> bytes:
    with confinement.confined(pod):
        return confinement.read(confinement.located(str(path)))
