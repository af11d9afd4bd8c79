"""A way to register that another distribution brings: installed beside us, named on two command lines, and nothing else."""

from __future__ import annotations

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import RBAC
from tests.support.planes import USERS
from tests.support.registration import Hub

PERMIT = "/api/v1/namespaces/plugged/configmaps/static-token-permit"


def test_a_cluster_registers_by_a_driver_of_another_distribution(fleet: Fleet, second_hub: Hub, plugin: dict[str, str]) -> None:
    hub = second_hub
    # What the driver does on the hub beyond us, its administrator has to allow.
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete"]}]
    hub.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": "permits"}, "rules": rules}).expect(201)
    account = {"kind": "ServiceAccount", "namespace": "open-cluster-management-hub", "name": "registration-controller-sa"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "permits"}
    binding = {"metadata": {"name": "permits"}, "subjects": [account], "roleRef": role}
    hub.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)

    token = USERS["plugged"].token
    flags = ["--registration-auth=static-token", f"--driver-option=static-token.token={token}"]
    agent = fleet.agent("plugged", hub=hub, flags=flags, environment=plugin)

    hub.wait_available("plugged")
    assert agent.secret["token"] == token.encode()
    assert hub.requests("plugged") == []
    hub.admin.get(PERMIT).expect(200)
    assert token not in agent.process.log.read_text()

    hub.deny("plugged")

    hub.wait(lambda: hub.admin.get(PERMIT).status == 404, "the driver to take back what it gave")


def test_a_driver_that_is_not_there_is_named_at_once(fleet: Fleet) -> None:
    agent = fleet.agent("unplugged", flags=["--registration-auth=static-token"])
    fleet.hub.wait(lambda: not agent.process.running, "the agent to give up")
    assert "there is no registration driver 'static-token'; there are: awsirsa, csr" in agent.process.log.read_text()
