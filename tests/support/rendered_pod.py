"""The container of a Deployment that somebody rendered, as a process: its command, variables and files, and nothing else.

As with a kubelet, the command is looked for in the image (a directory of programs), `$(VARIABLE)` is filled in, and there are files
of the Secrets that its volumes name and of its account, whose token is all by which it reaches its cluster. It has mounts of its
own, in which /var/run is a directory of the test, and a network of its own, out of which ports of this machine can be reached.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from muster.machinery.objects import Object
from tests.support.administrator import service_account_token
from tests.support.network_namespace import NetworkNamespace
from tests.support.planes import Cluster
from tests.support.processes import Server, free_ports, tail

RUN: Final = "/var/run/"
ACCOUNT_FILES: Final = "secrets/kubernetes.io/serviceaccount"
_ENTER: Final = 'mount --bind "$0" /run && exec "$@"'
_ASK: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).status)"


class RenderedPod:
    """Use as a context manager. `secrets` are directories of files by the Secret's name."""

    def __init__(
        self,
        deployment: Object,
        cluster: Cluster,
        directory: Path,
        *,
        image: Path,
        secrets: Mapping[str, Path],
        reaching: Sequence[int] = (),
    ) -> None:
        self._namespace: str = deployment["metadata"]["namespace"]
        self._pod: Object = deployment["spec"]["template"]["spec"]
        (self.container,) = self._pod["containers"]
        self._name = f"{deployment['metadata']['name']}-0"
        self._cluster = cluster
        self._image = image
        self._run = directory / "run"
        self._mount(secrets)
        self._write_account()
        api = urlsplit(cluster.url).port
        assert api is not None
        (unused,) = free_ports(1)
        self._network = NetworkNamespace(directory, let_out=api, let_in=unused, renumbered={port: port for port in reaching})
        self._api = str(api)
        self.process = Server(self._name, [], directory / "pod.log")
        self._stack = ExitStack()

    def __enter__(self) -> RenderedPod:
        self._stack.enter_context(self._network)
        variables = self._variables()
        command = [_filled(part, variables) for part in (*self.container["command"], *self.container["args"])]
        alone = ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]
        self.process.command = [*self._network.within, "unshare", "--mount", "sh", "-c", _ENTER, str(self._run), *alone]
        self.process.start()
        self._stack.callback(self.process.stop, timeout=10)
        self.process.wait_until(lambda: self.probe("readinessProbe") == 200, 30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def probe(self, name: str) -> int:
        """What its own probe answers; 0 when nothing does."""
        asked = self.container[name]["httpGet"]
        url = f"http://127.0.0.1:{asked['port']}{asked['path']}"
        answer = subprocess.run([*self._network.within, sys.executable, "-c", _ASK, url], capture_output=True, text=True)
        return int(answer.stdout or 0)

    @property
    def within(self) -> list[str | Path]:
        """What runs a command in its network."""
        return list(self._network.within)

    def replace(self, place: str, files: Path) -> None:
        """The Secret that is mounted there has changed."""
        for file in files.iterdir():
            beside = self._run / f".{file.name}"
            shutil.copy(file, beside)
            beside.replace(self._run / place.removeprefix(RUN) / file.name)

    def log(self) -> str:
        return tail(self.process.log, 100_000)

    def _mount(self, secrets: Mapping[str, Path]) -> None:
        """Raises KeyError for a Secret that nobody has."""
        volumes = {one["name"]: one["secret"]["secretName"] for one in self._pod["volumes"]}
        for mount in self.container["volumeMounts"]:
            place = str(mount["mountPath"])
            assert place.startswith(RUN), place
            shutil.copytree(secrets[volumes[mount["name"]]], self._run / place.removeprefix(RUN))

    def _write_account(self) -> None:
        name = self._pod.get("serviceAccountName") or self._pod["serviceAccount"]
        files = self._run / ACCOUNT_FILES
        files.mkdir(parents=True)
        admin = self._cluster.client()
        (files / "token").write_text(service_account_token(admin, self._namespace, name))
        (files / "namespace").write_text(self._namespace)
        shutil.copy(self._cluster.ca, files / "ca.crt")

    def _variables(self) -> dict[str, str]:
        fields = {"metadata.name": self._name, "metadata.namespace": self._namespace, "status.podIP": "127.0.0.1"}
        own = {one["name"]: _value(one, fields) for one in self.container["env"]}
        reached = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": self._api}
        return {"PATH": str(self._image), "HOME": "/", **reached, **own}


def _value(variable: Object, fields: Mapping[str, str]) -> str:
    source: Any = variable.get("valueFrom")
    return str(variable["value"]) if source is None else fields[source["fieldRef"]["fieldPath"]]


def _filled(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), text)
