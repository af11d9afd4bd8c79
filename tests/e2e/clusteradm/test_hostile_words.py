"""What a cluster says of itself reaches its hub's administrator as words, never as something that a terminal acts on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from muster.machinery.printable import is_printable
from tests.e2e.clusteradm.conftest import World, open_world
from tests.e2e.clusteradm.test_every_command import manifest
from tests.support.administrator import MANAGED_CLUSTERS

NAME = "hostile"
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egood\u200b\nError: forged"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\x0d\\x9b31m\\u202egood\\u200b\\nError: forged"
ADDON = f"/apis/addon.open-cluster-management.io/v1alpha1/namespaces/{NAME}/managedclusteraddons"
WORKS = f"/apis/work.open-cluster-management.io/v1/namespaces/{NAME}/manifestworks"
LINES = (
    "get clusters",
    f"get clusters {NAME}",
    "get works",
    f"get works evil --clusters {NAME}",
    "get addons",
    "get clustersets",
    "get placements",
    "addon list",
    f"doctor {NAME}",
    f"accept --clusters {NAME} --skip-approve-check --wait --timeout 300ms",
)
"""Commands that read what a cluster writes."""
FORMATS = {"get": ("tree", "table", "json", "yaml"), "addon": ("tree", "table", "json", "yaml"), "doctor": ("text", "json")}


def conditions(*kinds: str) -> list[dict[str, str]]:
    moment = "2026-01-01T00:00:00Z"
    return [
        {"type": kind, "status": "False", "reason": "Hostile", "message": HOSTILE, "lastTransitionTime": moment} for kind in kinds
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A hub of its own: what is said here would be in every list."""
    with open_world(tmp_path_factory.mktemp("hostile")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        speak(world)
        yield world


def speak(world: World) -> None:
    """The cluster says hostile things wherever it may."""
    hub = world.hub
    world.cluster(NAME)
    hub.wait_condition(NAME, "HubAcceptedManagedCluster")
    told = [*(hub.find(NAME) or {})["status"]["conditions"], *conditions("ManagedClusterConditionAvailable")]
    status: dict[str, Any] = {
        "version": {"kubernetes": HOSTILE},
        "conditions": told,
        "clusterClaims": [{"name": "id.k8s.io", "value": HOSTILE}],
    }
    hub.wait_reply(lambda: hub.admin.patch(f"{MANAGED_CLUSTERS}/{NAME}/status", {"status": status}), "the cluster's words", 200)
    world.ok("create", "work", "evil", "-f", str(manifest(world)), "--clusters", NAME)
    found = {"ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "default"}
    value = {"name": "said", "fieldValue": {"type": "String", "string": HOSTILE}}
    manifests = [
        {
            "resourceMeta": {**found, "name": "greeting"},
            "conditions": conditions("Applied", "Available"),
            "statusFeedback": {"values": [value]},
        }
    ]
    said = {"conditions": conditions("Applied", "Available"), "resourceStatus": {"manifests": manifests}}
    hub.wait_reply(lambda: hub.admin.patch(f"{WORKS}/evil/status", {"status": said}), "the work's words", 200)
    addon = {
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "ManagedClusterAddOn",
        "metadata": {"name": "evil"},
        "spec": {},
    }
    hub.admin.post(ADDON, addon).expect(201)
    hub.wait_reply(
        lambda: hub.admin.patch(f"{ADDON}/evil/status", {"status": {"conditions": conditions("Available")}}),
        "the addon's words",
        200,
    )


def shown_in(line: str) -> list[str]:
    return [f"{line} -o {output}" for output in FORMATS.get(line.split()[0], ())] or [line]


@pytest.mark.parametrize("line", [one for line in LINES for one in shown_in(line)])
def test_a_hostile_clusters_words_do_nothing_to_the_terminal(hostile: World, line: str) -> None:
    done = hostile.run(*line.split())
    assert is_printable(done.stdout), done.stdout
    assert is_printable(done.stderr), done.stderr
    assert not any(text.startswith("Error: forged") for text in done.output.splitlines())
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_they_are_shown_where_they_are_asked_for(hostile: World) -> None:
    for line in (f"get clusters {NAME} -o table", f"get works evil --clusters {NAME}", f"doctor {NAME}"):
        assert SHOWN in hostile.run(*line.split()).stdout, line


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_them_unchanged(hostile: World, output: str) -> None:
    said = hostile.ok("get", "clusters", NAME, "-o", output)
    [found] = (json.loads(said) if output == "json" else yaml.safe_load(said))["items"]
    assert found["status"]["version"]["kubernetes"] == HOSTILE
