"""`clusteradm gateway`: access to clusters through the hub's gateway: kubeconfigs, one command on many clusters, permissions."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.cluster_names import ClusterNames
from muster.cli.clusteradm.bundle_flags import flat
from muster.cli.connection import Globals, Session, administer, connected, write_file
from muster.cli.console import echo, echo_error
from muster.cli.examples import examples
from muster.cli.lazy import SuggestingGroup
from muster.cli.name_completion import CLUSTERS, objects
from muster.cli.output import document, format_option
from muster.cli.values import Names
from muster.machinery.oserrors import explain_file_error

if TYPE_CHECKING:
    from muster.administration.gateway.access import Access
    from muster.administration.gateway.kubectl import Finished
    from muster.api import Document
    from muster.gateway.client import ClusterResult, Gateway, GatewayApi

SECTIONS, PREFIX, JSON = "sections", "prefix", "json"


@click.group("gateway", cls=SuggestingGroup)
@connected
def command() -> None:
    """Access managed clusters through the hub's gateway."""


def selecting(text: str) -> str:
    """Validate a label selector."""
    from muster.kube.selectors import SelectorError, parse_label_selector

    try:
        parse_label_selector(text)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="--selector") from None
    return text


def hub_gateway(api: GatewayApi, hub_server: str = "") -> Gateway:
    """The gateway, with the credentials of the command's own connection."""
    from muster.cli.process import find_cluster, in_pod
    from muster.gateway.client import Gateway
    from muster.runtime.client import KubeconfigError

    options = Globals.current()
    try:
        if in_pod(options.kubeconfig, options.context):
            return Gateway.from_config(find_cluster(options.kubeconfig, options.context).config, api=api, hub_server=hub_server)
        return Gateway.from_kubeconfig(options.kubeconfig, options.context, api=api, hub_server=hub_server)
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; choose another --kubeconfig or --context") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--hub-server") from None


async def chosen(session: Session, names: tuple[str, ...], selector: str = "") -> tuple[GatewayApi, list[str]]:
    """The gateway's API and the selected clusters."""
    from muster.administration.gateway.clusters import choose, find_api
    from muster.administration.hubs import require_hub

    await require_hub(session.client)
    api = await find_api(session.client)
    return api, await choose(session.client, api, names=names, selector=selector)


# kubeconfig ------------------------------------------------------------------------------------------------------------------

KUBECONFIG = examples(
    "clusteradm gateway kubeconfig cluster1 cluster2",
    "clusteradm gateway kubeconfig --output fleet.kubeconfig",
    "clusteradm gateway kubeconfig -l env=prod --prefix prod- --merge --output ~/.kube/config",
)


@command.command("kubeconfig", epilog=KUBECONFIG)
@click.argument("names", nargs=-1, type=ClusterNames(), metavar="[CLUSTER]...", shell_complete=objects(CLUSTERS))
@click.option("-l", "--selector", default="", help="Label selector that chooses managed clusters.")
@click.option(
    "--output-file", "--output", "path", type=click.Path(dir_okay=False), help="File to write the kubeconfig to, with mode 0600."
)
@click.option("--merge", is_flag=True, help="Merge the contexts into the file and keep its other entries.")
@click.option("--overwrite", is_flag=True, help="Replace the file, or with --merge its entries of the same names.")
@click.option(
    "--hub-server", default="", metavar="URL", help="URL of the hub's API server, if the file is used where another URL is needed."
)
@click.option("--prefix", default="", help="Prefix of the names of the contexts.")
@connected
def kubeconfig(names: tuple[tuple[str, ...], ...], selector: str, path: str | None, **given: Any) -> None:
    """Print a kubeconfig with a context for each CLUSTER, by default for all of them.

    The contexts use the gateway on the hub and the hub's user of the current kubeconfig. The file contains no credentials of
    managed clusters.
    """
    clusters = tuple(flat(names))
    if clusters and selector:
        raise click.UsageError("--selector: chooses the clusters; it cannot be combined with their names")
    if given["merge"] and not path:
        raise click.UsageError("--merge: needs the file, --output")
    api, found = administer(lambda session: chosen(session, clusters, selecting(selector)), machine=True)
    made = hub_gateway(api, given["hub_server"]).kubeconfig(found, prefix=given["prefix"])
    if path is None:
        echo(document(made, "yaml"))
        return
    content = _kubeconfig_text(path, made, merge=given["merge"], overwrite=given["overwrite"])
    text = (
        f"{len(found)} contexts to {path}; use one with: kubectl --kubeconfig {path} --context {made['current-context']} get nodes"
    )
    if Globals.current().dry_run:
        echo(f"would write {text}")
        return
    write_file(path, content, "--output")
    echo(f"wrote {text}", err=True)


def _kubeconfig_text(path: str, made: Document, *, merge: bool, overwrite: bool) -> str:
    """The new content of the file."""
    from muster.administration.errors import AdministrationError
    from muster.administration.gateway.kubeconfigs import merge as merged
    from muster.administration.gateway.kubeconfigs import read
    from muster.kube import yaml

    file = Path(path)
    if not file.is_file():
        return yaml.dump(made)
    if not merge and not overwrite:
        raise click.ClickException(f"--output {path}: there is such a file; add to it with --merge, or replace it with --overwrite")
    try:
        return yaml.dump(merged(read(file.read_bytes(), path), made, overwrite=overwrite) if merge else made)
    except OSError as error:
        raise click.ClickException(f"--output {path}: {explain_file_error(error)}") from None
    except AdministrationError as error:
        raise click.ClickException(str(error)) from None


# exec ------------------------------------------------------------------------------------------------------------------------

EXEC = examples(
    "clusteradm gateway exec --clusters cluster1,cluster2 -- kubectl get nodes",
    "clusteradm gateway exec --selector env=prod --timeout 20s -- get pods -A --no-headers",
    "clusteradm gateway exec --all -o json -- version",
    "clusteradm gateway exec --all -- apply -f -",
)


@command.command("exec", epilog=EXEC)
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "names",
    type=ClusterNames(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@click.option("-l", "--selector", default="", help="Label selector that chooses managed clusters.")
@click.option("--all", "everywhere", is_flag=True, help="Run the command on all managed clusters.")
@click.option(
    "--parallel",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Maximum number of clusters to run the command on at the same time.",
)
@format_option(SECTIONS, PREFIX, JSON, default=SECTIONS)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- [kubectl] ARGS...")
@connected
def execute(names: tuple[tuple[str, ...], ...], selector: str, everywhere: bool, **given: Any) -> None:
    """Run a kubectl command on many clusters at once.

    The output of each cluster is printed separately. If the command fails on a cluster, or exceeds --timeout, the others
    continue. Exits with 0 if it succeeded on all clusters, else with 1. Standard input (-f -) is passed to every cluster.
    """
    clusters = tuple(flat(names))
    if (bool(clusters), bool(selector), everywhere).count(True) != 1:
        raise click.UsageError("--clusters, --selector, --all: give one of them")
    results = administer(lambda session: _execute(session, clusters, selecting(selector), given), machine=True)
    failed = [one for one in results if _failure(one)]
    if given["output"] == JSON:
        echo(document({"results": [_as_document(result) for result in results], "failed": [one.cluster for one in failed]}, JSON))
    if failed:
        why = ", ".join(f"{one.cluster} ({_failure(one)})" for one in failed)
        echo_error(f"{len(failed)} of {len(results)} clusters failed: {why}")
        raise SystemExit(1)


async def _execute(session: Session, names: tuple[str, ...], selector: str, given: dict[str, Any]) -> list[ClusterResult[Finished]]:
    from muster.administration.gateway import kubectl

    arguments = kubectl.arguments_of(given["words"])
    kubectl.find_program()
    api, clusters = await chosen(session, names, selector)
    gateway = hub_gateway(api)
    if session.dry_run:
        session.progress.note(f"would run kubectl {' '.join(arguments)} on {', '.join(clusters)}")
        return []
    data = sys.stdin.buffer.read() if kubectl.reads_input(arguments) else b""
    done: dict[str, ClusterResult[Finished]] = {}
    shown = 0
    running = kubectl.run_on(gateway, clusters, arguments, given=data, parallel=given["parallel"], timeout=session.timeout)
    async with aclosing(running) as results:
        async for result in results:
            done[result.cluster] = result
            # In the order of the clusters, each as soon as it is available.
            while given["output"] != JSON and shown < len(clusters) and clusters[shown] in done:
                _show(done[clusters[shown]], given["output"])
                shown += 1
    return [done[cluster] for cluster in clusters]


def _failure(result: ClusterResult[Finished]) -> str:
    """The error of a failed command; empty if it succeeded."""
    if result.error is not None:
        return str(result.error) or f"timed out after {result.seconds:.0f} s"
    code = result.unwrap().code
    return f"exit code {code}" if code else ""


def _show(result: ClusterResult[Finished], output: str) -> None:
    finished = result.unwrap() if result.ok else None
    texts = [(finished.out, False), (finished.err, True)] if finished is not None else []
    if output == SECTIONS:
        echo(f"==> {result.cluster}")
    for text, err in texts:
        if lines := text.splitlines():
            before = f"{result.cluster}: " if output == PREFIX else ""
            echo("\n".join(f"{before}{line}" for line in lines), err=err)
    if finished is None:
        echo_error(f"{result.cluster}: {_failure(result)}")


def _as_document(result: ClusterResult[Finished]) -> dict[str, Any]:
    document_fields: dict[str, Any] = {"cluster": result.cluster, "seconds": round(result.seconds, 3)}
    if result.ok:
        finished = result.unwrap()
        return {**document_fields, "exitCode": finished.code, "stdout": finished.out, "stderr": finished.err}
    return {**document_fields, "exitCode": None, "error": _failure(result)}


# grant -----------------------------------------------------------------------------------------------------------------------

GRANT = examples(
    "clusteradm gateway grant alice --role viewer --cluster cluster1",
    "clusteradm gateway grant --group devs --role editor --cluster cluster1,cluster2 --namespace web --apply",
    "clusteradm gateway grant --serviceaccount ci:deployer --role admin --cluster cluster1",
)


@command.command("grant", epilog=GRANT)
@click.argument("user", required=False)
@click.option("--group", default="", help="Group to grant access to, instead of a user.")
@click.option(
    "--serviceaccount",
    default="",
    metavar="NAMESPACE:NAME",
    help="Service account of the hub to grant access to, instead of a user.",
)
@click.option(
    "--role",
    type=click.Choice(["viewer", "editor", "admin"]),
    required=True,
    help="Level of access: `viewer` reads all but Secrets; `editor` also writes workloads, reads Secrets and opens "
    "shells; `admin` may do everything.",
)
@click.option(
    "-c",
    "--cluster",
    "--clusters",
    "clusters",
    type=ClusterNames(),
    multiple=True,
    shell_complete=objects(CLUSTERS),
    help="Names of the managed clusters, separated by commas.",
)
@click.option(
    "-n", "--namespace", "namespaces", type=Names(), multiple=True, help="Namespaces of the clusters to which access is limited."
)
@click.option(
    "--resource",
    "resources",
    type=Names(),
    multiple=True,
    help="Further resources to grant access to, such as widgets.example.com.",
)
@click.option(
    "--create-namespace", is_flag=True, help="Create the namespaces given with --namespace on the hub, where their Roles are kept."
)
@click.option("--apply", "apply_them", is_flag=True, help="Apply the objects to the hub instead of printing them.")
@format_option("yaml", "json", default="yaml")
@connected
def grant(**given: Any) -> None:
    """Print the RBAC objects that allow USER, a group or a service account to use clusters through the gateway.

    The objects belong on the hub. For each cluster they grant the subresource clustergateways/proxy, and virtual verbs such as
    cluster1/get on the requested resources; all verbs are listed because RBAC has no cluster1/*. A Role in a namespace of the hub
    applies to the namespace of the same name on the cluster. To test it: kubectl auth can-i cluster1/get pods --as USER.
    """
    access = _access(given)
    objects = administer(lambda session: _grant(session, access, apply_them=given["apply_them"]), machine=True)
    if not given["apply_them"]:
        from muster.kube import yaml

        echo(yaml.dump_all(objects).rstrip("\n") if given["output"] == "yaml" else document(_as_list(objects), "json"))


def _as_list(objects: list[Document]) -> Document:
    return {"apiVersion": "v1", "kind": "List", "items": objects}


def _access(given: dict[str, Any]) -> Access:
    from muster.administration.errors import AdministrationError
    from muster.administration.gateway.access import Access, group, service_account, user

    subjects = [(user, given["user"]), (group, given["group"]), (service_account, given["serviceaccount"])]
    stated = [(make, name) for make, name in subjects if name]
    if len(stated) != 1:
        raise click.UsageError("USER, --group, --serviceaccount: give one of them")
    clusters, namespaces, resources = (tuple(flat(given[part])) for part in ("clusters", "namespaces", "resources"))
    if not clusters:
        raise click.UsageError("--cluster: name at least one cluster")
    if given["create_namespace"] and not namespaces:
        raise click.UsageError("--create-namespace: needs --namespace")
    ((make, name),) = stated
    try:
        return Access(make(name), given["role"], clusters, namespaces, resources, given["create_namespace"])
    except AdministrationError as error:
        raise click.UsageError(str(error)) from None


async def _grant(session: Session, access: Access, *, apply_them: bool) -> list[Document]:
    from muster.administration.gateway.access import manifests, require_namespaces
    from muster.administration.gateway.clusters import NoGateway, find_api
    from muster.administration.hubs import CLUSTERADM, require_hub
    from muster.gateway.client import GATEWAY_API
    from muster.operator.applier import Applier, checked

    await require_hub(session.client)
    try:
        api = await find_api(session.client)
    except NoGateway as error:
        # Permissions may be granted before the gateway is installed.
        session.progress.warn(f"{error.message}: the roles are for its usual API")
        api = GATEWAY_API
    wanted = manifests(access, api)
    if not apply_them:
        return [document for _, document in wanted]
    if not access.create_namespaces:
        await require_namespaces(session.client, access.namespaces)
    made = checked(await Applier(session.client, CLUSTERADM).apply(wanted))
    for one in made:
        where = f" in {one['metadata']['namespace']}" if one["metadata"].get("namespace") else ""
        session.progress.info(f"{one['kind']} {one['metadata']['name']}{where} applied")
    return made
