"""What drivers say of themselves: defaults for those without wishes, whose a cluster is, and no driver's name anywhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from muster.api.agents import AWS_ARN_ANNOTATION as ARN_ANNOTATION
from muster.api.agents import AWS_ROLE_ANNOTATION as ROLE_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import HubRegistrationDriver, SpokeRegistrationConfiguration, SpokeRegistrationDriver
from muster.registration.drivers import UnknownDriver, find, options_of, profile_of, profiles
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.ownership import claimed_by_others, owner_of
from muster.registration.names import DRIVER_ANNOTATION
from tests.unit.registration.drivers.test_discovery import DRIVER, Shelf, shelf

__all__ = ["shelf"]
ROOMS = ("administration", "cli", "fleet", "operator", "registration", "work")
HOME = Path("registration") / "drivers"


def marked(**annotations: str) -> ManagedCluster:
    return ManagedCluster.decode({"metadata": {"name": "c1", "annotations": annotations}})


def owner(found: ManagedCluster) -> str | None:
    profile = owner_of(found)
    return profile.name if profile else None


def test_a_driver_that_says_nothing_of_itself_has_the_defaults(shelf: Shelf) -> None:
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme="acme:DRIVER")
    driver = find("acme-alias")
    assert isinstance(driver, Driver)
    assert (driver.name, driver.aliases, driver.certificates) == ("acme", ("acme-alias",), False)
    assert driver.bootstrap_rights() == driver.agent_rights() == ()
    options = {"url": ("https://a",), "tag": ("x=1", "y")}
    told = ("--driver-option=acme.tag=x=1", "--driver-option=acme.tag=y", "--driver-option=acme.url=https://a")
    assert driver.hub_process(HubRegistrationDriver(auth_type="acme", driver_options=options)).arguments == told
    spoke = SpokeRegistrationDriver(auth_type="acme", driver_options=options)
    configured = SpokeRegistrationConfiguration(registration_driver=spoke, client_cert_expiration_seconds=60)
    assert driver.agent_process(configured).arguments == told, "it has no use for lifetimes of certificates"
    carried = {"driverOptions": {"url": ["https://a"], "tag": ["x=1", "y"]}}
    assert driver.hub_setup(options).entry == driver.member_setup(options, "token", b"ca").entry == carried
    assert driver.hub_setup({}).entry == {}


def test_what_is_said_to_a_driver_by_any_of_its_names_is_said_to_it(shelf: Shelf) -> None:
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme="acme:DRIVER")
    said = {"acme": {"a": ("1",)}, "acme-alias": {"b": ("2",)}, "csr": {"a": ("3",)}}
    assert options_of(find("acme"), said) == {"a": ("1",), "b": ("2",)}


def test_a_cluster_is_whose_mark_it_has_and_without_one_the_defaults() -> None:
    assert owner(marked()) == "csr"
    assert owner(marked(**{"agent.open-cluster-management.io/region": "eu"})) == "csr"
    assert owner(marked(**{DRIVER_ANNOTATION: "csr"})) == "csr"
    assert owner(marked(**{DRIVER_ANNOTATION: "grpc"})) == "grpc"
    assert owner(marked(**{DRIVER_ANNOTATION: "aws-irsa"})) == "awsirsa"
    assert owner(marked(**{ARN_ANNOTATION: ""})) == owner(marked(**{ROLE_ANNOTATION: "x"})) == "awsirsa"
    assert owner(marked(**{ARN_ANNOTATION: "", DRIVER_ANNOTATION: "csr"})) == "awsirsa"
    assert owner(marked(**{DRIVER_ANNOTATION: "unheard"})) is None


def test_installed_drivers_own_what_they_mark_and_one_that_fails_stops_nobody(shelf: Shelf) -> None:
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme="acme:DRIVER")
    code = "from muster.registration.drivers.interfaces import Driver\n" + DRIVER.format(name="bad").replace(
        "class Plug:", "class Plug(Driver):\n    def marks(self, cluster): raise RuntimeError('odd')"
    )
    shelf.add("bad", "bad", code, bad="bad:DRIVER")
    assert owner(marked(**{DRIVER_ANNOTATION: "acme-alias"})) == "acme"
    claimed = claimed_by_others("csr")
    assert claimed(marked(**{DRIVER_ANNOTATION: "acme"}))
    assert not claimed(marked(**{DRIVER_ANNOTATION: "csr"}))
    assert not claimed(marked())


def test_ours_by_whichever_name(shelf: Shelf) -> None:
    for name in ("awsirsa", "aws-irsa"):
        assert find(name).name == "awsirsa"
        assert isinstance(profile_of(name), Driver)
    with pytest.raises(UnknownDriver, match=r"'unheard'; there are: awsirsa, csr, grpc$"):
        find("unheard")
    assert profile_of("unheard") is None
    assert profiles()[-1].name == "csr", "whoever marks a cluster is asked before the default"


def test_ours_is_ours_under_whatever_name_another_is_brought(shelf: Shelf) -> None:
    shelf.add("evil", "evil", DRIVER.format(name="csr"), evil="evil:DRIVER")
    assert type(profile_of("csr")).__module__ == "muster.registration.drivers.csr"


def test_no_drivers_name_stands_outside_of_the_drivers() -> None:
    names = {name for one in profiles() for name in (one.name, *one.aliases)}
    assert {"csr", "awsirsa", "aws-irsa", "grpc"} <= names
    assert [found for room in ROOMS for found in spoken(room, names)] == []


def spoken(room: str, names: set[str]) -> Iterator[str]:
    """Where a string of the code is a driver's name."""
    root = Path(muster.__file__).parent
    for path in sorted((root / room).rglob("*.py")):
        location = path.relative_to(root)
        if location.is_relative_to(HOME):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in names:
                yield f"{location}:{node.lineno}: {node.value!r}"
