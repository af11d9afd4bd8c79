"""`muster template`: resolves the templates in policies, as hub and policy controller would.

Objects come from files (`--hub-resources`, `--resources`) or from clusters (`--context`, `--cluster-context`); without a source for
the hub or for the managed cluster, its templates are printed as they are. Nothing is ever written. Exit codes are for pipelines: 0
if everything resolves, 1 if something does not, 2 for wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.connection import explain as explain_error
from muster.cli.console import echo, echo_error, echo_warning
from muster.cli.examples import examples
from muster.cli.lazy import Entry, LazyGroup
from muster.cli.loop import run_loop
from muster.cli.process import find_cluster
from muster.cli.values import Names
from muster.machinery.oserrors import explain_file_error

if TYPE_CHECKING:
    from muster.machinery.objects import Object
    from muster.policy.explanation import Account, Explanation, Finding, Side
    from muster.policy.resolver import ObjectSource
    from muster.runtime.cache import Selection
    from muster.runtime.client import KubeClient

F = TypeVar("F", bound=Callable[..., Any])
HELP = {"help_option_names": ["-h", "--help"]}
EXAMPLES = examples(
    "muster template render policy.yaml --resources objects.yaml --hub-resources hub.yaml --cluster-name cluster1",
    "muster template explain policy.yaml --context hub --cluster-context cluster1 --cluster-name cluster1 --diff",
    "muster template explain policy.yaml --context hub --cluster-name cluster1 --grant | kubectl --context hub apply -f -",
    "muster template lint policies/*.yaml",
)
ENTRIES = {
    "explain": Entry("muster.cli.template", "Show the objects that templates read and the permissions they need.", "explain"),
    "lint": Entry("muster.cli.template", "Check templates without a cluster.", "lint"),
    "render": Entry("muster.cli.template", "Show policies with their templates resolved.", "render"),
}
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.group(
    "template",
    cls=LazyGroup,
    entries=ENTRIES,
    short_help="Render, explain and check policy templates.",
    context_settings=HELP,
    epilog=EXAMPLES,
)
def command() -> None:
    """Render, explain and check policy templates, with objects from files or clusters."""


_CLUSTERS = (
    click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Path to the kubeconfig file.  [default: kubectl's]"),
    click.option("--context", default="", help="Context of the hub, used to resolve hub templates."),
    click.option("--cluster-context", default="", help="Context of the managed cluster, used to resolve managed templates."),
    click.option("--cluster-name", default="", help="Name of the managed cluster for which hub templates are resolved."),
    click.option("--hub-resources", multiple=True, type=_FILE, help="File with objects of the hub. Repeatable."),
    click.option("--resources", multiple=True, type=_FILE, help="File with objects of the managed cluster. Repeatable."),
    click.option(
        "--denylist",
        type=Names(),
        multiple=True,
        help="Template functions to deny, like the controller's --template-function-denylist.",
    ),
)


def _clusters(function: F) -> F:
    for option in reversed(_CLUSTERS):
        function = option(function)
    return click.argument("files", nargs=-1, required=True, type=_FILE)(function)


@dataclass(frozen=True)
class _Clusters:
    """The sources of objects for the two clusters."""

    sources: dict[Side, ObjectSource]
    clients: dict[Side, KubeClient]


@click.command(
    "render",
    context_settings=HELP,
    epilog=examples("muster template render policy.yaml --resources objects.yaml --hub-resources hub.yaml --cluster-name cluster1"),
)
@_clusters
@click.option(
    "-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True, help="Format of the output."
)
def render(files: tuple[str, ...], output: str, **options: Any) -> None:
    """Show policies with their templates resolved.

    Data that templates read from Secrets is shown in clear text.
    """
    explanations, _ = _explained(files, options, diffs=False)
    if output == "json":
        from muster.cli.output import document

        items = [one.document for one in explanations]
        echo(document(items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}, output))
    else:
        _echo_documents([explanation.document for explanation in explanations])
    _finish(explanations)


@click.command(
    "explain",
    context_settings=HELP,
    epilog=examples(
        "muster template explain policy.yaml --context hub --cluster-context cluster1 --cluster-name cluster1 --diff",
        "muster template explain policy.yaml --context hub --cluster-name cluster1 --grant",
    ),
)
@_clusters
@click.option("--diff", is_flag=True, help="Show what would change on the managed cluster.")
@click.option("--grant", is_flag=True, help="Print the Roles and bindings that are missing, and nothing else.")
@click.option(
    "-o", "--output", type=click.Choice(("text", "yaml", "json")), default="text", show_default=True, help="Format of the output."
)
def explain(files: tuple[str, ...], diff: bool, grant: bool, output: str, **options: Any) -> None:
    """Show which objects templates read, which watches and permissions that needs, and whether they resolve.

    Permissions on the hub are checked for the governance-standalone-hub-templating add-on of the cluster given with
    --cluster-name, permissions on the managed cluster for the policy controller. Without --cluster-name, --grant prints the
    latter.
    """
    if grant and not (options["cluster_name"] or options["cluster_context"]):
        raise click.UsageError("--grant needs --cluster-name for rights on the hub, or --cluster-context for the managed cluster")
    explanations, missing = _explained(files, options, diffs=diff, rights=True)
    if grant:
        # The hub's come first: the printed manifests are for one cluster only.
        _echo_documents(missing.grants(next(iter(missing.accounts))))
    elif output == "text":
        for one in explanations:
            _echo_explanation(one, missing)
    else:
        from muster.cli.output import document

        echo(document([_explanation_document(explanation, missing) for explanation in explanations], output))
    _finish(explanations)


@click.command("lint", context_settings=HELP, epilog=examples("muster template lint policy.yaml --strict"))
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("--strict", is_flag=True, help="Fail on warnings as well as on errors.")
@click.option(
    "-o", "--output", type=click.Choice(("text", "yaml", "json")), default="text", show_default=True, help="Format of the output."
)
def lint(files: tuple[str, ...], strict: bool, output: str) -> None:
    """Check templates without a cluster: syntax errors, denied functions and likely mistakes."""
    from muster.cli.output import document as formatted

    found = [(file, finding) for file in files for finding in _findings(file)]
    if output == "text":
        for file, finding in found:
            echo(f"{file}: {finding.level}: {finding.where + ': ' if finding.where else ''}{finding.message}")
    else:
        rows = [{"file": file, "level": one.level, "where": one.where, "message": one.message} for file, one in found]
        echo(formatted(rows, output))
    if any(strict or finding.level == "error" for _, finding in found):
        raise SystemExit(1)


def _findings(file: str) -> list[Finding]:
    """An unreadable file does not hide the findings in others."""
    from muster.policy.explanation import Finding, lint

    try:
        return [finding for document in _documents(file) for finding in lint(document)]
    except click.ClickException as error:
        return [Finding("error", "", error.message.removeprefix(f"{file}: "))]


# Files


def _documents(file: str) -> list[Object]:
    from muster.kube.yaml import YAMLError, load_all
    from muster.policy.explanation import InvalidDocument, validate_document

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        found = [document for document in load_all(text) if document is not None]
    except OSError as error:
        raise click.ClickException(f"{file}: {explain_file_error(error)}") from None
    except (UnicodeDecodeError, YAMLError) as error:
        raise click.ClickException(f"{file}: {error}") from None
    documents = [one for document in found for one in _items(document)]
    for one in documents:
        try:
            validate_document(one)
        except InvalidDocument as error:
            raise click.ClickException(f"{file}: {error}") from None
    return documents


def _items(document: Any) -> list[Any]:
    """The items of a List, else the document itself."""
    if not isinstance(document, dict) or document.get("kind") != "List":
        return [document]
    items = document.get("items") or []
    return items if isinstance(items, list) else [items]


# Clusters


@dataclass
class _Missing:
    """The objects that service accounts may not read, by side; None if the server did not report them."""

    accounts: dict[Side, Account]
    selections: dict[Side, list[Selection] | None]
    needed: dict[Side, list[Selection]]

    def grants(self, side: Side) -> list[Object]:
        """The missing permissions; all, if that is unknown."""
        from muster.policy.explanation import grants

        missing = self.selections[side]
        return grants(self.accounts[side], self.needed[side] if missing is None else missing)


def _explained(
    files: tuple[str, ...], options: dict[str, Any], *, diffs: bool, rights: bool = False
) -> tuple[list[Explanation], _Missing]:
    documents = [document for file in files for document in _documents(file)]
    return run_loop(_run(documents, options, diffs=diffs, rights=rights))


async def _run(
    documents: list[Object], options: dict[str, Any], *, diffs: bool, rights: bool
) -> tuple[list[Explanation], _Missing]:
    from muster.policy.explanation import Explainer, Side

    denylist = frozenset(name for names in options["denylist"] for name in names)
    async with AsyncExitStack() as stack:
        clusters = _open(stack, documents, options)
        hub, managed = (clusters.sources.get(side) for side in Side)
        explainer = Explainer(hub, managed, options["cluster_name"], denylist, diffs=diffs)
        explanations = [one for document in documents for one in await explainer.explain(document)]
        missing = await _missing(explanations, clusters, options) if rights else _Missing({}, {}, {})
        return explanations, missing


def _open(stack: AsyncExitStack, documents: Iterable[Object], options: dict[str, Any]) -> _Clusters:
    from muster.policy.dependencies import DirectSource, LocalSource
    from muster.policy.explanation import Side
    from muster.runtime.client import RESTMapper

    clusters = _Clusters({}, {})
    for side, context, resources in ((Side.HUB, "context", "hub_resources"), (Side.CLUSTER, "cluster_context", "resources")):
        if options[context] and options[resources]:
            flags = (f"--{name.replace('_', '-')}" for name in (context, resources))
            raise click.UsageError(f"{' and '.join(flags)} exclude each other: objects are of a cluster or of files")
        if options[context]:
            client = find_cluster(options["kubeconfig"], options[context]).connect("muster-template")
            stack.push_async_callback(client.close)
            clusters.clients[side] = client
            clusters.sources[side] = DirectSource(client, RESTMapper(client))
        elif options[resources]:
            objects = [document for file in options[resources] for document in _documents(file)]
            clusters.sources[side] = LocalSource(objects, like=_definitions(documents))
    if not clusters.sources:
        # Without a source, templates that need no objects are resolved all the same.
        clusters.sources.update(dict.fromkeys(Side, LocalSource((), like=_definitions(documents))))
    return clusters


def _definitions(value: Any) -> list[Object]:
    """All nested values that look like objects."""
    if isinstance(value, dict):
        below = [one for item in value.values() for one in _definitions(item)]
        return [value, *below] if isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str) else below
    return [definition for item in value for definition in _definitions(item)] if isinstance(value, list) else []


async def _missing(explanations: list[Explanation], clusters: _Clusters, options: dict[str, Any]) -> _Missing:
    from muster.policy.explanation import Side, controller_account, find_hub_account, hub_account, missing_permissions
    from muster.runtime.client import KubeError

    accounts: dict[Side, Account] = {}
    if options["cluster_name"]:
        hub, name = clusters.clients.get(Side.HUB), options["cluster_name"]
        accounts[Side.HUB] = hub_account(name) if hub is None else await find_hub_account(hub, name)
    if Side.CLUSTER in clusters.clients:
        accounts[Side.CLUSTER] = controller_account()
    missing: dict[Side, list[Selection] | None] = {}
    needed: dict[Side, list[Selection]] = {}
    for side, account in accounts.items():
        needed[side] = list(
            dict.fromkeys(read.selection for explanation in explanations for read in explanation.reads.get(side, ()))
        )
        missing[side] = None
        if side in clusters.clients:
            try:
                missing[side] = await missing_permissions(clusters.clients[side], account, needed[side])
            except KubeError as error:
                echo_warning(f"whether {account.user} may read is not known: {explain_error(error)}")
    return _Missing(accounts, missing, needed)


# Output


def _echo_documents(documents: list[Object]) -> None:
    from muster.cli.output import document

    for one in documents:
        echo("---\n" + document(one, "yaml"))


def _finish(explanations: list[Explanation]) -> None:
    for one in explanations:
        for side in one.unresolved:
            flags = "--context or --hub-resources" if side.value == "hub" else "--cluster-context or --resources"
            echo_warning(f"{one.name}: templates of the {side.value} are not resolved: give {flags}")
        for problem in one.problems:
            echo_error(f"{one.name}: {problem.where + ': ' if problem.where else ''}{problem.message}")
    if any(explanation.problems for explanation in explanations):
        raise SystemExit(1)


def _echo_explanation(one: Explanation, missing: _Missing) -> None:
    from muster.cli.output import table

    state = "does not resolve" if one.problems else "is resolved in part" if one.unresolved else "resolves"
    echo(f"{one.name} {state}{', and holds sensitive data' if one.sensitive else ''}")
    rows = [
        (side.value, read.selection.resource.kind, read.selection.namespace, read.what, _found(read), _right(side, read, missing))
        for side, reads in one.reads.items()
        for read in reads
    ]
    if rows:
        echo(table(("of", "kind", "namespace", "read and watched", "found", "rights"), rows))
    for difference in one.differences:
        echo(f"{difference.what}: {difference.action}")
        if difference.diff:
            echo(difference.diff.rstrip("\n"))


def _found(read: Any) -> str:
    if read.error:
        return "not readable"
    if read.selection.name:
        return "yes" if read.found else "no"
    return str(len(read.found))


def _right(side: Side, read: Any, missing: _Missing) -> str:
    if side not in missing.accounts:
        return ""
    selections = missing.selections[side]
    return "unknown" if selections is None else "missing" if read.selection in selections else "granted"


def _explanation_document(one: Explanation, missing: _Missing) -> Object:
    return {
        "name": one.name,
        "resolved": one.is_resolved and not one.unresolved,
        "sensitive": one.sensitive,
        "unresolved": [side.value for side in one.unresolved],
        "problems": [{"of": problem.side.value, "where": problem.where, "message": problem.message} for problem in one.problems],
        "reads": [
            {
                "of": side.value,
                "apiVersion": read.selection.resource.api_version,
                "kind": read.selection.resource.kind,
                "namespace": read.selection.namespace,
                "name": read.selection.name,
                "labelSelector": read.selection.label_selector,
                "found": [str(key) for key in read.found],
                "error": read.error,
                "rights": _right(side, read, missing),
            }
            for side, reads in one.reads.items()
            for read in reads
        ],
        "differences": [{"object": each.what, "action": each.action, "diff": each.diff} for each in one.differences],
        "grants": {side.value: missing.grants(side) for side in missing.accounts},
    }
