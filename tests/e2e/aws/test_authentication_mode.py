"""`muster up --auth aws-irsa --aws-authentication-mode API`: a hub that has no `aws-auth` to look at."""

from __future__ import annotations

from pathlib import Path

from tests.support.aws_fleet import client, pair, up_on_aws
from tests.support.local_fleet import Fleet
from tests.support.sites import beside_kube

pytestmark = beside_kube


def test_a_hub_of_mode_api_knows_its_clusters_by_access_entries(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "data")

    def entries() -> set[str]:
        return set(client(fleet, "eks", "hub").list_access_entries(clusterName="hub")["accessEntries"])

    try:
        up_on_aws(fleet, "--aws-authentication-mode", "API")
        both = {pair("cluster1").hub_role_arn, pair("cluster2").hub_role_arn}
        assert entries() == both
        entry = {"clusterName": "hub", "principalArn": pair("cluster1").hub_role_arn}
        made = client(fleet, "eks", "hub").describe_access_entry(**entry)["accessEntry"]
        assert made["kubernetesGroups"] == ["open-cluster-management:cluster1"]
        assert "ocm-hub" not in fleet.kubectl("get", "configmaps", "-n", "kube-system", "-o", "yaml")
        fleet.work("cluster1")
        fleet("cluster", "remove", "cluster2")
        assert entries() == both - {pair("cluster2").hub_role_arn}
        fleet("down")
        fleet("up", "--detach")
        fleet.work("cluster1")
    finally:
        fleet.end()
