"""What a program finds around it that decides who it is on AWS, and where AWS is: variables and files, as values.

Nothing in this room looks at `os.environ`: a pod of a local fleet is a task among others of one process. `found` takes what the
boundary of whoever asks has (`machinery/confinement`), once; from then on it is a value, wherever it is looked at.
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
    """Of a file that a variable names. Raises OSError."""
    of_machine: bool = False
    """Whether these are the machine's own: then a user's profiles count, and programs and logins that they name."""

    @property
    def region(self) -> str:
        """Empty where nothing says it."""
        return self.environ.get(REGION) or self.environ.get(DEFAULT_REGION, "")

    def endpoint(self, service: str) -> str:
        """The URL at which a service is said to be; empty where AWS itself is meant."""
        return self.environ.get(f"{ENDPOINT_URL}_{service.upper()}") or self.environ.get(ENDPOINT_URL, "")

    def authority(self) -> bytes:
        """Certificates to trust instead of the machine's; empty where nothing is said. Raises OSError."""
        file = self.environ.get(CA_BUNDLE, "")
        return self.read(Path(file)) if file else b""


def found() -> ProcessEnv:
    """Those of whoever asks: a pod's, or the process' own."""
    pod = confinement.current()
    return ProcessEnv(confinement.environ(), partial(_read, pod), of_machine=pod is None)


def _read(pod: confinement.Confinement | None, path: Path) -> bytes:
    with confinement.confined(pod):
        return confinement.read(confinement.located(str(path)))
