"""What `muster up --auth aws-irsa` said of its AWS, and AWS' own library on it."""

from __future__ import annotations

from typing import Any

from botocore.session import Session

from muster.aws.role_names import RoleNames
from muster.fleet.local.cloud import arn_of
from tests.support.local_fleet import Fleet
from tests.support.processes import free_ports


def up_on_aws(fleet: Fleet, *words: str) -> None:
    """What is said is kept beside the fleet's data."""
    port = str(free_ports(1)[0])
    (fleet.directory.parent / "said").write_text(fleet("up", "--detach", "--port", port, "--auth", "aws-irsa", *words).out)


def told(fleet: Fleet) -> dict[str, str]:
    """The variables that `up` said to export for AWS' programs."""
    lines = (fleet.directory.parent / "said").read_text().splitlines()
    words = [word for line in lines if line.startswith("  export AWS_") for word in line.split()[1:]]
    return dict(word.split("=", 1) for word in words)


def client(fleet: Fleet, service: str, profile: str) -> Any:
    session, variables = Session(profile=profile), told(fleet)
    session.set_config_variable("config_file", variables["AWS_CONFIG_FILE"])
    return session.create_client(service, endpoint_url=variables["AWS_ENDPOINT_URL"], verify=variables["AWS_CA_BUNDLE"])


def roles(fleet: Fleet, profile: str) -> set[str]:
    return {role["RoleName"] for role in client(fleet, "iam", profile).list_roles()["Roles"]}


def pair(cluster: str) -> RoleNames:
    return RoleNames(arn_of("hub"), arn_of(cluster))
