"""`muster apiserver`: runs embedded control planes."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.auth.statictokens import TokenFileError, load_token_file
from muster.apiserver.auth.tokenwebhook import WebhookConfigError
from muster.apiserver.server import DEFAULT_CLUSTER, ApiServer, ServerConfig
from muster.cli.console import echo
from muster.cli.loop import run_loop
from muster.kube.names import dns1123_label
from muster.machinery import logs
from muster.machinery.oserrors import explain_file_error, explain_listen_error
from muster.machinery.privatefiles import UnsafePath, make_private_directory
from muster.store import StoreError


def run(
    data_dir: str,
    host: str,
    port: int,
    clusters: tuple[str, ...],
    store: str,
    token_auth_file: str | None,
    token_webhook_configs: tuple[str, ...],
    audit_log: str | None,
    ephemeral: bool,
    verbose: bool,
) -> None:
    logs.set_level(logs.DEBUG if verbose else logs.INFO)
    directory = Path(data_dir)
    for name in clusters:
        if problems := dns1123_label(name):
            raise click.BadParameter(f"cluster name {name!r}: {problems[0]}", param_hint="--cluster")
    try:
        make_private_directory(directory)
    except UnsafePath as error:
        raise click.ClickException(f"--data-dir: {error.filename}: {explain_file_error(error)}") from None
    except OSError as error:
        message = f"{error.filename}: {explain_file_error(error)}"
        raise click.ClickException(f"--data-dir {directory} cannot be used: {message}") from None
    try:
        tokens = load_token_file(Path(token_auth_file)) if token_auth_file else {}
    except TokenFileError as error:
        raise click.ClickException(str(error)) from None
    webhooks = _token_webhooks(token_webhook_configs)
    config = ServerConfig(
        data_dir=directory,
        host=host,
        port=port,
        clusters=clusters or (DEFAULT_CLUSTER,),
        store="memory" if ephemeral else store,
        static_tokens=tokens,
        token_webhook=webhooks.pop("", None),
        token_webhooks=webhooks,
        audit_log=Path(audit_log) if audit_log else None,
    )
    try:
        run_loop(_serve(config, directory))
    except (StoreError, WebhookConfigError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        if error.filename is not None:
            raise click.ClickException(f"{error.filename}: {explain_file_error(error)}") from None
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {explain_listen_error(error)}; choose another --port"
        ) from None


def _token_webhooks(given: tuple[str, ...]) -> dict[str, Path]:
    """Files by cluster; "" is for all others. The part before `=` is a cluster only if it is a valid name of one."""
    found: dict[str, Path] = {}
    for one in given:
        name, equals, file = one.partition("=")
        if not equals or dns1123_label(name):
            name, file = "", one
        if name in found:
            whose = f"cluster {name}" if name else "all clusters"
            raise click.BadParameter(f"is given twice for {whose}: give one file each", param_hint="--token-webhook-config")
        found[name] = Path(file)
    return found


async def _serve(config: ServerConfig, directory: Path) -> None:
    server = ApiServer(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await server.start()
    try:
        kubeconfig = directory / "kubeconfig"
        await write_kubeconfig(server, kubeconfig)
        echo(f"ready: {server.url} serves {', '.join(server.clusters)}; kubeconfig: {kubeconfig}")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await server.stop()
