"""Runs kubectl against a cluster of a test: the machine's own, a current one from the environment, or the peers' 1.35.

Every cluster gets a cache directory of its own, because kubectl trusts discovery on disk for hours and test servers
reuse ports.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.support import peers
from tests.support.planes import Cluster, write_kubeconfig


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def expect(self, code: int = 0) -> "Outcome":
        assert self.code == code, f"kubectl ended with {self.code}, not {code}\n{self.out}\n{self.err}"
        return self

    @property
    def json(self) -> object:
        return orjson.loads(self.out)


def executable(which: str = "current") -> Path | None:
    """`machine`: the first on PATH; `current`: from the environment; `peer`: built from peers/. None when absent."""
    if which == "machine":
        found = shutil.which("kubectl")
        return Path(found) if found else None
    if which == "peer":
        return peers.find("kubectl")
    packaged = peers.ROOT / ".venv/bin/kubectl"
    return packaged if packaged.exists() else peers.find("kubectl")


def kubectl(
    cluster: Cluster,
    *arguments: str,
    input: str | None = None,
    kubectl: str = "current",
    user: str | None = None,
    timeout: float = 60,
    environment: dict[str, str] | None = None,
) -> Outcome:
    """One kubectl command, with the cluster's own kubeconfig or as the holder of the token `user`."""
    command, settings = _prepared(cluster, arguments, kubectl, user, environment)
    done = subprocess.run(command, input=input or "", capture_output=True, text=True, env=settings, timeout=timeout)
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def background(
    cluster: Cluster,
    *arguments: str,
    kubectl: str = "current",
    user: str | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """A kubectl command that goes on until the end of the block; what it says, errors too, is in its `stdout`."""
    command, settings = _prepared(cluster, arguments, kubectl, user, environment)
    with subprocess.Popen(
        command, text=True, env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _prepared(
    cluster: Cluster, arguments: Sequence[str], which: str, user: str | None, environment: dict[str, str] | None
) -> tuple[list[str], dict[str, str]]:
    program = executable(which)
    if program is None:
        raise peers.PeerMissing(f"no {which} kubectl here: run `make setup` or `make -C peers kube`")
    home = cluster.kubeconfig.parent
    kubeconfig = cluster.kubeconfig
    if user:
        # Not `--token`: a client certificate in the kubeconfig would win over it.
        kubeconfig = home / f"{cluster.name}-{hashlib.sha256(user.encode()).hexdigest()[:12]}.kubeconfig"
        write_kubeconfig(kubeconfig, cluster.url, cluster.ca, {"token": user})
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(home / f"kubectl-cache-{cluster.name}-{which}"),
        "LC_ALL": "C.UTF-8",
        **(environment or {}),
    }
    return [str(program), *arguments], settings
