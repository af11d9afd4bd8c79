"""Help is written for people who know Kubernetes and not this project: complete phrases, without words of our own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from muster.cli.clusteradm import main as clusteradm
from muster.cli.lazy import LazyGroup
from muster.cli.muster import main as muster
from muster.cli.policy import config_policy_controller

ROOTS = {"muster": muster, "clusteradm": clusteradm, "config-policy-controller": config_policy_controller}
FRAGMENT = re.compile(
    r"(Of|For|By|On|In|To|With|As|At|From|Until|Even|Whose|What|Where|How|Between|Who|Whether|When)\b(?!:)"
    r"|(Both|Only|Also)\b(?! (File|Path))"
)
"""Beginnings that need the option's name, or another option, to be understood."""
OWN_WORDS = re.compile(
    r"\b(ground|grounds|way|ways|elsewhere|tell|tells|told|say|says|said|unasked|heed|heeds|endure|endures|door|shelter|manner"
    r"|memory of|misfit|sighting|fares?|faring|seam|patience|pardon|beside|newcomers?|so long)\b",
    re.IGNORECASE,
)
CODE_WORD = re.compile(r"`[^`]+`|--[a-z]")


def walk(path: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walk((*path, name), found)


COMMANDS = [entry for name, root in ROOTS.items() for entry in walk((name,), root)]
IDS = [" ".join(path) for path, _ in COMMANDS]


def problem(text: str | None) -> str:
    """Why this is no help text."""
    text = re.sub(r"\s*\[(default|required).*", "", text or "", flags=re.DOTALL)
    if len(text.split()) < 3:
        return "has fewer than three words"
    if not (text[0].isupper() or CODE_WORD.match(text)):
        return "begins with a small letter"
    if not text.rstrip().endswith((".", ":")):
        return "is no sentence"
    if FRAGMENT.match(text):
        return "is a fragment"
    if own := OWN_WORDS.search(text):
        return f"has the word {own[0]!r}"
    return ""


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_option_is_explained_by_a_complete_phrase(path: tuple[str, ...], command: click.Command) -> None:
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert {f"{option.opts[0]}: {option.help}": why for option in options if (why := problem(option.help))} == {}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_command_is_explained_by_a_complete_phrase(path: tuple[str, ...], command: click.Command) -> None:
    paragraphs = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    assert problem(paragraphs[0]) == ""
    assert {text: why for text in paragraphs[1:] if (why := problem(f"The text: {text}"))} == {}
    assert command.short_help is None or problem(command.short_help) == ""


@pytest.mark.parametrize(
    ("path", "command"), [entry for entry in COMMANDS if isinstance(entry[1], click.Group)], ids=lambda value: None
)
def test_every_listing_of_commands_explains_them(path: tuple[str, ...], command: click.Group) -> None:
    context = click.Context(command, info_name=path[-1])
    formatter = click.HelpFormatter(width=1000)
    command.format_commands(context, formatter)
    lines = [line.split(None, 1) for line in formatter.getvalue().splitlines()[1:] if line.strip()]
    assert len(lines) == len(command.list_commands(context))
    assert {name: why for name, text in lines if (why := problem(text))} == {}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=IDS)
def test_every_command_that_does_something_has_examples(path: tuple[str, ...], command: click.Command) -> None:
    """As kubectl's have; the names that upstream has for our commands show ours."""
    if isinstance(command, click.Group) and not command.invoke_without_command:
        return
    lines = [line.strip() for line in (command.epilog or "").splitlines()[2:]]
    assert lines, "no examples"
    for line in lines:
        words = shlex.split(line.split("|")[0].removeprefix("source <(").removesuffix(")"))
        parse(ROOTS[words[0]], words[0], words[1:])


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None = None) -> None:
    """Raises what click raises for words that are not understood; that files are there is not asked."""
    context = click.Context(command, parent=parent, info_name=name)
    context.resilient_parsing = True
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    assert values is not None
    if isinstance(command, LazyGroup) or (isinstance(command, click.Group) and rest):
        if rest and (found := command.get_command(context, rest[0])) is not None:
            return parse(found, rest[0], rest[1:], context)
        assert command.invoke_without_command, f"{name}: no command in {words}"
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    assert not rest or arguments, f"{name}: nothing takes {rest}"
    return None
