"""Drivers by name: ours, those of other distributions, and what is said when there is none or it is broken."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.registration import drivers
from muster.registration.drivers import BrokenDriver, DriverError, DriverOptionError, UnknownDriver, available, driver_options, find

DRIVER = """
from muster.registration.drivers.kubeconfigs import KubeconfigDriver
class Plug(KubeconfigDriver):
    name = "{name}"
    aliases = ("{name}-alias",)
    def hub(self, context): ...
    def spoke(self, context): ...
DRIVER = Plug()
"""


class Shelf:
    """Where a test puts distributions, as an installer would."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, distribution: str, module: str, code: str, **points: str) -> None:
        (self.path / f"{module}.py").write_text(code)
        info = self.path / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{drivers.GROUP}]", *lines, ""]))


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield Shelf(tmp_path)
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_ours_are_found_by_name() -> None:
    for name in ("csr", "grpc"):
        assert find(name).name == name
        assert name in available()


def test_a_name_that_nobody_has_is_an_error_that_lists_what_there_is(shelf: Shelf) -> None:
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme="acme:DRIVER")
    with pytest.raises(UnknownDriver) as error:
        find("kerberos")
    assert str(error.value) == "there is no registration driver 'kerberos'; there are: acme, awsirsa, csr, grpc"
    assert isinstance(error.value, DriverError)


@pytest.mark.parametrize("value", ["acme:DRIVER", "acme:Plug"])
def test_anothers_is_found_by_its_name_and_by_its_alias(shelf: Shelf, value: str) -> None:
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme=value)
    assert find("acme").name == find("acme-alias").name == "acme"


@pytest.mark.parametrize(
    ("code", "value", "problem"),
    [
        ("raise ImportError('no libfoo')", "broken:DRIVER", "ImportError: no libfoo"),
        ("1 / 0", "broken:DRIVER", "ZeroDivisionError"),
        ("raise SystemExit(3)", "broken:DRIVER", "SystemExit: 3"),
        ("x = 1", "broken:DRIVER", "AttributeError"),
        ("x = 1", "nowhere:DRIVER", "ModuleNotFoundError"),
        ("class Plug:\n    def __init__(self, more): ...", "broken:Plug", "TypeError"),
        ("class Plug:\n    name = 'x'\n    def hub(self, c): ...", "broken:Plug", "has no aliases, no spoke"),
    ],
)
def test_a_broken_one_names_its_distribution_and_stops_nobody_else(shelf: Shelf, code: str, value: str, problem: str) -> None:
    shelf.add("broken-dist", "broken", code, broken=value)
    shelf.add("acme", "acme", DRIVER.format(name="acme"), acme="acme:DRIVER")
    with pytest.raises(BrokenDriver) as error:
        find("broken")
    assert "'broken' of distribution broken-dist 1.0 cannot be used" in str(error.value)
    assert problem in error.value.problem
    assert available() == ("acme", "awsirsa", "broken", "csr", "grpc")
    assert find("csr").name == "csr"
    assert find("acme").name == find("acme-alias").name == "acme"
    with pytest.raises(UnknownDriver):
        find("kerberos")


def test_our_names_cannot_be_taken(shelf: Shelf) -> None:
    shelf.add("evil", "evil", DRIVER.format(name="evil"), csr="evil:DRIVER")
    assert type(find("csr")).__module__ == "muster.registration.drivers.csr"
    assert available() == ("awsirsa", "csr", "grpc")


def test_two_of_one_name_are_both_named(shelf: Shelf) -> None:
    shelf.add("one", "one", DRIVER.format(name="same"), same="one:DRIVER")
    shelf.add("two", "two", DRIVER.format(name="same"), same="two:DRIVER")
    with pytest.raises(BrokenDriver, match=r"(one 1\.0 and two 1\.0|two 1\.0 and one 1\.0).*both bring one of this name"):
        find("same")


def test_asking_what_there_is_loads_nothing(shelf: Shelf) -> None:
    shelf.add("acme", "acme", "raise SystemExit", acme="acme:DRIVER")
    assert available() == ("acme", "awsirsa", "csr", "grpc")
    assert find("csr").name == "csr"


def test_settings_are_sorted_by_driver_and_keep_all_their_values() -> None:
    settings = ["acme.url=https://a?b=c", "acme.tag=x", "acme.tag=y", "other.tag=", "acme.a.b=1"]
    assert driver_options(settings) == {
        "acme": {"url": ("https://a?b=c",), "tag": ("x", "y"), "a.b": ("1",)},
        "other": {"tag": ("",)},
    }


@pytest.mark.parametrize("text", ["acme", "acme.url", "url=x", ".url=x", "acme.=x", "", "=x"])
def test_a_setting_of_another_form_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(DriverOptionError, match=r"expected DRIVER\.OPTION=VALUE") as error:
        driver_options([text])
    assert repr(text) in str(error.value)
