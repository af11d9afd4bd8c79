"""What only looks: how it can be shown, narrowed, watched and kept."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusteradm import claims
from tests.e2e.clusteradm.claims import row, shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World
from tests.support.client import Client
from tests.support.peers import ROOT

ADDON = "/apis/addon.open-cluster-management.io/v1alpha1"
PLACEMENT = "/apis/cluster.open-cluster-management.io/v1beta1"
WORKS = "/apis/work.open-cluster-management.io/v1"
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "default"}}


def document(place: str, kind: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": place.removeprefix("/apis/"), "kind": kind, "metadata": {"name": name}, "spec": {}, **parts}


def work(name: str) -> dict[str, Any]:
    return document(WORKS, "ManifestWork", name, spec={"workload": {"manifests": [MANIFEST]}})


@pytest.fixture
def stocked(world: World) -> World:
    """Clusters `gold` and `lead`, each with a work and an addon; placements in two namespaces."""
    admin = world.hub.admin
    world.ok("clusterset", "create", "metals")
    for name in ("gold", "lead"):
        world.cluster(name)
        world.hub.patch(name, {"metadata": {"labels": {"metal": name}}}).expect(200)
        admin.post(f"{WORKS}/namespaces/{name}/manifestworks", work(f"for-{name}")).expect(201, 409)
        admin.post(f"{ADDON}/clustermanagementaddons", document(ADDON, "ClusterManagementAddOn", f"a-{name}")).expect(201, 409)
        addon = document(ADDON, "ManagedClusterAddOn", f"a-{name}")
        admin.post(f"{ADDON}/namespaces/{name}/managedclusteraddons", addon).expect(201, 409)
        admin.post(f"{PLACEMENT}/namespaces/{name}/placements", document(PLACEMENT, "Placement", f"p-{name}")).expect(201, 409)
    world.ok("clusterset", "set", "metals", "--clusters", "gold")
    return world


@pytest.mark.parametrize(
    ("line", "column"),
    [
        row("get clusters --output", "NAME"),
        row("get works --output", "NAME"),
        row("get addons --output", "NAME"),
        row("get placements --output", "NAME"),
        row("get clustersets --output", "NAME"),
        row("addon list --output", "NAME"),
    ],
)
def test_a_list_is_shown_in_four_ways_with_the_same_content(stocked: World, line: str, column: str) -> None:
    shown = {output: stocked.ok(*line.split(), output) for output in ("tree", "table", "json", "yaml")}
    listed = json.loads(shown["json"])
    names = [one["metadata"]["name"] for one in listed["items"]]
    assert (listed["kind"], bool(names)) == ("List", True)
    assert [one["metadata"]["name"] for one in yaml.safe_load(shown["yaml"])["items"]] == names
    header, *rows = shown["table"].splitlines()
    assert header.startswith(column)
    assert [one.split()[0] for one in rows] == names
    assert shown["tree"].startswith("<")
    assert all(f"{name}>" in shown["tree"] for name in names)


@pytest.mark.parametrize(
    "line",
    [
        row("get clusters --show-managed-fields"),
        row("get works --show-managed-fields"),
        row("get addons --show-managed-fields"),
        row("get placements --show-managed-fields"),
        row("get clustersets --show-managed-fields"),
        row("addon list --show-managed-fields"),
    ],
)
def test_managed_fields_are_shown_to_whoever_asks_for_them(stocked: World, line: str) -> None:
    *command, flag = line.split()
    assert "managedFields" not in stocked.ok(*command, "-o", "json")
    assert "managedFields" in stocked.ok(*command, flag, "-o", "json")
    names = stocked.ok(*command, "-o", "name").split()
    listed = json.loads(stocked.ok(*command, "-o", "json"))["items"]
    assert [name.rpartition("/")[2] for name in names] == [one["metadata"]["name"] for one in listed]


@pytest.mark.parametrize(
    ("line", "context", "key"),
    [
        row("get hub-info --output", HUB, "operator"),
        row("get klusterlet-info --output", MANAGED, "operator"),
        row("version --output", HUB, "clusteradm"),
        row("doctor gold --output", HUB, "gold"),
    ],
)
def test_what_is_told_can_be_read_by_programs(stocked: World, line: str, context: str, key: str) -> None:
    def told(output: str) -> str:
        done = stocked.run(*line.split(), output, context=context)
        assert done.exit_code == (1 if line.startswith("doctor") else 0), done.output
        return done.stdout

    found = json.loads(told("json"))
    assert key in found
    assert yaml.safe_load(told("yaml")) == found
    with pytest.raises(json.JSONDecodeError):
        json.loads(told("text" if line.startswith(("doctor", "version")) else "tree"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        row("get clusters --clusterset metals", ["gold"]),
        row("get clusters -l metal=lead", ["lead"]),
        row("get clusters -l metal", ["gold", "lead"]),
        row("get works --clusters gold", ["for-gold"]),
        row("get addons a-gold --clusters gold", ["a-gold"]),
        row("get placements --namespace lead", ["p-lead"]),
        pytest.param("get placements p-gold", ["p-gold"], id="placements by name"),
        pytest.param("get clusters lead gold", ["gold", "lead"], id="clusters by name"),
    ],
)
def test_a_list_can_be_narrowed(stocked: World, line: str, expected: list[str]) -> None:
    assert [one["metadata"]["name"] for one in json.loads(stocked.ok(*line.split(), "-o", "json"))["items"]] == expected


@pytest.mark.parametrize("line", [row("addon list --clusters"), row("get addons --clusters")])
def test_addons_are_counted_on_the_clusters_that_are_asked_for(stocked: World, line: str) -> None:
    counted = {
        name: {line.split()[0]: line.split()[1] for line in stocked.ok(*line.split(), name, "-o", "table").splitlines()[1:]}
        for name in ("gold", "lead")
    }
    assert (counted["gold"]["a-gold"], counted["gold"]["a-lead"]) == ("1", "0")
    assert (counted["lead"]["a-gold"], counted["lead"]["a-lead"]) == ("0", "1")


@shows("version", "--client")
def test_of_the_tool_alone_no_server_is_asked(world: World) -> None:
    assert json.loads(world.ok("version", "-o", "json"))["server"].startswith("v1.")
    done = world.run("version", "--client", "-o", "json", context="away")
    assert done.exit_code == 0
    assert json.loads(done.stdout).keys() == {"clusteradm", "bundle"}
    assert done.stderr == ""


@shows("get token", "--use-bootstrap-token", "--output-file", "--output")
def test_a_token_is_written_where_it_is_wanted(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    told = json.loads(world.ok("get", "token", "--output", "json", "--output-file", str(file)))
    assert file.read_text() == f"{told['hub-token']}\n"
    assert file.stat().st_mode & 0o077 == 0
    assert told["hub-token"].count(".") == 2, "of a service account"
    world.ok("init", "--use-bootstrap-token")
    lasting = json.loads(world.ok("get", "token", "--use-bootstrap-token", "--output", "json"))["hub-token"]
    assert lasting.startswith("ocmhub.")
    assert f"token={lasting}\n" in world.ok("get", "token", "--use-bootstrap-token")
    clusters = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    for token in (told["hub-token"], lasting):
        known = Client(world.hub.cluster.url, ca=world.hub.cluster.ca, token=token)
        assert known.get(f"{clusters}/nobody-knows").status == 404, "it may ask for clusters by name"


@shows("doctor", "--managed-cluster-kubeconfig", "--managed-cluster-context")
def test_the_managed_side_can_be_looked_at_too(stocked: World) -> None:
    alone = stocked.run("doctor", "gold")
    for flags in (
        ["--managed-cluster-kubeconfig", str(stocked.managed.kubeconfig)],
        ["--managed-cluster-context", MANAGED],
        ["--managed-cluster-kubeconfig", str(stocked.kubeconfig), "--managed-cluster-context", MANAGED],
    ):
        told = stocked.run("doctor", "gold", *flags)
        assert (alone.exit_code, told.exit_code) == (1, 1)
        assert "no klusterlet is installed there" in told.stdout
        assert "no klusterlet is installed there" not in alone.stdout
    assert "name the one cluster" in stocked.fails("doctor", "--managed-cluster-context", MANAGED, code=2)


class Watching:
    """`clusteradm get … --watch` as a process."""

    def __init__(self, world: World, *words: str) -> None:
        claims.noted.update(claims.used(words))
        command = [str(ROOT / ".venv/bin/clusteradm"), "--kubeconfig", str(world.kubeconfig), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)

    def until(self, holds: Callable[[list[str]], bool]) -> None:
        """Reads lines until one of them, split into words, is right; the test's own time limit ends a vain wait."""
        assert self.process.stdout is not None
        seen = []
        while line := self.process.stdout.readline():
            seen.append(line)
            if holds(line.split()):
                return
        raise AssertionError(f"the watch ended after {seen}")

    def interrupt(self) -> str:
        assert self.process.poll() is None
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=20)
        return errors


Change = Callable[[World], None]


def _join_metals(world: World) -> None:
    world.ok("clusterset", "set", "metals", "--clusters", "watched")


def _bind_metals(world: World) -> None:
    world.ok("clusterset", "bind", "metals", "--namespace", "watched")


def _post(place: str, body: dict[str, Any]) -> Change:
    return lambda world: world.hub.admin.post(place, body).expect(201)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("line", "change", "expected", "undo"),
    [
        row("get clusters --watch", _join_metals, ["watched", "true", "metals"], ""),
        row(
            "get works --watch",
            _post(f"{WORKS}/namespaces/watched/manifestworks", work("seen")),
            ["seen", "watched", "1"],
            f"{WORKS}/namespaces/watched/manifestworks/seen",
        ),
        row(
            "get addons --watch",
            _post(f"{ADDON}/clustermanagementaddons", document(ADDON, "ClusterManagementAddOn", "seen")),
            ["seen", "0", "0"],
            f"{ADDON}/clustermanagementaddons/seen",
        ),
        row(
            "get placements --watch",
            _post(f"{PLACEMENT}/namespaces/watched/placements", document(PLACEMENT, "Placement", "seen")),
            ["seen", "watched"],
            f"{PLACEMENT}/namespaces/watched/placements/seen",
        ),
        row("get clustersets --watch", _bind_metals, ["metals", "watched"], ""),
    ],
)
def test_a_list_goes_on_with_the_rows_that_change(
    stocked: World, line: str, change: Change, expected: list[str], undo: str
) -> None:
    stocked.cluster("watched")
    stocked.ok("clusterset", "set", "default", "--clusters", "watched")
    stocked.hub.admin.delete(
        "/apis/cluster.open-cluster-management.io/v1beta2/namespaces/watched/managedclustersetbindings/metals"
    ).expect(200, 404)
    with Watching(stocked, *line.split()) as watching:
        watching.until(lambda words: words[0] == "NAME")
        change(stocked)
        watching.until(lambda words: words[: len(expected)] == expected)
        if undo:
            stocked.hub.admin.delete(undo).expect(200)
            watching.until(lambda words: words[0].endswith("seen") and words[1] == "(deleted)")
        assert "Traceback" not in watching.interrupt()


@pytest.mark.timeout(60)
def test_a_work_that_is_asked_for_by_name_goes_on_with_all_that_is_told_of_it(stocked: World) -> None:
    stocked.cluster("watched")
    path = f"{WORKS}/namespaces/watched/manifestworks"
    stocked.hub.admin.post(path, work("followed")).expect(201)
    failed = {
        "type": "Applied",
        "status": "False",
        "reason": "AppliedManifestFailed",
        "message": "Failed to apply manifest: no room",
    }
    failed |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    meta = {"ordinal": 0, "resource": "configmaps", "version": "v1", "kind": "ConfigMap", "name": "a", "namespace": "default"}
    entry = {"resourceMeta": {**meta, "group": ""}, "conditions": [failed]}
    with Watching(stocked, "get", "works", "followed", "--cluster", "watched", "--watch") as watching:
        watching.until(lambda words: words[-1:] == ["<Resources>"])
        stocked.hub.admin.patch(f"{path}/followed/status", {"status": {"resourceStatus": {"manifests": [entry]}}}).expect(200)
        watching.until(lambda words: words[-2:] == ["no", "room"])
        stocked.hub.admin.delete(f"{path}/followed").expect(200)
        watching.until(lambda words: "(deleted)>" in words)
        assert "Traceback" not in watching.interrupt()


@pytest.mark.timeout(60)
def test_who_sees_two_clusters_lists_and_watches_their_works_alone(stocked: World) -> None:
    names = ("near", "nearer")
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sees-works"}
    rules = [{"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": ["list", "watch"]}]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    for name in names:
        stocked.cluster(name)
        place = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}"
        stocked.hub.admin.post(f"{place}/roles", {"metadata": {"name": "sees-works"}, "rules": rules}).expect(201)
        binding = {"metadata": {"name": "sees-works"}, "roleRef": reference, "subjects": [subject]}
        stocked.hub.admin.post(f"{place}/rolebindings", binding).expect(201)
    stocked.hub.admin.post(f"{WORKS}/namespaces/near/manifestworks", work("first")).expect(201)
    bob = f"bob@{HUB}"
    both = ("get", "works", "--clusters", ",".join(names))
    assert "first" in stocked.ok(*both, "-o", "table", context=bob)
    assert '"bob" cannot list' in stocked.fails("get", "works", context=bob)
    with Watching(stocked, *both, "--watch", "--context", bob) as watching:
        watching.until(lambda words: words[0] == "first")
        stocked.hub.admin.post(f"{WORKS}/namespaces/nearer/manifestworks", work("second")).expect(201)
        watching.until(lambda words: words[:2] == ["second", "nearer"])
        assert "Traceback" not in watching.interrupt()
