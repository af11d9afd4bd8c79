"""A way to register that another distribution brings: by `clusteradm` and operators alone, on clusters whose nodes run the pods."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.operator.names import CLUSTER_MANAGER, CLUSTER_MANAGERS, KLUSTERLET, KLUSTERLETS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, CLUSTER_LABEL, HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, SIGNING_REQUESTS
from tests.e2e.clusteradm.claims import noted, shows, used
from tests.e2e.clusteradm.test_whole_fleet import SECONDS, Site
from tests.plugins import present
from tests.support.planes import USERS
from tests.support.processes import python_path
from tests.support.sites import open_sites

pytestmark = pytest.mark.timeout(400)

CLUSTER = "plugged"
"""The API servers know a user whose group is that of an agent of this cluster."""
TOKEN = USERS[CLUSTER].token
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
PERMIT = "static-token-permit"


@pytest.fixture
async def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Site]]:
    """A hub and a cluster; the driver is installed for this process, and for those that it starts."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with present("static_token", tmp_path / "site") as place:
        for name, value in python_path(place).items():
            monkeypatch.setenv(name, value)
        async with open_sites(tmp_path, "hub", "cluster") as grounds:
            yield [*map(Site, grounds)]


async def allow_permits(hub: Site) -> None:
    """What the driver does on the hub beyond us, its administrator has to allow."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete"]}]
    await hub.ground.admin.create(CLUSTER_ROLES, {"metadata": {"name": "permits"}, "rules": rules})
    account = {"kind": "ServiceAccount", "namespace": HUB_NAMESPACE, "name": "registration-controller-sa"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "permits"}
    binding = {"metadata": {"name": "permits"}, "subjects": [account], "roleRef": role}
    await hub.ground.admin.create(CLUSTER_ROLE_BINDINGS, binding)


@shows("init", "--registration-drivers", "--driver-option")
@shows("join", "--registration-auth", "--driver-option")
async def test_a_cluster_registers_lives_and_leaves_by_a_driver_of_another_distribution(sites: list[Site]) -> None:
    hub, cluster = sites
    await allow_permits(hub)
    words = ["init", "--registration-drivers", "static-token", "--driver-option", f"static-token.accepted-digest={DIGEST}"]
    noted.update(used(words))
    said = await hub(*words, "--wait")
    manager = await hub.ground.admin.get(CLUSTER_MANAGERS, CLUSTER_MANAGER)
    assert manager["spec"]["registrationConfiguration"]["registrationDrivers"] == [
        {"authType": "static-token", "driverOptions": {"accepted-digest": [DIGEST]}}
    ]

    command = shlex.split(next(line for line in said.splitlines() if " join " in line).replace("<cluster_name>", CLUSTER))[1:]
    assert command[command.index("--registration-auth") + 1] == "static-token"
    words = [*command, "--driver-option", f"static-token.token={TOKEN}"]
    noted.update(used(words))
    said = await cluster(*words)
    klusterlet = await cluster.ground.admin.get(KLUSTERLETS, KLUSTERLET)
    assert klusterlet["spec"]["registrationConfiguration"]["registrationDriver"] == {
        "authType": "static-token",
        "driverOptions": {"token": [TOKEN]},
    }
    agent = await cluster.ground.admin.get(DEPLOYMENTS, f"{KLUSTERLET}-registration-agent", AGENT_NAMESPACE)
    arguments = agent["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--registration-auth=static-token", f"--driver-option=static-token.token={TOKEN}"} <= set(arguments)
    assert not [one for one in arguments if one.startswith("--client-cert-expiration")], "it knows no certificates"

    accept = next(line for line in said.splitlines() if " accept " in line)
    assert "--fingerprint" not in accept
    await hub(*shlex.split(accept)[1:], "--wait")
    await hub.seen.until_condition(MANAGED_CLUSTERS, CLUSTER, "ManagedClusterConditionAvailable", "True", seconds=SECONDS)
    await cluster.seen.until_condition(KLUSTERLETS, KLUSTERLET, "HubConnectionDegraded", "False", seconds=SECONDS)
    requests = await hub.ground.admin.list(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL}={CLUSTER}")
    assert requests.items == []
    assert await hub.seen.find(CONFIG_MAPS, PERMIT, CLUSTER)

    assert f"The hub was told that {CLUSTER} leaves" in await cluster("unjoin", "--cluster-name", CLUSTER)
    await hub.seen.until_gone(CONFIG_MAPS, PERMIT, CLUSTER, seconds=SECONDS)
    assert await cluster.seen.find(KLUSTERLETS, KLUSTERLET) is None
