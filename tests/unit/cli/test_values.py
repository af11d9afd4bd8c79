"""Option values of our own kinds: what they take, and that a refusal names the option."""

import click
import pytest
from click.testing import CliRunner

from muster.cli.values import Duration, Gates, Names, Pairs


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("90s", 90), ("1h30m", 5400), ("7d", 604800), ("250ms", 0.25), ("0", 0)]
)
def test_durations_are_seconds_or_go_s_way(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1x", "h", "-5s", "1h 30m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no duration"):
        Duration().convert(text, None, None)


def test_names_come_with_commas_between() -> None:
    assert Names().convert("csr, grpc,,", None, None) == ("csr", "grpc")


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    assert Pairs().convert("a=b=c,d=", None, None) == (("a", "b=c"), ("d", ""))
    with pytest.raises(click.BadParameter, match="'oops' is not key=value"):
        Pairs().convert("a=b,oops", None, None)


def test_a_gate_must_be_known_and_true_or_false() -> None:
    gates = Gates(["On", "Off"], ["Later"])
    assert gates.convert("On=true,Off=False,Later=false", None, None) == (("On", True), ("Off", False), ("Later", False))
    for text, problem in (("Other=true", "there are Off, On"), ("On=maybe", "true or false"), ("Later=true", "not supported")):
        with pytest.raises(click.BadParameter, match=problem):
            gates.convert(text, None, None)


def test_a_refusal_names_the_option() -> None:
    @click.command()
    @click.option("--after", type=Duration())
    def command(after: float) -> None: ...

    result = CliRunner().invoke(command, ["--after", "soon"])
    assert result.exit_code == 2
    assert "Invalid value for '--after': 'soon' is no duration" in result.output
