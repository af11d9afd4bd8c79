"""What programs find: variables, volumes that follow their sources, an identity of their own."""

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from muster.fleet.node import PodEnvironment, atomicdir
from muster.fleet.node.environment import MissingReference, expand, mounted
from muster.fleet.node.podspec import Mount, pod_of
from muster.fleet.node.programs import command_line, find_program, is_ours
from muster.fleet.node.settings import NodeSettings
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Forbidden, Unauthorized
from muster.runtime.client.http import HttpClient
from tests.support.fake_clock import FakeClock
from tests.support.stage import PODS, Stage, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS, show

ROLE_BINDINGS = GVR("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def secret(name: str, **data: str) -> dict[str, Any]:
    encoded = {key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "data": encoded}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def files_of(stage: Stage, tmp_path: Path, name: str, volume: str) -> Path:
    return tmp_path / "node" / "default" / "pods" / stage.read(name)["metadata"]["uid"] / "volumes" / volume


def test_an_image_is_ours_by_the_last_part_of_its_repository() -> None:
    ours = ["muster", "muster:v1", "registry.example:5000/team/muster", "r.example/muster:1@sha256:abc", "muster@sha256:abc"]
    assert [image for image in ours if not is_ours(image)] == []
    assert not any(map(is_ours, ["nginx", "muster/nginx", "r.example/muster-extra:1", "notmuster", ""]))
    assert is_ours("quay.example/other:1", ("muster", "other"))


def test_a_command_line_finds_the_longest_entry_of_the_table() -> None:
    table = {("hub",): show, ("addon", "manager"): show, ("addon",): show}
    assert command_line((), ("hub", "--x")) == ["hub", "--x"]
    assert command_line(("/usr/bin/muster", "hub"), ("--x",)) == ["hub", "--x"]
    assert command_line(("/registration",), ("agent",)) == ["registration", "agent"]
    assert find_program(table, ["addon", "manager", "--y"]) == (show, ["--y"])
    assert find_program(table, ["addon", "other"]) == (show, ["other"])
    assert find_program(table, ["dance"]) is None


def test_references_in_arguments_are_expanded_as_kubernetes_does() -> None:
    environ = {"A": "1"}
    assert expand("$(A) $(B) $$(A) $A $", environ) == "1 $(B) $(A) $A $"


def test_a_directory_changes_all_at_once_and_never_leads_out(tmp_path: Path) -> None:
    place = tmp_path / "v"
    assert atomicdir.write(place, {"a": b"1", "d/b": b"2"})
    assert not atomicdir.write(place, {"a": b"1", "d/b": b"2"})
    assert (place / "d" / "b").read_bytes() == b"2"
    assert (place / "a").stat().st_mode & 0o077 == place.stat().st_mode & 0o077 == 0
    assert atomicdir.write(place, {"a": b"3"})
    assert (place / "a").read_bytes() == b"3"
    assert not (place / "d").exists()
    assert len(list(place.glob("..v*"))) == 1
    for wrong in ("../x", "/x", "..data/x"):
        with pytest.raises(ValueError, match="leads out"):
            atomicdir.write(place, {wrong: b""})


@pytest.mark.parametrize("before", [{}, {"a": b"0", "old": b"x"}])
def test_a_writer_killed_before_or_after_any_change_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, bytes]
) -> None:
    wanted = {"a": b"1", "b": b"2", "d/c": b"3"}
    moments = 0
    for after in (False, True):
        for moment in range(100):
            place = tmp_path / f"{after}-{moment}"
            if before:
                atomicdir.write(place, before)
            with monkeypatch.context() as patches, contextlib.suppress(_Killed):
                _kill_at(patches, moment, after=after)
                atomicdir.write(place, wanted)
                break
            moments += 1
            atomicdir.write(place, wanted)
            assert {name: (place / name).read_bytes() for name in wanted} == wanted
            assert {entry.name for entry in place.iterdir()} == {"..data", os.readlink(place / "..data"), "a", "b", "d"}
            assert not atomicdir.write(place, wanted)
    assert moments >= 16, "each link is made and renamed"


class _Killed(BaseException):
    pass


def _kill_at(patches: pytest.MonkeyPatch, moment: int, *, after: bool) -> None:
    """The change of this number is the last one, or does not come to be."""
    count = itertools.count()

    def mortal(change: Callable[..., Any]) -> Callable[..., Any]:
        def changing(*args: Any, **options: Any) -> Any:
            last = next(count) == moment
            if last and not after:
                raise _Killed
            try:
                return change(*args, **options)
            finally:
                if last:
                    raise _Killed

        return changing

    for owner, name in ((os, "symlink"), (os, "replace"), (os, "unlink"), (tempfile, "mkdtemp"), (shutil, "rmtree")):
        patches.setattr(owner, name, mortal(getattr(owner, name)))


async def test_variables_come_from_values_fields_secrets_and_config_maps(stage: Stage) -> None:
    await stage.client.create(SECRETS, secret("s", password="open sesame"))
    await stage.client.create(CONFIG_MAPS, config_map("c", colour="red", SIZE="9"))
    env = [
        {"name": "PLAIN", "value": "v"},
        {"name": "MADE", "value": "$(PLAIN)-$(NOT)-$$(PLAIN)"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "absent", "optional": True}}},
    ]
    container = {
        "env": env,
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "C_"}],
        "resources": {"requests": {"cpu": "250m"}},
    }
    names = ["MADE", "POD", "APP", "IP", "CPU", "PASSWORD", "NONE", "C_SIZE", "C_colour"]
    await stage.pod("p", "show", *names, "--as=$(PLAIN)", container=container)
    status = await stage.ready("p")
    lines = dict(line.partition("=")[::2] for line in (await stage.log("p")).splitlines())
    assert [lines[name] for name in names] == [
        "v-$(NOT)-$(PLAIN)",
        "p",
        "p",
        status["podIP"],
        "250",
        "open sesame",
        "None",
        "9",
        "red",
    ]
    assert "--as=v" in lines or "--as" in lines


async def test_every_container_has_what_its_node_gives_unless_it_says_otherwise(tmp_path: Path) -> None:
    settings = NodeSettings({"PLACE": "only-here", "OWN": "the node's"}, {"/etc/given/ca.crt": b"authority"})
    async with open_stage(PROGRAMS, tmp_path / "node", settings=settings) as stage:
        own = {"env": [{"name": "OWN", "value": "mine, $(PLACE)"}]}
        await stage.pod("p", "show", "PLACE", "OWN", "/etc/given/ca.crt", container=own)
        await stage.ready("p")
        assert (await stage.log("p")).splitlines() == ["PLACE=only-here", "OWN=mine, only-here", "/etc/given/ca.crt=authority"]
        assert "only-here" not in str(stage.read("p")), "no object of the API knows of it"


async def test_a_container_waits_for_a_secret_it_needs_and_starts_when_it_comes(stage: Stage) -> None:
    env = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "late", "key": "password"}}}]
    await stage.pod("p", "show", "PASSWORD", container={"env": env})
    await stage.until(
        lambda: (stage.container("p").get("state") or {}).get("waiting", {}).get("reason") == "CreateContainerConfigError",
        "it waits",
    )
    assert stage.container("p")["state"]["waiting"]["message"] == 'secret "late" not found'
    await stage.client.create(SECRETS, secret("late", password="x"))
    await stage.ready("p")
    assert await stage.log("p") == "PASSWORD=x\n"
    assert stage.container("p")["restartCount"] == 0


async def test_a_pod_waits_for_a_volume_it_needs_and_starts_when_it_comes(stage: Stage) -> None:
    volume = {"name": "v", "secret": {"secretName": "late", "items": [{"key": "tls.key", "path": "deep/key.pem"}]}}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/keys"}]}
    await stage.pod("p", "show", "/keys/deep/key.pem", container=mount, volumes=[volume])
    await stage.until(lambda: "FailedMount" in dict(stage.events("p")), "an event tells")
    assert stage.container("p")["state"]["waiting"]["reason"] == "ContainerCreating"
    assert 'secret "late" not found' in dict(stage.events("p"))["FailedMount"]
    await stage.client.create(SECRETS, secret("late", tls_key="k"))
    await stage.ready("p")
    assert await stage.log("p") == "/keys/deep/key.pem=k\n"


async def test_mounted_config_maps_secrets_and_labels_follow_their_sources(stage: Stage, tmp_path: Path) -> None:
    await stage.client.create(CONFIG_MAPS, config_map("c", colour="red"))
    volumes = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "d", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    await stage.pod("p", "show", "/c/colour", "/d/labels", container={"volumeMounts": mounts}, volumes=volumes)
    await stage.ready("p")
    assert await stage.log("p") == '/c/colour=red\n/d/labels=app="p"\n'
    await stage.client.patch(CONFIG_MAPS, "c", {"data": {"colour": "blue"}}, "default")
    await stage.client.patch(PODS, "p", {"metadata": {"labels": {"mood": "good"}}}, "default")
    colour, labels = (files_of(stage, tmp_path, "p", name) for name in ("c", "d"))
    await stage.until(lambda: (colour / "colour").read_text() == "blue", "the file follows")
    await stage.until(lambda: (labels / "labels").read_text() == 'app="p"\nmood="good"', "the labels follow")


async def test_a_volume_that_needs_a_machine_is_refused_with_words(stage: Stage) -> None:
    await stage.pod("p", "serve", volumes=[{"name": "v", "hostPath": {"path": "/etc"}}])
    await stage.until(lambda: "FailedMount" in dict(stage.events("p")), "an event tells")
    assert "only emptyDir, secret, configMap, downwardAPI and projected" in dict(stage.events("p"))["FailedMount"]


async def test_a_program_acts_under_its_own_service_account(stage: Stage) -> None:
    await stage.pod("p", "list", "namespaces", restartPolicy="Never")
    await stage.phase("p", "Failed")
    assert 'User "system:serviceaccount:default:default" cannot list resource "namespaces"' in await stage.log("p")
    binding = {
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    await stage.client.create(ROLE_BINDINGS, binding)
    await stage.pod("q", "list", "namespaces", restartPolicy="Never")
    await stage.phase("q", "Succeeded")
    assert await stage.log("q") == "default kube-node-lease kube-public kube-system\n"


async def test_what_the_server_logs_about_a_request_does_not_end_in_the_log_of_the_pod_that_made_it(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    server_log = get_logger("server")
    listening = stage.server.store.subscribe("default", "/configmaps", None, lambda events: server_log.info("seen"), lambda: None)

    async def write(args: Any, env: Any) -> int:
        with contextlib.suppress(Forbidden):
            await env.connect().create(CONFIG_MAPS, config_map("c"))
        server_log.info("written")
        return 0

    binding = {
        "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    await stage.client.create(ROLE_BINDINGS, binding)
    stage.programs[("write",)] = write
    await stage.pod("p", "write", restartPolicy="Never")
    await stage.phase("p", "Succeeded")
    listening.close()
    assert stage.read("c", "/configmaps")
    assert "event=written" in await stage.log("p")
    assert "event=seen" not in await stage.log("p")
    assert "event=seen" in capsys.readouterr().err


def test_paths_of_a_container_lead_to_its_volumes_or_its_own_scratch(tmp_path: Path) -> None:
    volumes = {"a": tmp_path / "a", "b": tmp_path / "b"}
    mounts = (Mount("a", "/data"), Mount("b", "/data/deep/"), Mount("b", "/one.txt", "in/$(N).txt"))
    env = PodEnvironment(
        namespace="n",
        pod="p",
        container="c",
        uid="u",
        ip="127.0.0.1",
        environ={},
        server="",
        direct=lambda: None,  # type: ignore[arg-type, return-value]
        write=lambda stream, text: None,
        mounts=mounted(volumes, mounts, {"N": "7"}),
        scratch=tmp_path / "scratch",
    )
    assert env.path("/data/x/y") == tmp_path / "a" / "x" / "y"
    assert env.path("/data/deep/x") == tmp_path / "b" / "x"
    assert env.path("/data/deeper") == tmp_path / "a" / "deeper"
    assert env.path("/one.txt") == tmp_path / "b" / "in" / "7.txt"
    assert env.path("relative/../x") == tmp_path / "scratch" / "x"
    assert env.path("/data/../../../etc/passwd") == tmp_path / "scratch" / "etc" / "passwd"
    with pytest.raises(MissingReference, match="leads out"):
        mounted(volumes, (Mount("a", "/x", "$(N)"),), {"N": "../other"})


async def test_the_identity_of_a_pod_ends_with_the_pod(stage: Stage) -> None:
    await stage.pod("p", "serve")
    await stage.ready("p")
    node = stage.node
    client = (node._pod_services.connect or pytest.skip("only where the server is in this process"))(pod_of(stage.read("p")))
    with pytest.raises(Forbidden):
        await client.list(NAMESPACES)
    await stage.client.delete(PODS, "p", "default", grace=0)
    with pytest.raises(Unauthorized):
        await client.list(NAMESPACES)


async def test_the_token_in_the_pod_opens_the_server_over_its_socket(stage: Stage) -> None:
    seen: list[str] = []

    async def knock(args: Any, env: Any) -> int:
        client = HttpClient(env.client_config)
        try:
            review = GVR("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
            answer = await client.create(review, {"apiVersion": review.api_version, "kind": review.kind})
            seen.append(answer["status"]["userInfo"]["username"])
        finally:
            await client.close()
        return 0

    stage.programs[("knock",)] = knock
    await stage.pod("p", "knock", restartPolicy="Never")
    await stage.phase("p", "Succeeded")
    assert seen == ["system:serviceaccount:default:default"]


@pytest.fixture
async def still(tmp_path: Path) -> AsyncIterator[tuple[Stage, FakeClock]]:
    clock = FakeClock()
    async with open_stage(PROGRAMS, tmp_path / "node", clock) as opened:
        yield opened, clock


async def test_a_token_is_replaced_when_four_fifths_of_its_life_are_over(still: tuple[Stage, FakeClock], tmp_path: Path) -> None:
    stage, clock = still
    await stage.pod("p", "serve")
    await stage.ready("p")
    volume = next(each["name"] for each in stage.read("p")["spec"]["volumes"])
    file = files_of(stage, tmp_path, "p", volume) / "token"
    first = file.read_text()
    await clock.advance(3607 * 0.8 - 5)
    await asyncio.sleep(0.05)
    assert file.read_text() == first
    await clock.advance(10)
    await stage.until(lambda: file.read_text() != first, "there is a new token")
    assert (file.parent / "namespace").read_text() == "default"
    assert "BEGIN CERTIFICATE" in (file.parent / "ca.crt").read_text()
