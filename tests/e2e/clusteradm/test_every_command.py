"""What holds for every command of `clusteradm`: whom it turns away, what it says to wrong input, and that a dry run writes nothing.

`COMMANDS` has each command with words that would change something, and where that is; a command that is missing there fails a test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.clusteradm.claims import SPELLINGS
from tests.e2e.clusteradm.conftest import AWAY, HUB, MANAGED, World
from tests.support.administrator import HUB_NAMESPACE, MANAGED_CLUSTERS, RBAC, managed_cluster
from tests.support.sites import embedded_only

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
    code: int = 1
    """How it ends where it cannot do its work."""

    def line(self, world: World) -> list[str]:
        filled = self.words.format(token="a.b.c", server=world.hub.cluster.url, ca=world.hub.cluster.ca, file=manifest(world))
        return [*self.path.split(), *filled.split()]


COMMANDS = (
    Command("init", "--use-bootstrap-token --feature-gates ManagedClusterAutoApproval=true", only_on_hubs=False),
    Command("accept", "--clusters waiting --skip-approve-check"),
    Command("addon create", "new -f {file}"),
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
    Command("create placement", "new --namespace default"),
    Command("create work", "new -f {file} --clusters known"),
    Command("delete clusterset", "empty"),
    Command("delete placement", "there --namespace default"),
    Command("delete token", only_on_hubs=False),
    Command("delete work", "there --clusters known --force"),
    Command("doctor", "nobody", writes=False),
    Command("gateway grant", "somebody --role viewer --cluster known --apply"),
    Command("get addons", writes=False),
    Command("get clusters", writes=False),
    Command("get clustersets", writes=False),
    Command("get hub-info", writes=False, only_on_hubs=False),
    Command("get klusterlet-info", where=MANAGED, writes=False, only_on_hubs=False),
    Command("get placements", writes=False),
    Command("get policies", where=MANAGED, writes=False, only_on_hubs=False),
    Command("get token", writes=False, only_on_hubs=False),
    Command("get works", writes=False),
    Command("install hub-addon", "--names cluster-gateway", only_on_hubs=False),
    Command(
        "join",
        "--cluster-name new --hub-token {token} --hub-apiserver {server} --ca-file {ca} --force",
        MANAGED,
        only_on_hubs=False,
    ),
    Command("uninstall hub-addon", "--names managed-serviceaccount", only_on_hubs=False),
    Command("unjoin", "--cluster-name nobody", MANAGED, writes=False, only_on_hubs=False),
    Command("upgrade clustermanager", "--bundle-version v9", only_on_hubs=False),
    Command("upgrade klusterlet", "", MANAGED, writes=False, only_on_hubs=False),
    Command("work can-i", "known -f {file}", writes=False, code=3),
)
ASK_NOBODY = {"completion", "version", "aws prerequisites hub", "aws prerequisites managed", "aws cleanup"}
"""Or AWS first, as which there is nobody here."""
NEED_A_GATEWAY = {"gateway exec", "gateway kubeconfig", "proxy health", "proxy kubectl"}
"""These are shown in `test_options_of_gateway`, and where there is one."""
MAY_END_WITH_1 = {"doctor", "get policies", "unjoin", "upgrade klusterlet"}
"""Where there is nothing to be done, or something to be told."""


def manifest(world: World) -> Path:
    path = world.directory / "manifest.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting, namespace: default}\ndata: {hello: world}\n")
    return path


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
    world.ok("install", "hub-addon", "--names", "managed-serviceaccount")
    world.ok("addon", "enable", "--names", "there", "--clusters", "known")
    world.ok("create", "placement", "there", "--overwrite")
    world.ok("create", "work", "there", "-f", str(manifest(world)), "--clusters", "known", "--overwrite")
    hub.wait(
        lambda: "cluster.open-cluster-management.io/clusterset" in ((hub.find("waiting") or {})["metadata"].get("labels") or {}),
        "the webhooks have seen the cluster",
    )
    return world


def test_every_command_is_in_the_table() -> None:
    assert SPELLINGS.keys() == {command.path for command in COMMANDS} | ASK_NOBODY | NEED_A_GATEWAY


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


@pytest.fixture(scope="module")
def reader(furnished: World) -> str:
    """Somebody who may see everything and change nothing."""
    name = "sees-everything"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
    for context in (HUB, MANAGED):
        admin = furnished.admin(context)
        admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules}).expect(201)
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)
    return "alice"


@pytest.mark.parametrize("dry_run", [False, True], ids=["for good", "for a try"])
@pytest.mark.parametrize("command", [one for one in COMMANDS if one.writes], ids=identify)
def test_who_may_only_look_changes_nothing_and_is_told_what_is_missing(
    world: World, reader: str, command: Command, dry_run: bool
) -> None:
    before = world.objects(command.where)
    told = world.fails(*command.line(world), *(["--dry-run"] if dry_run else []), context=f"{reader}@{command.where}")
    assert f'"{reader}" cannot ' in told
    assert "ask an administrator" in told
    assert world.objects(command.where) == before


@embedded_only
@every
def test_a_kubeconfig_that_is_not_there_is_named(world: World, command: Command) -> None:
    assert "/nowhere.kubeconfig" in world.fails(*command.line(world), "--kubeconfig", "/nowhere.kubeconfig", code=command.code)


@every
def test_who_is_unknown_is_turned_away(world: World, command: Command) -> None:
    assert "credentials" in world.fails(*command.line(world), context=f"nobody@{command.where}", code=command.code)


@embedded_only
@every
def test_a_server_that_is_away_is_named(world: World, command: Command) -> None:
    assert "127.0.0.1" in world.fails(*command.line(world), "--timeout", "2s", context=AWAY, code=command.code)


@embedded_only
@every
def test_a_context_that_is_none_is_named(world: World, command: Command) -> None:
    assert "no-such-context" in world.fails(*command.line(world), context="no-such-context", code=command.code)


@embedded_only
@every
def test_unknown_flags_are_wrong_usage(world: World, command: Command) -> None:
    assert "--no-such-flag" in world.fails(*command.line(world), "--no-such-flag", code=2)


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.only_on_hubs], ids=identify)
def test_commands_for_hubs_are_refused_elsewhere(world: World, command: Command) -> None:
    told = world.fails(*command.line(world), context=MANAGED, code=command.code)
    assert "hub oriented command should not running against non-hub cluster" in told


JOINING = "join --hub-token t --cluster-name c --hub-apiserver {server}"
REFUSED, USAGE = 1, 2


@embedded_only
@pytest.mark.parametrize(
    ("line", "complaint", "code"),
    [
        ("accept", "--clusters", USAGE),
        ("accept --clusters nobody-knows", "nobody-knows", REFUSED),
        ("accept --clusters nobody-knows --wait --timeout 500ms", "nobody-knows", REFUSED),
        ("accept --clusters waiting --requesters nobody-knows", "no csr is approved yet", REFUSED),
        ("accept --clusters waiting --fingerprint sha256:12", "--fingerprint", USAGE),
        (f"accept --clusters waiting --fingerprint sha256:{'0' * 64}", "there is no request", REFUSED),
        ("addon create new", "--filename", USAGE),
        ("addon create new -f /nowhere.yaml", "/nowhere.yaml", REFUSED),
        ("addon create NEW -f {file}", "cannot name an addon", REFUSED),
        ("addon create new -f {file} --placement-ref all", "namespace/name", REFUSED),
        ("addon create new -f {file} --cluster-role-bind view", "--hub-registration", REFUSED),
        ("addon enable --clusters known", "--names", USAGE),
        ("addon enable --names other --clusters known --placement a/b", "--placement", USAGE),
        ("addon enable --names other --placement default/nobody-knows", "there is no Placement", REFUSED),
        ("addon enable --names other", "--clusters", USAGE),
        ("addon enable --names nonsense --clusters known", "enabling the unknown addon nonsense is not supported", REFUSED),
        ("addon enable --names other --clusters nobody-knows", "nobody-knows", REFUSED),
        ("addon enable --names other --clusters known --config-file /nowhere.yaml", "/nowhere.yaml", REFUSED),
        ("addon enable --names other --clusters known --annotate nonsense", "--annotate", USAGE),
        ("addon enable --names other --clusters known --labels nonsense", "--labels", USAGE),
        ("addon enable --names other --clusters known --labels a=!", "metadata.labels", REFUSED),
        ("addon enable --names other --clusters known --output-file /nowhere/file --dry-run", "/nowhere/file", REFUSED),
        ("addon disable --clusters known", "--names", USAGE),
        ("addon disable --names there", "--all-clusters", USAGE),
        ("addon disable --names there --clusters known --all-clusters", "--all-clusters", USAGE),
        ("addon disable --names nonsense --clusters known", "nonsense add-on not found in cluster: known", 0),
        ("addon list -o poem", "--output", USAGE),
        ("clean --name nobody-knows", "nobody-knows", REFUSED),
        ("clean --purge-operator perhaps", "--purge-operator", USAGE),
        ("clusterset create", "NAME", USAGE),
        ("clusterset create No_Name", "No_Name", REFUSED),
        ("clusterset set full", "--clusters", USAGE),
        ("clusterset set full --clusters nobody-knows", "nobody-knows", REFUSED),
        ("clusterset set full --namespaces No_Name", "No_Name", REFUSED),
        ("clusterset set nobody-knows --clusters known", "nobody-knows", REFUSED),
        ("clusterset bind nobody-knows", "nobody-knows", REFUSED),
        ("clusterset bind full --namespace nowhere", "nowhere", REFUSED),
        ("clusterset unbind full --namespace=", "--namespace", USAGE),
        ("clusterset delete nobody-knows", "nobody-knows", 0),
        ("completion cobol", "cobol", USAGE),
        ("create work w --clusters known", "--filename", USAGE),
        ("create work w -f {file}", "--clusters", USAGE),
        ("create work w -f /nowhere.yaml --clusters known", "/nowhere.yaml", REFUSED),
        ("create work w -f {file} --clusters nobody-knows", "nobody-knows", REFUSED),
        ("create work w -f {file} --placement nowhere", "--placement", REFUSED),
        ("create work w -f {file} --clusters known --replicaset", "--placement", USAGE),
        ("create work there -f {file} --clusters known", "already exists", REFUSED),
        ("create work w -f {file} --clusters known --executor nonsense", "--executor", REFUSED),
        ("create work w -f {file} --clusters known --update-strategy magic", "--update-strategy", USAGE),
        ("create work w -f {file} --clusters known --delete-option magic", "--delete-option", USAGE),
        ("delete work nothing --clusters known", "work nothing not found in cluster known", 0),
        ("delete work nothing", "--clusters", USAGE),
        ("doctor --managed-cluster-kubeconfig /nowhere known", "/nowhere", REFUSED),
        ("doctor --managed-cluster-context nowhere known", "nowhere", REFUSED),
        ("doctor -o poem", "--output", USAGE),
        ("get clusters nobody-knows", "nobody-knows", REFUSED),
        ("get clusters -o poem", "--output", USAGE),
        ("get clusters -l !!", "--selector", USAGE),
        ("get clusters --clusterset nobody-knows", "nobody-knows", REFUSED),
        ("get clusters --watch -o json", "--watch", USAGE),
        ("get placements nobody-knows", "nobody-knows", REFUSED),
        ("get token --output-file /nowhere/file", "/nowhere/file", REFUSED),
        ("get unicorns", "unicorns", USAGE),
        ("init --timeout soon", "--timeout", USAGE),
        ("init --wait -o json", "--output", USAGE),
        ("init --feature-gates ManagedClusterAutoApproval=perhaps", "--feature-gates", USAGE),
        ("init --feature-gates Nonsense=true", "--feature-gates: Nonsense", REFUSED),
        ("init --registration-drivers magic", "--registration-drivers", REFUSED),
        ("init --registration-drivers awsirsa", "--hub-cluster-arn", REFUSED),
        ("init --registration-drivers awsirsa --hub-cluster-arn nonsense", "--hub-cluster-arn", REFUSED),
        ("init --registration-drivers grpc", "--grpc-server", REFUSED),
        ("init --grpc-endpoint-type magic", "--grpc-endpoint-type", USAGE),
        ("init --resource-limits cpu=1", "--resource-qos-class", USAGE),
        ("init --resource-qos-class Royal", "--resource-qos-class", USAGE),
        ("init --resource-qos-class ResourceRequirement --resource-limits cpu=lots", "--resource-limits", USAGE),
        ("init --resource-qos-class ResourceRequirement --resource-requests cpu=lots", "--resource-requests", USAGE),
        ("init --cluster-manager-values-file /nowhere.yaml", "/nowhere.yaml", REFUSED),
        ("init --bundle-version-overrides /nowhere.yaml", "/nowhere.yaml", REFUSED),
        ("init --image-pull-credential-file /nowhere.json", "/nowhere.json", REFUSED),
        ("init --image-pull-credential-file {ca}", "--image-pull-credential-file", REFUSED),
        ("init --create-namespace perhaps", "--create-namespace", USAGE),
        ("init --auto-approved-csr-identities me", "--auto-approved-csr-identities", REFUSED),
        ("init --auto-approved-arn-patterns me", "--auto-approved-arn-patterns", REFUSED),
        ("init --auto-approved-grpc-identities me", "--auto-approved-grpc-identities", REFUSED),
        ("join", "--hub-token", REFUSED),
        ("join --hub-token t", "--cluster-name", REFUSED),
        ("join --hub-token t --cluster-name c", "--hub-apiserver", REFUSED),
        ("join --hub-token t --cluster-name c --hub-apiserver http://hub", "--hub-apiserver", REFUSED),
        ("join --hub-token t --cluster-name No_Name --hub-apiserver {server}", "No_Name", REFUSED),
        (f"{JOINING} --ca-file {{ca}}", "token", REFUSED),
        (f"{JOINING} --ca-file /nowhere", "/nowhere", REFUSED),
        (f"{JOINING} --ca-file {{file}}", "--ca-file", REFUSED),
        (f"{JOINING}", "--hub-ca-hash", REFUSED),
        (f"{JOINING} --hub-ca-hash nonsense", "--hub-ca-hash", REFUSED),
        (f"{JOINING} --proxy-url socks5://proxy", "--proxy-url", REFUSED),
        (f"{JOINING} --proxy-ca-file /nowhere", "/nowhere", REFUSED),
        (f"{JOINING} --mode hosted", "--managed-cluster-kubeconfig", REFUSED),
        (f"{JOINING} --mode elsewhere", "--mode", USAGE),
        (f"{JOINING} --mode hosted --managed-cluster-kubeconfig /nowhere", "/nowhere", REFUSED),
        (f"{JOINING} --managed-cluster-kubeconfig {{kubeconfig}}", "--mode hosted", REFUSED),
        (f"{JOINING} --registration-auth magic", "magic", REFUSED),
        (f"{JOINING} --registration-auth awsirsa", "--hub-cluster-arn", REFUSED),
        (f"{JOINING} --registration-auth awsirsa --hub-cluster-arn nonsense", "--hub-cluster-arn", REFUSED),
        (f"{JOINING} --registration-auth grpc", "--grpc-server", REFUSED),
        (f"{JOINING} --registration-auth grpc --grpc-server s --grpc-ca-file /nowhere", "/nowhere", REFUSED),
        (f"{JOINING} --client-cert-expiration-seconds 5", "--client-cert-expiration-seconds", REFUSED),
        (f"{JOINING} --client-cert-expiration-seconds soon", "--client-cert-expiration-seconds", USAGE),
        (f"{JOINING} --addon-kubeclient-registration-auth magic", "--addon-kubeclient-registration-auth", REFUSED),
        (f"{JOINING} --addon-token-expiration-seconds 60", "--addon-token-expiration-seconds", REFUSED),
        (f"{JOINING} --klusterlet-annotation nonsense", "--klusterlet-annotation", USAGE),
        (f"{JOINING} --klusterlet-values-file /nowhere", "/nowhere", REFUSED),
        (f"{JOINING} --feature-gates Nonsense=true", "--feature-gates: Nonsense", REFUSED),
        (f"{JOINING} --ca-file {{ca}} --capi-import --capi-cluster-name nobody-knows", "nobody-knows", REFUSED),
        ("unjoin", "--cluster-name", REFUSED),
        ("unjoin --cluster-name c --purge-operator perhaps", "--purge-operator", USAGE),
        ("unjoin --cluster-name c --hub-kubeconfig /nowhere", "/nowhere", REFUSED),
        ("unjoin --cluster-name c --hub-context nowhere", "nowhere", REFUSED),
        ("upgrade clustermanager --bundle-version-overrides /nowhere.yaml", "/nowhere.yaml", REFUSED),
        ("upgrade klusterlet", "klusterlet is not installed", REFUSED),
        ("version -o poem", "--output", USAGE),
    ],
)
def test_wrong_input_is_named_and_changes_nothing(world: World, furnished: World, line: str, complaint: str, code: int) -> None:
    context = MANAGED if line.split()[0] in ("join", "unjoin") or line == "upgrade klusterlet" else HUB
    places = {"server": world.hub.cluster.url, "ca": world.hub.cluster.ca, "kubeconfig": world.kubeconfig}
    words = line.format(file=manifest(world), **places).split()
    before = world.objects(context)
    if code:
        assert complaint in world.fails(*words, context=context, code=code)
    else:
        assert complaint in world.ok(*words, context=context), "what is not there is gone already"
    assert world.objects(context) == before


def test_a_write_is_seen_by_what_these_tests_compare(world: World) -> None:
    """Or nothing above could fail."""
    before = world.objects(HUB)
    body = {"metadata": {"name": "proof"}, "data": {"a": json.dumps(len(before))}}
    world.hub.admin.post(f"/api/v1/namespaces/{HUB_NAMESPACE}/configmaps", body).expect(201, 409)
    assert world.objects(HUB) != before
