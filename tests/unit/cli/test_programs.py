"""Parts of Muster as programs of a node: the same arguments and messages as processes, in the surroundings of a pod."""

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from muster.cli import agent, hub, programs
from muster.cli.process import FoundCluster, ProcessEnv, explained, find_cluster
from muster.fleet.node import PodEnvironment
from muster.machinery.allocation import RECLAIM_AFTER
from muster.machinery.tasks import RunnableEnded
from muster.runtime.client.kubeconfig import ClientConfig
from muster.runtime.controller.leader_election import leader_identity
from tests.support.fake_clock import FakeClock

KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://mounted.example"}}]
"""


class Log:
    def __init__(self) -> None:
        self.text: dict[str, str] = {"stdout": "", "stderr": ""}

    def write(self, stream: str, text: str) -> None:
        self.text[stream] += text


class Leaving:
    def __init__(self) -> None:
        self.me = self


class NoClient:
    """Where nothing is asked."""


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def pod(tmp_path: Path, log: Log) -> PodEnvironment:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted/kubeconfig").write_text(KUBECONFIG)
    return PodEnvironment(
        namespace="there",
        pod="hub-1-abc",
        container="c",
        uid="u",
        ip="127.64.0.9",
        environ={"POD_NAME": "hub-1-abc"},
        server="https://127.0.0.1:1/clusters/hub",
        direct=lambda: NoClient(),  # type: ignore[arg-type,return-value]
        write=log.write,
        mounts={"/hub-kubeconfig": tmp_path / "mounted"},
        scratch=tmp_path / "scratch",
    )


def parsed(part: Any, pod: PodEnvironment, *arguments: str) -> Any:
    context = part.command.make_context("part", list(arguments))
    return part.settings(context.params, programs.process_env(pod))


async def run(words: Sequence[str], pod: PodEnvironment) -> int:
    return await programs.programs()[tuple(words[:1])](list(words[1:]), pod)


def test_every_part_is_a_program() -> None:
    assert {("agent",), ("grpc-server",), ("hub",), ("operator",), ("work-agent",), ("work-hub",)} <= set(programs.programs())


def test_in_a_pod_the_hub_is_the_pods_cluster_reached_without_a_socket(pod: PodEnvironment) -> None:
    found = parsed(hub, pod).common
    assert found.cluster.in_pod
    assert isinstance(found.cluster.connect("x"), NoClient)
    assert found.webhooks.service


@pytest.mark.parametrize("host", [None, "0.0.0.0", "127.0.0.1", "localhost", "::"])
def test_a_part_listens_on_its_pods_own_address(pod: PodEnvironment, host: str | None) -> None:
    arguments = [] if host is None else ["--health-host", host]
    assert parsed(agent, pod, *arguments).health == ("127.64.0.9", 8000)
    assert parsed(hub, pod, *arguments).common.health == ("127.64.0.9", 8081)
    assert parsed(hub, pod).common.webhooks.host == "127.64.0.9"
    assert parsed(hub, pod, "--listen", "0.0.0.0:99").common.health == ("127.64.0.9", 99)


def test_files_that_arguments_name_are_the_containers(pod: PodEnvironment, tmp_path: Path) -> None:
    found = parsed(
        agent,
        pod,
        "--spoke-kubeconfig=/hub-kubeconfig/kubeconfig",
        "--bootstrap-kubeconfig=/elsewhere/kubeconfig",
        "--hub-kubeconfig-dir=/spoke",
    )
    assert found.spoke.config.server == "https://mounted.example"
    assert found.management.in_pod
    assert found.options.namespace == "there"
    assert found.options.bootstrap_kubeconfigs == (tmp_path / "scratch/elsewhere/kubeconfig",)
    assert found.options.hub_kubeconfig_dir == tmp_path / "scratch/spoke"
    arguments = ("--kubeconfig=/hub-kubeconfig/kubeconfig", "--no-install", "--webhook-cert-dir=/hub-kubeconfig")
    away = parsed(hub, pod, *arguments).common
    assert away.cluster == FoundCluster(ClientConfig("https://mounted.example", None, namespace=away.cluster.config.namespace))
    assert away.webhooks.certificates == tmp_path / "mounted"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["hub", "--no-such-flag"], 2, "--no-such-flag"),
        (["agent", "--cluster-name=Not_A_Name"], 2, "--cluster-name"),
        (["hub", "--kubeconfig=/nowhere"], 1, "--kubeconfig"),
        (["operator", "unheard-of"], 2, "unheard-of"),
    ],
)
async def test_a_wrong_argument_ends_the_program_as_it_would_end_a_process(
    pod: PodEnvironment, log: Log, words: list[str], code: int, said: str
) -> None:
    assert await run(words, pod) == code
    assert said in log.text["stderr"]


async def test_help_ends_well(pod: PodEnvironment) -> None:
    assert await run(["hub", "--help"], pod) == 0


@pytest.mark.parametrize("words", [["hub", "--help"], ["hub", "--kubeconfig=/nowhere"]], ids=["well", "badly"])
async def test_however_a_program_ends_what_it_left_is_given_back(pod: PodEnvironment, words: list[str]) -> None:
    clock = FakeClock()
    await programs.programs(clock)[tuple(words[:1])](words[1:], pod)
    gc.disable()
    try:
        left = weakref.ref(Leaving())
        await clock.advance(RECLAIM_AFTER)
        assert left() is None
    finally:
        gc.enable()


async def test_a_failure_of_several_parts_at_once_is_explained_by_the_first() -> None:
    def explain(error: Exception) -> click.ClickException | None:
        return click.ClickException("in words") if isinstance(error, ValueError) else None

    with pytest.raises(click.ClickException, match="in words"), explained(explain):
        raise ExceptionGroup("several", [ExceptionGroup("inner", [ValueError("one"), KeyError("two")])])
    with pytest.raises(KeyError), explained(explain):
        raise ExceptionGroup("several", [KeyError("one")])


async def test_what_ended_a_manager_is_explained_by_its_end_or_else_by_its_cause() -> None:
    def of_causes(error: Exception) -> click.ClickException | None:
        return click.ClickException("in words") if isinstance(error, ValueError) else None

    def of_ends(error: Exception) -> click.ClickException | None:
        return click.ClickException(str(error)) if isinstance(error, RunnableEnded) else of_causes(error)

    ended = RunnableEnded("the agent", ExceptionGroup("several", [ValueError("one")]))
    with pytest.raises(click.ClickException, match="in words"), explained(of_causes):
        raise ended
    with pytest.raises(click.ClickException, match="the agent ended"), explained(of_ends):
        raise ended
    with pytest.raises(click.ClickException, match="starting anew"), explained(of_causes):
        raise RunnableEnded("the hub's address", click.ClickException("starting anew"))
    with pytest.raises(RunnableEnded, match="the agent ended by itself"), explained(of_causes):
        raise RunnableEnded("the agent", None)


def test_without_a_pod_around_it_a_part_uses_what_its_process_has(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    assert find_cluster(str(path), "").config.server == "https://mounted.example"
    here = ProcessEnv(environ={"KUBECONFIG": str(path)})
    found = find_cluster(None, "", here)
    assert (found.config.server, found.in_pod) == ("https://mounted.example", False)
    assert here.bind("0.0.0.0") == "0.0.0.0"


def test_a_leader_is_known_by_its_pod(pod: PodEnvironment) -> None:
    assert leader_identity(programs.process_env(pod).environ) == "hub-1-abc"


async def test_what_a_command_prints_by_itself_goes_to_the_pods_log(
    pod: PodEnvironment, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(["hub", "--help"], pod) == 0
    assert "Usage:" in log.text["stdout"]
    assert parsed(agent, pod, "--cluster-annotations=strange=1").options.cluster_annotations == {"strange": "1"}
    assert "strange" in log.text["stderr"]
    assert capsys.readouterr() == ("", "")
