"""Drivers of other distributions that were written against the former names of their interfaces go on working."""

from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM
from muster.machinery.metrics import Metrics
from muster.registration.drivers import interfaces, seam
from muster.registration.names import AgentIdentity


def test_every_interface_is_there_by_its_former_name() -> None:
    former = {"Outcome": "GrantResult", "Step": "GrantStep", "Progress": "StepResult", "Report": "CredentialReport"}
    former |= {"Watched": "WatchTarget", "Accepting": "AcceptanceContext"}
    for name in seam.__all__:
        assert getattr(seam, name) is getattr(interfaces, former.get(name, name))


def test_the_environment_of_the_process_is_there_by_its_former_name() -> None:
    env = ProcessEnv({"AWS_REGION": "eu-west-1"})
    context = seam.SpokeContext(AgentIdentity("cluster1", "agent1"), SYSTEM, lambda: 0.5, Metrics(), process_env=env)
    assert context.surroundings is env
