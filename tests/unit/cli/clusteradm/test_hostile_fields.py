"""Every command that reads what agents write, on a hub where agents wrote whatever the server takes."""

from __future__ import annotations

from muster.api.cluster.v1 import ManagedCluster
from muster.api.resource import TypedObject as Kind
from muster.api.structural import object_schema
from muster.api.work.v1 import ManifestWork
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import BadRequest, Invalid
from tests.support.hostile import VALUES, fields, written
from tests.unit.cli.clusteradm.conftest import Fleet

COMMANDS = (
    "get clusters",
    "get clusters -o table",
    "get clusters -o yaml",
    "get clusters -o json",
    "get works",
    "get works -o table",
    "get works -o yaml",
    "get clustersets",
    "get placements",
    "get addon",
    "get hub-info",
)


async def plant(fleet: Fleet, kind: type[Kind], name: str, namespace: str, part: str) -> list[str]:
    """Write every value into every field, an object each; gives the names of those that the server took."""
    schema, admin = object_schema(kind), fleet.admin()
    taken = []
    for index, field in enumerate(path for path in fields(schema) if path[0] == part):
        for number, value in enumerate(VALUES):
            made = f"{name}-{index}-{number}"
            head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "spec": {}}
            metadata = {"name": made, **({"namespace": namespace} if namespace else {})}
            await admin.raw("POST", kind.resource.path(namespace=namespace), body={**head, "metadata": metadata})
            body = written(schema, field, value).encode()
            path = kind.resource.path(made, namespace, part if part == "status" else "")
            try:
                await admin.exchange("PATCH", path, {}, body, "application/merge-patch+json", idempotent=False)
                taken.append(made)
            except (BadRequest, Invalid):
                await admin.raw("DELETE", kind.resource.path(made, namespace))
    return taken


async def test_no_command_stumbles_over_what_agents_wrote(fleet: Fleet) -> None:
    await fleet.admin().create(NAMESPACES, {"metadata": {"name": "c1"}})
    clusters = await plant(fleet, ManagedCluster, "s", "", "status") + await plant(fleet, ManagedCluster, "p", "", "spec")
    works = await plant(fleet, ManifestWork, "w", "c1", "status")
    assert len(clusters) > 100
    assert len(works) > 100
    for command in COMMANDS:
        assert await fleet.ok(*command.split()), command
    for name in clusters[::10]:
        await fleet.ok("accept", "--clusters", name, "--skip-approve-check", "--dry-run")
        result = await fleet.run("doctor", "--cluster-name", name)
        assert result.exception is None or isinstance(result.exception, SystemExit), (name, result.exception)
    for name in works[::10]:
        await fleet.ok("get", "works", name, "--clusters", "c1")
    assert len((await fleet.admin().list(MANIFEST_WORKS, "c1")).items) == len(works)
