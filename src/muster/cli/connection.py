"""The options of all `clusteradm` commands: connection, timeout and dry run, and the session that runs a verb.

These options may stand before or after the verb, as with OCM's own tool. `administer` opens the session of a verb, runs it, and
sets the exit code: 0 when done, 1 with one line that has the problem and the remedy, 2 for wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli.console import echo
from muster.cli.interruption import leaves_behind
from muster.cli.loop import run_loop
from muster.cli.name_completion import contexts
from muster.cli.process import find_cluster
from muster.cli.progress import ConsoleProgress
from muster.cli.values import Duration
from muster.machinery.oserrors import explain_file_error
from muster.machinery.privatefiles import replace_private

if TYPE_CHECKING:
    from muster.administration.dryrun import Journal, JournalingClient
    from muster.operator.applier import ApplyFailed
    from muster.runtime.client import ClientConfig

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
TIMEOUT = 300.0
PREFIX = "session_"
"""Prefix of the names of our parameters, so that a verb may have a `context` of its own."""


@dataclass
class Globals:
    """The options before and after the verb; the later one overrides."""

    kubeconfig: str | None = None
    context: str = ""
    timeout: float = TIMEOUT
    dry_run: bool = False

    @classmethod
    def current(cls) -> Globals:
        return click.get_current_context().ensure_object(cls)


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None and parameter.name is not None:
        setattr(context.ensure_object(Globals), parameter.name.removeprefix(PREFIX), value)


def _verbosity(context: click.Context, parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        from muster.machinery import logs

        logs.set_level(logs.DEBUG if value >= 4 else logs.INFO)


_OPTIONS = (
    click.option(
        "--kubeconfig",
        PREFIX + "kubeconfig",
        type=click.Path(dir_okay=False),
        callback=_note,
        expose_value=False,
        help="Path to the kubeconfig file.  [default: kubectl's]",
    ),
    click.option(
        "--context",
        PREFIX + "context",
        callback=_note,
        expose_value=False,
        shell_complete=contexts,
        help="Name of the kubeconfig context to use.  [default: the current one]",
    ),
    click.option(
        "--timeout",
        PREFIX + "timeout",
        type=Duration(),
        callback=_note,
        expose_value=False,
        help="Maximum time to wait for conditions and answers.  [default: 300s]",
    ),
    click.option(
        "--dry-run",
        PREFIX + "dry_run",
        is_flag=True,
        default=None,
        callback=_note,
        expose_value=False,
        help="Print what would change without changing anything.",
    ),
    click.option(
        "-v",
        "--v",
        PREFIX + "verbosity",
        type=int,
        callback=_verbosity,
        expose_value=False,
        hidden=True,
        help="Log verbosity; 4 and above enables debug logging.",
    ),
)


def connected(command: F) -> F:
    """Add these options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Session:
    """One run of a verb against one cluster."""

    client: JournalingClient
    config: ClientConfig
    progress: ConsoleProgress
    journal: Journal
    options: Globals = field(default_factory=Globals)

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    @property
    def timeout(self) -> float:
        return self.options.timeout

    def finished(self, text: str) -> None:
        """Report the success of `--wait`; a dry run has not waited."""
        if not self.dry_run:
            self.progress.info(text)


def program() -> str:
    """The program's name as the user has called it, also as a plugin of kubectl or oc."""
    name = Path(sys.argv[0]).name
    plugin, separator, rest = name.partition("-")
    if separator and plugin in ("kubectl", "oc") and rest:
        return f"{plugin} {rest}"
    return "clusteradm" if name in ("", "__main__.py", "-c") or "pytest" in name else name


def administer(work: Callable[[Session], Awaitable[T]], *, machine: bool = False) -> T:
    """Run a verb's work in a session. `machine`: standard output is for programs."""
    options = Globals.current()
    config = find_cluster(options.kubeconfig, options.context).config
    if options.dry_run:
        echo(f"{program()} is running in dry-run mode", err=True)
    return run_loop(_in_session(work, config, options, machine))


async def _in_session(work: Callable[[Session], Awaitable[T]], config: ClientConfig, options: Globals, machine: bool) -> T:
    from muster.administration.dryrun import Journal, JournalingClient
    from muster.administration.errors import AdministrationError
    from muster.operator.applier import ApplyFailed
    from muster.runtime.client import HttpClient, KubeError
    from muster.runtime.install import InstallError

    journal = Journal()
    client = JournalingClient(HttpClient(config, agent="clusteradm"), journal, dry_run=options.dry_run)
    session = Session(client, config, ConsoleProgress(machine=machine), journal, options)
    leaves_behind(lambda: _left(session))
    try:
        result = await work(session)
    except (AdministrationError, InstallError) as error:
        raise click.ClickException(str(error)) from None
    except ApplyFailed as error:
        raise click.ClickException(explain_failures(error)) from None
    except KubeError as error:
        raise click.ClickException(explain(error)) from None
    finally:
        session.progress.done()
        await client.close()
    if options.dry_run:
        report_dry_run(journal, machine)
    return result


def _left(session: Session) -> str:
    """The message about an interrupted verb: all verbs are idempotent."""
    what = session.progress.awaited
    waited = f"while waiting for {what}; " if what else ""
    writes = 0 if session.dry_run else len(session.journal.writes)
    if not writes:
        return f"{waited}nothing was written"
    made = "1 write was made" if writes == 1 else f"{writes} writes were made, the last"
    last = f"{made}: {session.journal.writes[-1]}"
    return f"{waited}{last}; nothing is undone, and the same command goes on from there"


def report_dry_run(journal: Journal, machine: bool) -> None:
    for write in journal.writes:
        echo(f"would {write}", err=machine)
    echo(f"dry run: nothing was written; {len(journal.writes)} writes would be made", err=True)


def explain(error: Exception) -> str:
    """The server's error, with a remedy."""
    from muster.runtime.client import Forbidden, NoCredential, Unauthorized, Unreachable

    remedies: dict[type[Exception], str] = {
        NoCredential: "mend the user of this context, or choose another --context",
        Unreachable: "is this the right cluster? choose it with --kubeconfig or --context",
        Unauthorized: "the server does not accept these credentials: renew them, or choose another --context",
        Forbidden: "ask an administrator of the cluster for this permission, or choose another --context",
    }
    remedy = next((text for kind, text in remedies.items() if isinstance(error, kind)), "")
    return f"{error}; {remedy}" if remedy else str(error)


def explain_failures(error: ApplyFailed) -> str:
    """The first failure; the others mostly have the same reason."""
    first = error.failures[0]
    reason = explain(first.error) if first.error is not None else ""
    others = f" ({len(error.failures) - 1} more like this)" if len(error.failures) > 1 else ""
    return f"{first.resource.kind} {first.key} cannot be applied: {reason}{others}"


def write_file(path: str, content: str, flag: str, mode: int = 0o600) -> None:
    """Replace a file. It may contain secrets, so only the owner can read it."""
    file = Path(path)
    try:
        if file.exists() and not file.is_file():  # /dev/stdout
            file.write_text(content)
        else:
            replace_private(file, content, mode=mode)
    except OSError as error:
        raise click.ClickException(f"{flag} {path}: {explain_file_error(error)}") from None


def write_resources(path: str, journal: Journal) -> None:
    """`--output-file`: everything that was, or would be, applied."""
    from muster.kube import yaml

    write_file(path, yaml.dump_all(journal.documents()), "--output-file")
