"""A plane of their own for operators, since hubs are made and taken away there; the test plays kubelet, because nobody runs pods.

An operator runs with a token of its own service account over TLS, with the rights that its bundle gives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muster.operator.bundle import Operator
from muster.operator.names import OPERATOR_NAMESPACE
from muster.runtime.client import AuthInfo, ClientConfig, dump_kubeconfig, load_kubeconfig
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import DEPLOYMENTS, SERVICE_ACCOUNTS
from muster.runtime.client.errors import KubeError
from muster.runtime.client.http import HttpClient
from tests.support.operating import Observed, running
from tests.support.planes import Cluster, ControlPlane, lent
from tests.support.registration import MUSTER

PATIENT = 60.0
"""Seconds; a busy machine is slow, and a real API server takes its time with definitions."""


@dataclass
class World(Observed):
    cluster: Cluster
    well: set[str] = field(default_factory=set)
    """Namespaces whose Deployments are available as soon as they are there."""

    async def account(self, name: str, namespace: str = OPERATOR_NAMESPACE) -> ClientConfig:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = await self.admin.create(SERVICE_ACCOUNTS, review, namespace, name=name, subresource="token")
        return ClientConfig(self.cluster.url, self.cluster.ca, identity=AuthInfo(token=answer["status"]["token"]))

    async def operator_config(self, operator: Operator) -> ClientConfig:
        """Of its own account, with everything around it installed."""
        await self.surround(operator)
        await self.until_found(SERVICE_ACCOUNTS, operator.name, OPERATOR_NAMESPACE)
        return await self.account(operator.name)

    async def operator(self, operator: Operator) -> KubeClient:
        return HttpClient(await self.operator_config(operator))

    async def operator_command(self, operator: Operator, image: str, directory: Path) -> list[str | Path]:
        """To run it as a process of its own."""
        kubeconfig = directory / f"{operator.name}.kubeconfig"
        kubeconfig.write_text(dump_kubeconfig(await self.operator_config(operator)))
        flags = ["--image", image, "--no-leader-elect", "--health-port", "0"]
        return [MUSTER, "operator", operator.name, "--kubeconfig", kubeconfig, *flags]

    async def play_kubelet(self) -> None:
        while True:
            for namespace in list(self.well):
                await self._tend(namespace)
            await asyncio.sleep(0.1)

    async def _tend(self, namespace: str) -> None:
        try:
            for found in (await self.admin.list(DEPLOYMENTS, namespace)).items:
                await self.say_available(found)
        except KubeError:
            # It was deleted meanwhile.
            return


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("operators"), "far")


def administrator(cluster: Cluster) -> HttpClient:
    return HttpClient(load_kubeconfig(Path(cluster.kubeconfig), environ={}))


@pytest.fixture
async def world(ground: ControlPlane) -> AsyncIterator[World]:
    admin = administrator(ground.cluster)
    made = World(admin, ground.cluster)
    async with running(made.play_kubelet()):
        yield made
    await admin.close()
