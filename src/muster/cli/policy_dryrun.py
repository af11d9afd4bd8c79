"""`muster policy dryrun`: prints the status that a ConfigurationPolicy would have, with objects from files or from a cluster.

Flags, output and exit codes are those of upstream's `dryrun`: 0 when the policy is compliant, 2 when it is not, 1 when it could not
be evaluated. Nothing is ever written to a cluster: the policy is evaluated with remediationAction inform.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

import click

from muster.cli.console import echo, echo_coloured, echo_error
from muster.cli.examples import examples
from muster.cli.loop import run_loop
from muster.cli.values import SwitchCommand, switch

if TYPE_CHECKING:
    from muster.machinery.objects import Object
    from muster.policy.dryrun.mappings import Mappings
    from muster.policy.dryrun.run import DryRun

GENERATE: Final = "generate"
STDIN: Final = "-"
NON_COMPLIANT: Final = 2


@click.command(
    "dryrun",
    cls=SwitchCommand,
    short_help="Evaluate a policy once, without a controller.",
    epilog=examples(
        "muster policy dryrun --policy policy.yaml objects.yaml",
        "muster policy dryrun --policy policy.yaml --from-cluster",
        "muster policy dryrun generate",
    ),
)
@click.argument("files", nargs=-1, metavar="[FILE|DIRECTORY|-]... | generate")
@click.option("-p", "--policy", "policy_path", help="File with the Policy or ConfigurationPolicy to evaluate.  [required]")
@click.option("-c", "--desired-status", "desired_path", help="File with the expected status, which is compared with the result.")
@switch("--from-cluster", "Read the cluster of the current kubeconfig instead of files.", envvar="DRYRUN_FROM_CLUSTER")
@switch("--full-diffs", "Show diffs without shortening them.")
@switch("--log", "Print the log messages.", default=None)
@click.option("--log-path", default="", help="File to which log messages are appended; implies --log.")
@click.option(
    "--mappings-file",
    "mappings_path",
    default="",
    envvar="DRYRUN_MAPPINGS_FILE",
    help="File with the known kinds, as written by `generate`; required for custom resources.",
)
@click.option(
    "--messages-path", default="", help="File to which the messages are written, one per line, instead of standard output."
)
@switch("--no-colors", "Print without colors.")
@switch("--print-diffs", "Print the diffs of objects.", default=True)
@click.option("--status-path", default="", help="File to which the resulting status is written.")
def command(files: tuple[str, ...], policy_path: str | None, **options: Any) -> None:
    """Evaluate a ConfigurationPolicy once against objects in files, and show its diffs and messages.

    Objects are read from FILEs, from all files of a DIRECTORY, and from standard input. `generate` prints a mappings file with the
    kinds of the current kubeconfig's cluster.
    """
    if policy_path is None:
        if files == (GENERATE,):
            echo(run_loop(_generate()).removesuffix("\n"))
            return
        raise click.UsageError("the policy is missing: give it by --policy FILE")
    if options["log"] is False and options["log_path"]:
        _fail("unable to setup the logging configuration: error: log-path cannot be set when log is false")
    with _logging(bool(options["log"]), options["log_path"]):
        compliant = _dry_run(Path(policy_path), files, options)
    if not compliant:
        echo_error("policy is NonCompliant")
        raise SystemExit(NON_COMPLIANT)


def _fail(problem: str) -> NoReturn:
    echo_error(problem)
    raise SystemExit(1)


@contextmanager
def _logging(wanted: bool, path: str) -> Iterator[None]:
    from muster.machinery import logs

    with ExitStack() as stack:
        write: Callable[[str], object] = _print_log if wanted else lambda _: None
        if path:
            try:
                write = stack.enter_context(open(path, "a", encoding="utf-8")).write
            except OSError as error:
                _fail(f"unable to setup the logging configuration: {error}")
        stack.enter_context(logs.diverted(write))
        yield


def _print_log(text: str) -> None:
    echo(text.removesuffix("\n"))


def _dry_run(policy_path: Path, files: Sequence[str], options: dict[str, Any]) -> bool:
    """Returns whether the policy is compliant."""
    from muster.kube.yaml import dump
    from muster.policy.dryrun.expectation import StatusComparison
    from muster.policy.dryrun.output import Palette, diff_lines, message_lines
    from muster.policy.dryrun.policies import InvalidPolicy, read_policy

    palette = Palette(colours=not options["no_colors"])
    try:
        policy, notes = read_policy(policy_path.read_bytes())
    except (OSError, InvalidPolicy) as error:
        _fail(f"unable to read input policy: {error}")
    _print(notes)
    run = run_loop(_evaluated(policy, files, options))
    status = run.document
    if options["desired_path"]:
        comparison = StatusComparison(palette)
        comparison.compare(_read_expectation(options["desired_path"]), status)
        _print([*comparison.lines, ""])
    if options["status_path"]:
        _write(options["status_path"], dump(status), "status")
    if options["print_diffs"]:
        _print(diff_lines(run.status, palette))
    if options["messages_path"]:
        _write(options["messages_path"], "".join(f"{message}\n" for message in run.messages), "messages")
    else:
        _print(message_lines(run.messages))
    return run.status.compliant == "Compliant"


def _write(path: str, text: str, what: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        _fail(f"unable to write the {what}: {error}")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        echo_coloured(line)


def _read_expectation(path: str) -> Object:
    from muster.kube.yaml import YAMLError, load

    try:
        expected = load(Path(path).read_bytes())
    except (OSError, YAMLError) as error:
        _fail(f"unable to compare desired status: {error}")
    if not isinstance(expected, dict):
        _fail("unable to compare desired status: the file must hold an object, a status or part of one")
    return expected


async def _evaluated(policy: Object, files: Sequence[str], options: dict[str, Any]) -> DryRun:
    from muster.cli.process import find_cluster
    from muster.policy.configuration.interfaces import Cluster
    from muster.policy.dependencies import DirectSource
    from muster.policy.dryrun.mappings import MappingsError
    from muster.policy.dryrun.objects import FakeCluster, InvalidObject
    from muster.policy.dryrun.run import DryRunError, dry_run
    from muster.policy.resolver import Resolver
    from muster.runtime.client import KubeError, RESTMapper

    full_diffs = options["full_diffs"]
    try:
        if options["from_cluster"]:
            client = find_cluster(None, "").connect("muster-policy-dryrun")
            try:
                cluster = Cluster(DirectSource(client, RESTMapper(client)), client)
                return await dry_run(policy, cluster, Resolver(), full_diffs=full_diffs)
            finally:
                await client.close()
        fake = FakeCluster(_mappings(options["mappings_path"]), _input_objects(files))
        return await dry_run(policy, Cluster(fake, fake), Resolver(), full_diffs=full_diffs)
    except InvalidObject as error:
        _fail(f"unable to apply input resources: {error}")
    except (OSError, MappingsError) as error:
        _fail(f"unable to setup the dryrun reconciler: {error}")
    except (DryRunError, KubeError) as error:
        _fail(f"unable to complete the dryrun reconcile: {error}")


def _mappings(path: str) -> Mappings:
    from muster.policy.dryrun.mappings import Mappings, read_mappings

    return read_mappings(Path(path).read_bytes()) if path else Mappings()


def _input_objects(files: Sequence[str]) -> list[Object]:
    from muster.kube.yaml import YAMLError, load_all

    objects: list[Object] = []
    for name in _input_files(files):
        where = "stdin" if name == STDIN else f"file {name}"
        try:
            text = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
            documents = [document for document in load_all(text) if document is not None]
        except (OSError, YAMLError) as error:
            _fail(f"unable to read input resources: could not decode {where} to YAML: {error}")
        if not all(isinstance(document, dict) for document in documents):
            _fail(f"unable to read input resources: could not decode {where} to YAML: a document is no object")
        objects += documents
    return objects


def _input_files(files: Sequence[str]) -> Iterator[str]:
    """Standard input if it is a pipe or a file, then the given files; of directories the files directly in them."""
    if not _is_device(sys.stdin):
        yield STDIN
    for name in files:
        path = Path(name)
        if name != STDIN and not path.exists():
            _fail(f"unable to read input resources: could not open file {name}: no such file or directory")
        if name != STDIN and path.is_dir():
            yield from sorted(str(nested) for nested in path.iterdir() if not nested.is_dir())
        else:
            yield name


def _is_device(stream: TextIO) -> bool:
    """Whether it is a terminal or /dev/null, which have no content."""
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except io.UnsupportedOperation:
        return False


async def _generate() -> str:
    from muster.cli.process import find_cluster
    from muster.kube.yaml import dump
    from muster.policy.dryrun.mappings import served_kinds, written
    from muster.runtime.client import KubeError

    client = find_cluster(None, "").connect("muster-policy-dryrun")
    try:
        return dump(written(await served_kinds(client)))
    except KubeError as error:
        _fail(f"unable to read the kinds of the cluster: {error}")
    finally:
        await client.close()
