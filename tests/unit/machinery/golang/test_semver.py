import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang import blang_semver, masterminds_semver
from muster.machinery.golang.errors import GoError

numbers = st.integers(0, 2**64 - 1)
identifiers = numbers.map(str) | st.from_regex(r"[0-9A-Za-z-]*[A-Za-z-][0-9A-Za-z-]*", fullmatch=True)
prereleases = st.lists(identifiers, max_size=3).map(".".join)


@st.composite
def versions(draw: st.DrawFn) -> str:
    core = ".".join(str(draw(st.integers(0, 3))) for _ in range(3))
    prerelease = draw(prereleases)
    return f"{core}-{prerelease}" if prerelease else core


@given(versions(), versions())
def test_both_put_strict_versions_in_the_same_order(one: str, other: str) -> None:
    left, right = blang_semver.parse_version(one), blang_semver.parse_version(other)
    compared = masterminds_semver.Version.parse(one).compare(masterminds_semver.Version.parse(other))
    assert compared == (left > right) - (left < right)


@given(versions())
def test_a_version_is_printed_as_it_was_read(text: str) -> None:
    assert str(masterminds_semver.Version.parse(text)) == text


def test_the_order_of_the_specification() -> None:
    texts = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
    ]
    assert sorted(set(texts), key=blang_semver.parse_version) == texts


@pytest.mark.parametrize("text", ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-99999999999999999999"])
def test_blang_is_strict(text: str) -> None:
    with pytest.raises(GoError):
        blang_semver.parse_version(text)


def test_masterminds_is_forgiving() -> None:
    assert str(masterminds_semver.Version.parse("v1.2")) == "1.2.0"


@pytest.mark.parametrize(
    ("constraint", "version", "holds"),
    [
        ("^1.2", "1.9.0", True),
        ("~1.2", "1.3.0", False),
        (">=1 <2 || 3.x", "3.4.5", True),
        ("1.x", "1.2.3-rc.1", False),
        ("1.1 - 1.3", "1.2.9", True),
    ],
)
def test_a_constraint_holds_or_not(constraint: str, version: str, holds: bool) -> None:
    alternatives = masterminds_semver.parse_constraints(constraint)
    assert masterminds_semver.satisfies(masterminds_semver.Version.parse(version), alternatives) is holds
