"""Output formats: table, OCM's tree, JSON and YAML.

A command makes a `Listing`: one `Item` for each object, with the cells of its row, the fields of its branch, and the object itself.
Only this module formats it. JSON and YAML contain the objects as the server sent them, so scripts need nothing else; control
characters are escaped there in the syntax of the format. Cells and branches are one line each.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.console import columns_of, echo, fit
from muster.machinery.printable import is_printable, one_line, printable_json

if TYPE_CHECKING:
    from muster.api import Document

FORMATS = ("tree", "table", "json", "yaml")
LISTINGS = ("tree", "table", "wide", "name", "json", "yaml")
"""The formats of a list of objects."""
_MANAGED_FIELDS = "muster.cli.output.managed-fields"
_GAP = "   "
_NARROWEST, _NARROWEST_LAST = 12, 24
NAME, WIDE = "name", "wide"
"""A table with the additional columns of a listing."""
F = TypeVar("F", bound=Callable[..., Any])


def format_option(*formats: str, default: str = "tree") -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats or FORMATS),
        default=default,
        show_default=True,
        help="Output format of the result.",
    )


def listing_options(command: F) -> F:
    """Options for the format of a list: all formats, and whether JSON and YAML include managed fields."""

    def note(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        context.meta[_MANAGED_FIELDS] = value

    shown = click.option(
        "--show-managed-fields",
        is_flag=True,
        callback=note,
        expose_value=False,
        help="Keep the managed fields of objects in JSON and YAML output.",
    )
    return format_option(*LISTINGS)(shown(command))


@dataclass(frozen=True)
class Item:
    """`fields` are paths with dots, as in OCM's tree; the branch of the object has `name`."""

    name: str
    cells: Sequence[object]
    fields: Mapping[str, object] = field(default_factory=dict)
    document: Document = field(default_factory=dict)
    more: Sequence[object] = ()
    """The cells of the additional columns."""

    def row(self, output: str) -> list[object]:
        return [*self.cells, *(self.more if output == WIDE else ())]


@dataclass(frozen=True)
class Listing:
    kind: str
    columns: Sequence[str]
    items: Sequence[Item]
    more: Sequence[str] = ()

    def head(self, output: str) -> list[str]:
        return [*self.columns, *(self.more if output == WIDE else ())]


@dataclass(frozen=True)
class Branch:
    """A branch of a tree with a value of its own."""

    value: object
    below: Mapping[str, object]


def show(listing: Listing, output: str) -> None:
    echo(render(listing, output))


def render(listing: Listing, output: str) -> str:
    if output in ("table", WIDE):
        return table(listing.head(output), [item.row(output) for item in listing.items])
    if output == "tree":
        branches: dict[str, Any] = {item.name: _branch(item.fields) for item in listing.items}
        return tree(listing.kind, branches)
    if output == NAME:
        return "\n".join(_resource(listing.kind, item) for item in listing.items)
    items = [item.document for item in listing.items]
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(_MANAGED_FIELDS):
        items = [_without_managed_fields(item) for item in items]
    return document({"apiVersion": "v1", "kind": "List", "items": items}, output)


def _resource(kind: str, item: Item) -> str:
    """In kubectl's notation of objects: kind.group/name."""
    found = item.document
    group = str(found.get("apiVersion") or "").rpartition("/")[0]
    name = (found.get("metadata") or {}).get("name") or item.name
    return one_line(".".join(filter(None, (str(found.get("kind") or kind).lower(), group))) + f"/{name}")


def _without_managed_fields(found: Document) -> Document:
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return found
    return {**found, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def news(before: Listing, after: Listing, output: str) -> str:
    """The items of a listing that have changed, and those that are gone; empty if there are none.

    Tables continue without their header.
    """
    known, now = ({item.name: _view(item, output) for item in one.items} for one in (before, after))
    changed = [item for item in after.items if known.get(item.name) != now[item.name]]
    gone = [f"{name} (deleted)" for name in known if name not in now]
    if not changed and not gone:
        return ""
    if output == "tree":
        branches = {item.name: _branch(item.fields) for item in changed}
        return tree(after.kind, branches | dict.fromkeys(gone, ""))
    head = after.head(output)
    rows = [item.row(output) for item in changed] + [[name, *[""] * (len(head) - 1)] for name in gone]
    return "\n".join(table(head, rows).splitlines()[1:])


def _view(item: Item, output: str) -> object:
    return item.fields if output == "tree" else item.row(output)


def document(value: object, output: str) -> str:
    if output == "json":
        import orjson

        return printable_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    from muster.kube import yaml

    text = yaml.dump(value)
    return (text if is_printable(text) else yaml.dump(value, ascii_only=True)).rstrip("\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """At most `width` columns wide: by default the terminal's, and unlimited without a terminal."""
    texts = [[column.upper() for column in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(columns_of(row[index]) for row in texts) for index in range(len(columns))]
    limit = terminal_width() if width is None else width
    fitted = _fitted(widths, limit, [columns_of(column) for column in columns]) if limit else widths
    last = len(fitted) - 1
    lines = []
    for row in texts:
        # The last column mostly has the reason, so it is wrapped below itself; others are cut with an ellipsis.
        parts = wrap(row[last], max(fitted[last], 1)) if columns_of(row[last]) > fitted[last] else [row[last]]
        cells = [_padded(fit(cell, room), room) for cell, room in zip(row[:last], fitted[:last], strict=True)]
        lines.append(_GAP.join([*cells, *parts[:1]]).rstrip())
        indent = sum(fitted[:last]) + len(_GAP) * last
        lines += [" " * indent + part for part in parts[1:]]
    return "\n".join(lines)


def terminal_width() -> int:
    """0 without a terminal: output for programs is not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _fitted(widths: list[int], limit: int, heads: list[int]) -> list[int]:
    """The widest columns shrink first, the last one before all others; none becomes narrower than its header, or than a few
    letters.
    """
    fitted, last = list(widths), len(widths) - 1
    floors = [min(width, max(head, _NARROWEST)) for width, head in zip(widths, heads, strict=True)]
    if last >= 0:
        floors[last] = min(widths[last], max(heads[last], _NARROWEST_LAST))
    excess = sum(fitted) + len(_GAP) * last - limit
    for index in sorted(range(len(fitted)), key=lambda one: (one != last, -fitted[one])):
        given = min(max(excess, 0), fitted[index] - floors[index])
        fitted[index] -= given
        excess -= given
    return fitted


def _padded(text: str, room: int) -> str:
    return text + " " * (room - columns_of(text))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return one_line(",".join(map(str, value)))
    return "" if value is None else one_line(str(value))


def _branch(fields: Mapping[str, object]) -> dict[str, Any]:
    """Convert paths to nested branches; existing branches are kept."""
    root: dict[str, Any] = {}
    for path, value in fields.items():
        *parents, last = path.split(".")
        branch = root
        for step in parents:
            branch = branch.setdefault(step, {})
        branch[last] = value
    return root


def tree(name: str, branches: Mapping[str, Any]) -> str:
    """`<name> value`, one line each; a value that is a mapping or a Branch is a branch."""
    return "\n".join([f"<{name}>", *_lines(branches, "")])


def _lines(branches: Mapping[str, Any], indent: str) -> list[str]:
    made = []
    for number, (name, value) in enumerate(branches.items(), 1):
        last = number == len(branches)
        branch = value if isinstance(value, Branch) else Branch("", value) if isinstance(value, Mapping) else Branch(value, {})
        below, text = branch.below, _text(branch.value)
        made.append(f"{indent}{'└── ' if last else '├── '}<{one_line(str(name))}> {text}".rstrip())
        made += _lines(below, indent + ("    " if last else "│   "))
    return made
