"""Template addons under the manager as a whole: which template a cluster has, and what one more addon costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from muster.machinery.objects import Object
from muster.work.kinds import MANIFEST_WORKS
from tests.support.eventually import eventually
from tests.support.followed_addon import INSTALLED, OFFERS, TEMPLATES
from tests.support.mortal_hub import Life
from tests.unit.addon.conftest import ManagerSite

TEMPLATE = {"group": TEMPLATES.group, "resource": TEMPLATES.plural}


async def template(site: ManagerSite, name: str, addon: str, strategy: str) -> None:
    """One whose ConfigMap is applied by this update strategy."""
    place = {"name": "settings", "namespace": "hello-ns"}
    option = {
        "resourceIdentifier": {"group": "", "resource": "configmaps", **place},
        "updateStrategy": {"type": strategy},
    }
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"from": name}}
    spec = {"addonName": addon, "agentSpec": {"workload": {"manifests": [manifest]}, "manifestConfigs": [option]}}
    await site.admin.create(TEMPLATES, {**kind(TEMPLATES), "metadata": {"name": name}, "spec": spec})


def kind(resource: Any) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def offer(site: ManagerSite, addon: str) -> None:
    supported = [{**TEMPLATE, "defaultConfig": {"name": addon}}]
    metadata = {"name": addon, "annotations": {"addon.open-cluster-management.io/lifecycle": "addon-manager"}}
    await site.admin.create(OFFERS, {**kind(OFFERS), "metadata": metadata, "spec": {"supportedConfigs": supported}})


async def enable(site: ManagerSite, addon: str, cluster: str, *configs: Object) -> None:
    metadata = {"name": addon, "namespace": cluster}
    await site.admin.create(INSTALLED, {**kind(INSTALLED), "metadata": metadata, "spec": {"configs": list(configs)}})


async def work_of(site: ManagerSite, addon: str, cluster: str) -> Object:
    async def look() -> Any:
        found = (await site.admin.list(MANIFEST_WORKS, cluster)).items
        return next((one for one in found if one["metadata"]["name"] == f"addon-{addon}-deploy-0"), None)

    work: Object = await eventually(look, f"the work of {addon} on {cluster}")
    return work


async def test_manifest_configs_are_those_of_the_template_that_the_cluster_has(site: ManagerSite) -> None:
    """Defect 19: they would be the default template's on every cluster."""
    await site.with_clusters("c1", "c2")
    await template(site, "hello", "hello", "ServerSideApply")
    await template(site, "chosen", "hello", "CreateOnly")
    await offer(site, "hello")
    async with site.managed():
        await enable(site, "hello", "c1")
        await enable(site, "hello", "c2", {**TEMPLATE, "name": "chosen"})
        for cluster, name, strategy in (("c1", "hello", "ServerSideApply"), ("c2", "chosen", "CreateOnly")):
            spec = (await work_of(site, "hello", cluster))["spec"]
            assert spec["workload"]["manifests"][0]["data"] == {"from": name}
            assert [one["updateStrategy"]["type"] for one in spec["manifestConfigs"]] == [strategy]


async def test_one_more_template_addon_is_no_further_set_of_controllers(site: ManagerSite) -> None:
    """Defect 23: six controllers for each addon, with caches of their own. Here nothing more is followed but its template."""
    await site.with_clusters("c1")
    life = Life()
    followed: list[Counter[str]] = []
    async with site.managed(life):
        for number in range(4):
            name = f"addon{number}"
            await template(site, name, name, "Update")
            await offer(site, name)
            await enable(site, name, "c1")
            await work_of(site, name, "c1")
            followed.append(Counter(life.watched))
    one_more = followed[-1] - followed[0]
    assert any(path.endswith("/managedclusteraddons") for path in followed[0])
    assert set(one_more) <= {path for path in followed[0] if path.endswith("/addontemplates")}
    assert one_more.total() <= 3
