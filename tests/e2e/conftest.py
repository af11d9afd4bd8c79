"""`kc`: kubectl, at work in a namespace of its own.

Servers are ours to get wrong, so the embedded one meets the current kubectl and the oldest at hand; the real one is there to show
that the tests are right, for which the current one is enough. What the oldest finds is rarely anything else than what the current
one does, so it meets the embedded server beside the real one (`make test-kube`), where time is not short.

`fresh`: a local fleet of a test's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.administrator import wait_reply
from tests.support.client import Client
from tests.support.kubectl import Outcome, executable, kubectl
from tests.support.local_fleet import Fleet
from tests.support.planes import USERS, ControlPlane
from tests.support.sites import KUBE

_numbers = itertools.count(1)
OLDEST = [which for which in ("machine", "peer") if executable(which) is not None][:1]
VERSIONS = [*OLDEST, "current"] if KUBE else ["current"]


class Kubectl:
    def __init__(self, plane: ControlPlane, which: str, namespace: str, scratch: Path) -> None:
        self.plane = plane
        self.which = which
        self.namespace = namespace
        self.scratch = scratch
        self.client: Client = plane.client()
        self._cleanup: list[str] = []

    def __call__(
        self,
        *arguments: str,
        code: int = 0,
        input: str | None = None,
        user: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> Outcome:
        """Runs in the own namespace; ends with `code` or the test fails. `user` is a static user's name, or a token."""
        token = USERS[user].token if user is not None and user in USERS else user
        outcome = kubectl(
            self.plane.cluster,
            *arguments,
            "-n",
            self.namespace,
            input=input,
            kubectl=self.which,
            user=token,
            environment=environment,
        )
        return outcome.expect(code)

    def out(self, *arguments: str, **options: Any) -> str:
        """Standard output without the surrounding space."""
        return self(*arguments, **options).out.strip()

    def fails(self, *arguments: str, **options: Any) -> str:
        """The error text of a command that must end with 1."""
        return self(*arguments, code=1, **options).err.strip()

    def path(self, plural: str, name: str = "", prefix: str = "/api/v1") -> str:
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def remove_later(self, path: str) -> None:
        """Something outside the namespace, to delete after the test."""
        self._cleanup.append(path)

    def close(self) -> None:
        for path in (*self._cleanup, f"/api/v1/namespaces/{self.namespace}"):
            self.client.delete(path)
        self.client.close()


@pytest.fixture(params=VERSIONS)
def kc(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kubectl]:
    plane: ControlPlane = request.getfixturevalue("plane" if request.param == "current" else "embedded_plane")
    namespace = f"kubectl-{request.param}-{next(_numbers)}"
    made = Kubectl(plane, request.param, namespace, tmp_path)
    made.client.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).expect(201)
    wait_reply(lambda: made.client.get(made.path("serviceaccounts", "default")), "pods may be made", 200)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Fleet]:
    """A local fleet that is not there yet."""
    made = Fleet(tmp_path / "data")
    yield made
    if (made.directory / "fleet.json").exists():
        made.end()
