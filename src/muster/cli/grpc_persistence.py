"""The storage of `muster grpc-server` for a hub's objects: the hub cluster, or a database of its own.

With a database there is no Kubernetes: the process serves the hub's Kubernetes API itself and writes the kubeconfig by which
`muster hub`, `muster work-hub` and kubectl access it. Flags of the storage that is not selected are refused, because they would
have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import click

from muster.cli.process import LOOPBACK, FoundCluster, ProcessEnv, find_cluster
from muster.cli.values import FilePath
from muster.machinery.confinement import current
from muster.transport.persistence import KUBE, SQL

if TYPE_CHECKING:
    from pathlib import Path

    from muster.machinery.metrics import Metrics
    from muster.runtime.client import KubeClient
    from muster.transport.server.server import GrpcServerOptions, Services
    from muster.transport.services.store.hub import SqlHubOptions

REQUESTS_AT_ONCE: Final = 32
"""Concurrent requests to the hub's API server: agents that reconnect all at once must not use up its limit, and each of many
concurrent requests costs it more. At 20 ms for a write these are 1,600 per second, more than one server of ours reaches.
"""
_SQLITE: Final = "sqlite:///"
_SCHEMES: Final = (_SQLITE, "postgresql://", "postgres://")
DATABASE_VARIABLE: Final = "MUSTER_DATABASE"
"""Instead of a flag, which other users of the machine can read."""
EXAMPLES: Final = "sqlite:///hub.db (four slashes before an absolute path) or postgresql://user@host/database"
_OF_SQL: Final = {
    "database": "--database",
    "write_kubeconfig": "--write-kubeconfig",
    "api_host": "--api-host",
    "api_port": "--api-port",
    "api_host_names": "--api-host-name",
}
_OF_KUBE: Final = {"kubeconfig": "--kubeconfig", "context": "--context"}


def persistence_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--persistence",
            type=click.Choice([KUBE, SQL]),
            default=KUBE,
            show_default=True,
            help="Storage of the objects: `kube` is the hub cluster, `sql` a database for which this process is the hub's "
            "API server.",
        ),
        click.option("--database", envvar=DATABASE_VARIABLE, help=f"Database to use with --persistence {SQL}: {EXAMPLES}."),
        click.option(
            "--write-kubeconfig",
            type=FilePath(dir_okay=False),
            help=f"File to write the hub administrator's kubeconfig to, with mode 0600; required by --persistence {SQL}.",
        ),
        click.option("--api-host", help=f"Address to serve the hub's API on, with --persistence {SQL}.  [default: {LOOPBACK}]"),
        click.option(
            "--api-port",
            type=click.IntRange(0, 65535),
            help=f"Port to serve the hub's API on, with --persistence {SQL}; 0 picks a free one.  [default: 6443]",
        ),
        click.option(
            "--api-host-name",
            "api_host_names",
            multiple=True,
            help=f"Host name in the certificate of the hub's API, with --persistence {SQL}; the first is used in the "
            "kubeconfig. Repeatable.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def persistence(given: dict[str, Any], here: ProcessEnv) -> FoundCluster | SqlHubOptions:
    """Raises click's errors for invalid flags."""
    is_sql = given["persistence"] == SQL
    for name, flag in (_OF_KUBE if is_sql else _OF_SQL).items():
        if given[name] not in (None, "", ()) and not (name == "database" and not is_sql and is_from_environment(name)):
            other = KUBE if is_sql else SQL
            raise click.UsageError(f"{flag} is for --persistence {other}, and --persistence is {given['persistence']}")
    if not is_sql:
        return find_cluster(given["kubeconfig"], given["context"], here)
    from muster.transport.services.store.hub import SqlHubOptions

    if current() is not None:
        # It would serve an API of its own and write files outside of the pod's boundary.
        raise click.UsageError(f"--persistence {SQL} is for a process of its own, not for a pod of the node runtime")
    if not given["write_kubeconfig"]:
        raise click.UsageError(f"--persistence {SQL} needs --write-kubeconfig: by it the hub's controllers reach this process")
    return SqlHubOptions(
        _database(given["database"] or "", here.path),
        here.path(given["write_kubeconfig"]),
        host=here.bind(given["api_host"] or LOOPBACK),
        port=6443 if given["api_port"] is None else given["api_port"],
        host_names=given["api_host_names"],
        namespace=given["namespace"],
    )


def is_from_environment(name: str) -> bool:
    """Whether the option's value comes from an environment variable and not from the command line."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is click.core.ParameterSource.ENVIRONMENT


def _database(address: str, located: Callable[[str], Path]) -> str:
    if not address:
        raise click.UsageError(f"--persistence {SQL} needs --database: {EXAMPLES}")
    return database_address(address, located)


def database_address(address: str, located: Callable[[str], Path]) -> str:
    """The normalized address; `located` maps file names to paths. Raises BadParameter."""
    if not address.startswith(_SCHEMES) or address == _SQLITE:
        # The address may contain a password.
        scheme = address.partition("://")[0] if "://" in address else "no scheme"
        raise click.BadParameter(f"{scheme!r} is no database that is known; expected {EXAMPLES}", param_hint="--database")
    return f"{_SQLITE}{located(address.removeprefix(_SQLITE))}" if address.startswith(_SQLITE) else address


def database_name(address: str) -> str:
    """The database's name for messages, without credentials."""
    if address.startswith(_SQLITE):
        return address.removeprefix(_SQLITE)
    parts = urlsplit(address)
    return f"the PostgreSQL database {parts.path.lstrip('/')}" + (f" on {parts.hostname}" if parts.hostname else "")


class Opened(NamedTuple):
    client: KubeClient
    services: Services | None
    """None: the services that use the client."""
    problem: Callable[[], str | None]
    """Why objects cannot be written, for the readiness check."""


async def open_persistence(
    chosen: FoundCluster | SqlHubOptions, options: GrpcServerOptions, stack: AsyncExitStack, metrics: Metrics
) -> Opened:
    """The storage of a server with these options; open until the stack ends."""
    if isinstance(chosen, FoundCluster):
        return Opened(chosen.connect_in(stack, "muster-grpc-server", metrics, REQUESTS_AT_ONCE), None, lambda: None)
    from muster.registration.hub.install import install_base
    from muster.transport.services.store.hub import sql_hub

    hub = await stack.enter_async_context(sql_hub(chosen, partial(install_base, namespace=chosen.namespace)))
    return Opened(hub.client, partial(hub.services, rules=options.rules, max_event=options.max_event), hub.problem)
