"""What holds for every command of `clusteradm`: whom it turns away, what it says to wrong input, and that a dry run writes nothing.

`COMMANDS` has each command with words that would change something, and where that is; a command that is missing there fails a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from muster.cli.clusteradm import main
from tests.e2e.clusteradm.conftest import AWAY, HUB, MANAGED, World
from tests.support.administrator import HUB_NAMESPACE, MANAGED_CLUSTERS, managed_cluster

ADDON = "/apis/addon.open-cluster-management.io/v1alpha1"
JOIN = "--cluster-name new --hub-token {token} --hub-apiserver {server} --ca-file {ca} --force"


@dataclass(frozen=True)
class Command:
    path: str
    words: str = ""
    where: str = HUB
    writes: bool = True
    """Whether a dry run tells of something that would be done."""
    only_on_hubs: bool = True

    def line(self, world: World) -> list[str]:
        filled = self.words.format(token="a.b.c", server=world.hub.cluster.url, ca=world.hub.cluster.ca, file=manifest(world))
        return [*self.path.split(), *filled.split()]


COMMANDS = (
    Command("init", "--use-bootstrap-token --feature-gates ManagedClusterAutoApproval=true", only_on_hubs=False),
    Command("accept", "--clusters waiting --skip-approve-check"),
    Command("addon disable", "--names there --clusters known"),
    Command("addon enable", "--names other --clusters known"),
    Command("addon list", writes=False),
    Command("clean", "--force", only_on_hubs=False),
    Command("clusterset bind", "full --namespace kube-public"),
    Command("clusterset create", "new"),
    Command("clusterset delete", "empty"),
    Command("clusterset set", "full --clusters known"),
    Command("clusterset unbind", "full --namespace default"),
    Command("create clusterset", "new"),
    Command("create work", "new -f {file} --clusters known"),
    Command("delete clusterset", "empty"),
    Command("delete token", only_on_hubs=False),
    Command("delete work", "there --clusters known --force"),
    Command("doctor", "nobody", writes=False),
    Command("get addons", writes=False),
    Command("get clusters", writes=False),
    Command("get clustersets", writes=False),
    Command("get hub-info", writes=False, only_on_hubs=False),
    Command("get klusterlet-info", where=MANAGED, writes=False, only_on_hubs=False),
    Command("get placements", writes=False),
    Command("get token", writes=False, only_on_hubs=False),
    Command("get works", writes=False),
    Command(
        "join",
        "--cluster-name new --hub-token {token} --hub-apiserver {server} --ca-file {ca} --force",
        MANAGED,
        only_on_hubs=False,
    ),
    Command("unjoin", "--cluster-name nobody", MANAGED, writes=False, only_on_hubs=False),
    Command("upgrade clustermanager", "--bundle-version v9", only_on_hubs=False),
    Command("upgrade klusterlet", "", MANAGED, writes=False, only_on_hubs=False),
)
ASK_NOBODY = {"completion", "version"}
MAY_END_WITH_1 = {"doctor", "unjoin", "upgrade klusterlet"}
"""Where there is nothing to be done, or something to be told."""


def manifest(world: World) -> Path:
    path = world.directory / "manifest.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting, namespace: default}\ndata: {hello: world}\n")
    return path


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


def identify(command: Command) -> str:
    return command.path.replace(" ", "-")


every = pytest.mark.parametrize("command", COMMANDS, ids=identify)


@pytest.fixture(scope="module")
def furnished(whole_world: World) -> World:
    """With something of each kind that a command could change."""
    world, hub = whole_world, whole_world.hub
    world.cluster("known")
    hub.admin.post(MANAGED_CLUSTERS, managed_cluster("waiting")).expect(201, 409)
    for name in ("there", "other"):
        addon = {
            "apiVersion": ADDON.removeprefix("/apis/"),
            "kind": "ClusterManagementAddOn",
            "metadata": {"name": name},
            "spec": {},
        }
        hub.admin.post(f"{ADDON}/clustermanagementaddons", addon).expect(201, 409)
    for name in ("full", "empty"):
        world.ok("clusterset", "create", name)
    world.ok("clusterset", "bind", "full", "--namespace", "default")
    world.ok("addon", "enable", "--names", "there", "--clusters", "known")
    world.ok("create", "work", "there", "-f", str(manifest(world)), "--clusters", "known", "--overwrite")
    hub.wait(
        lambda: "cluster.open-cluster-management.io/clusterset" in ((hub.find("waiting") or {})["metadata"].get("labels") or {}),
        "the webhooks have seen the cluster",
    )
    return world


def test_every_command_is_in_the_table() -> None:
    assert set(leaves(main)) == {command.path for command in COMMANDS} | ASK_NOBODY


@every
def test_a_dry_run_writes_nothing(world: World, furnished: World, command: Command) -> None:
    before = world.objects(HUB), world.objects(MANAGED)
    done = world.run(*command.line(world), "--dry-run", context=command.where)
    assert done.exit_code == 0 or command.path in MAY_END_WITH_1, done.output
    assert "dry-run mode" in done.stderr
    assert not command.writes or "would " in done.output, "it says what it would do"
    assert (world.objects(HUB), world.objects(MANAGED)) == before


@every
def test_who_may_do_nothing_is_told_what_is_missing(world: World, furnished: World, command: Command) -> None:
    before = world.objects(command.where)
    told = world.fails(*command.line(world), context=f"mallory@{command.where}")
    assert "mallory" in told or "forbidden" in told.lower() or "permission" in told
    assert world.objects(command.where) == before


@every
def test_who_is_unknown_is_turned_away(world: World, command: Command) -> None:
    assert "credentials" in world.fails(*command.line(world), context=f"nobody@{command.where}")


@every
def test_a_server_that_is_away_is_named(world: World, command: Command) -> None:
    assert "127.0.0.1" in world.fails(*command.line(world), "--timeout", "2s", context=AWAY)


@every
def test_a_context_that_is_none_is_named(world: World, command: Command) -> None:
    assert "no-such-context" in world.fails(*command.line(world), context="no-such-context")


@every
def test_unknown_flags_are_wrong_usage(world: World, command: Command) -> None:
    assert "--no-such-flag" in world.fails(*command.line(world), "--no-such-flag", code=2)


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.only_on_hubs], ids=identify)
def test_commands_for_hubs_are_refused_elsewhere(world: World, command: Command) -> None:
    told = world.fails(*command.line(world), context=MANAGED)
    assert "hub oriented command should not running against non-hub cluster" in told


@pytest.mark.parametrize(
    ("line", "complaint", "code"),
    [
        ("accept", "--clusters", 2),
        ("accept --clusters nobody-knows", "nobody-knows", 1),
        ("accept --clusters nobody-knows --wait --timeout 500ms", "nobody-knows", 1),
        ("addon enable --clusters known", "--names", 2),
        ("addon enable --names other", "--clusters", 2),
        ("addon enable --names nonsense --clusters known", "enabling the unknown addon nonsense is not supported", 1),
        ("addon enable --names other --clusters nobody-knows", "nobody-knows", 1),
        ("addon enable --names other --clusters known --config-file /nowhere.yaml", "/nowhere.yaml", 1),
        ("addon disable --names nonsense --clusters known", "nonsense", None),
        ("clean --name nobody-knows", "nobody-knows", 1),
        ("clusterset create", "NAME", 2),
        ("clusterset create No_Name", "No_Name", 1),
        ("clusterset set full", "--clusters", 2),
        ("clusterset set full --clusters nobody-knows", "nobody-knows", 1),
        ("clusterset bind nobody-knows", "nobody-knows", 1),
        ("clusterset bind full --namespace nowhere", "nowhere", 1),
        ("create work w --clusters known", "--filename", 2),
        ("create work w -f {file}", "--clusters", 2),
        ("create work w -f /nowhere.yaml --clusters known", "/nowhere.yaml", 1),
        ("create work w -f {file} --clusters nobody-knows", "nobody-knows", 1),
        ("create work w -f {file} --placement nowhere", "--placement", None),
        ("create work w -f {file} --clusters known --replicaset", "--placement", None),
        ("create work there -f {file} --clusters known", "already exists", None),
        ("delete work nothing --clusters known", "nothing", None),
        ("get clusters nobody-knows", "nobody-knows", 1),
        ("get clusters -o poem", "--output", 2),
        ("get unicorns", "unicorns", 2),
        ("init --timeout soon", "--timeout", 2),
        ("init --resource-limits cpu=1", "--resource-qos-class", 2),
        ("init --resource-qos-class ResourceRequirement --resource-limits cpu=lots", "--resource-limits", 2),
        ("init --cluster-manager-values-file /nowhere.yaml", "/nowhere.yaml", 1),
        ("init --image-pull-credential-file /nowhere.json", "/nowhere.json", 1),
        ("init --auto-approved-csr-identities me", "--auto-approved-csr-identities", 1),
        ("join", "--hub-token", 1),
        ("join --hub-token t", "--cluster-name", 1),
        ("join --hub-token t --cluster-name c", "--hub-apiserver", 1),
        ("join --hub-token t --cluster-name No_Name --hub-apiserver {server}", "No_Name", 1),
        ("join --hub-token t --cluster-name c --hub-apiserver {server} --ca-file {ca}", "token", 1),
        ("join --hub-token t --cluster-name c --hub-apiserver {server} --ca-file /nowhere", "/nowhere", 1),
        ("join --hub-token t --cluster-name c --hub-apiserver {server}", "--hub-ca-hash", 1),
        ("join --hub-token t --cluster-name c --hub-apiserver {server} --mode hosted", "--managed-cluster-kubeconfig", 1),
        ("join --hub-token t --cluster-name c --hub-apiserver {server} --registration-auth magic", "magic", 1),
        ("unjoin", "--cluster-name", None),
    ],
)
def test_wrong_input_is_named_and_changes_nothing(
    world: World, furnished: World, line: str, complaint: str, code: int | None
) -> None:
    context = MANAGED if line.split()[0] in ("join", "unjoin") else HUB
    words = line.format(file=manifest(world), server=world.hub.cluster.url, ca=world.hub.cluster.ca).split()
    before = world.objects(context)
    if code is None:
        done = world.run(*words, context=context)
        assert done.exit_code in (0, 1, 2)
        assert complaint in done.output
    else:
        assert complaint in world.fails(*words, context=context, code=code)
    assert world.objects(context) == before


def test_a_write_is_seen_by_what_these_tests_compare(world: World) -> None:
    """Or nothing above could fail."""
    before = world.objects(HUB)
    body = {"metadata": {"name": "proof"}, "data": {"a": json.dumps(len(before))}}
    world.hub.admin.post(f"/api/v1/namespaces/{HUB_NAMESPACE}/configmaps", body).expect(201, 409)
    assert world.objects(HUB) != before
