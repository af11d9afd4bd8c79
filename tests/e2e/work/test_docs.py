"""The page about works is right: its commands are run as printed, against a hub and a managed cluster with an agent at work."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from muster.api.authentication.v1alpha1 import ManagedServiceAccountBinding
from muster.api.crds import ACCOUNTS, definitions
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.errors import NotFound
from muster.runtime.client.typed import served
from muster.runtime.install import apply_all, await_definitions
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from tests.support.pages import Page
from tests.support.planes import ControlPlane
from tests.support.working import Workplace

PAGE = Page("docs/work.md")

SHOWN = {one.kind: one for one in (MANIFEST_WORKS, REPLICA_SETS, served(ManagedServiceAccountBinding))}
AGENTS = "agents"
"""Where the page installs an agent by hand."""


@pytest.fixture
async def cluster1(plane: ControlPlane) -> AsyncIterator[Workplace]:
    """The page's names: `cluster1` on the hub, `shop` on the managed cluster."""
    place = Workplace(plane.cluster)
    place.name = "cluster1"
    await place.prepare()
    await place.admin.apply(MANAGED_CLUSTERS, {"metadata": {"name": "cluster1"}, "spec": {}}, manager="tests")
    yield place
    await place.admin.delete(MANAGED_CLUSTERS, "cluster1")
    for name in ("shop", AGENTS):
        with contextlib.suppress(NotFound):
            await place.admin.delete(NAMESPACES, name)
    await place.close()


def two_contexts(place: Workplace, directory: Path) -> Path:
    """A kubeconfig in which the hub and the managed cluster are called as on the page."""
    config = yaml.safe_load(place.cluster.kubeconfig.read_text())
    known = config["contexts"][0]["context"]
    config["contexts"] = [{"name": name, "context": known} for name in ("hub", "cluster1")]
    config["current-context"] = "hub"
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_what_the_page_says_to_type_works(cluster1: Workplace, tmp_path: Path) -> None:
    async with cluster1.agent():
        await PAGE.follow(two_contexts(cluster1, tmp_path), tmp_path)


def whole(example: Object) -> Object:
    """A part of a manifestConfig in a work that has it."""
    if "kind" in example:
        return example
    config = {"resourceIdentifier": {"resource": "configmaps", "name": "*", "namespace": "*"}, **example}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any", "namespace": "shop"}}
    spec = {"workload": {"manifests": [manifest]}, "manifestConfigs": [config]}
    kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
    return {**kind, "metadata": {"name": "any", "namespace": "cluster1"}, "spec": spec}


@pytest.mark.parametrize("text", PAGE.objects, ids=lambda text: text.split("\n")[1])
async def test_the_objects_that_the_page_shows_are_taken_by_the_hub_with_all_their_fields(place: Workplace, text: str) -> None:
    body = whole(yaml.safe_load(text))
    if "namespace" in body["metadata"]:
        body["metadata"]["namespace"] = place.name
    # As a hub has them whose configuration asks for bindings.
    await apply_all(place.admin, [(CRDS, definition) for definition in definitions(ACCOUNTS)], "tests")
    await await_definitions(place.admin, [kind.name for kind in ACCOUNTS], SYSTEM)
    path = SHOWN[body["kind"]].path(body["metadata"].get("namespace", ""))
    await place.admin.raw("POST", path, {"dryRun": "All", "fieldValidation": "Strict"}, body)


def test_every_block_of_the_page_is_run_printed_or_an_object() -> None:
    PAGE.check_blocks()
