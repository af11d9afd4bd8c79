"""Whatever touches the machine goes through the few places that know of a pod's boundary, also in code that is yet to be written.

Programs of pods are made of these rooms. A row of `KNOWN` is a place that asks for the boundary itself, or that no pod reaches, and
says why; anything new has to use `muster.machinery.confinement` (or `muster.http`), or argue here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import muster

ROOT = Path(muster.__file__).parent
ROOMS = (
    "accounts",
    "addon",
    "aws",
    "gateway",
    "http",
    "operator",
    "placement",
    "policy",
    "registration",
    "runtime",
    "transport",
    "work",
)
PARTS = (
    "addon_manager",
    "agent",
    "aws_token",
    "component",
    "gateway",
    "gateway_agent",
    "grpc_persistence",
    "grpc_server",
    "hub",
    "hub_addons",
    "hub_address",
    "managed_serviceaccount_agent",
    "operator",
    "placement",
    "policy_addon",
    "process",
    "programs",
    "work_agent",
    "work_sidecar",
    "work_hub",
)
FORBIDDEN = {
    *("environ", "getenv", "expanduser", "expandvars", "getcwd", "chdir", "gethostname"),
    *("open", "read_bytes", "read_text", "write_bytes", "write_text", "TemporaryDirectory", "mkdtemp", "NamedTemporaryFile"),
    *("create_connection", "open_connection", "sock_connect", "create_server", "start_server", "open_unix_connection"),
    *("urlopen", "PoolManager", "ProxyManager"),
    *("open_private", "replace_private", "make_directories", "listening_sockets"),
    *("create_subprocess_exec", "create_subprocess_shell", "Popen", "execv", "posix_spawn", "add_signal_handler"),
}
KNOWN = {
    "aws/process_env.py": {"read_bytes": "of whoever gives no other; a pod's are `found`"},
    "aws/transport.py": {
        **dict.fromkeys(("PoolManager", "ProxyManager", "urlopen"), "to an address that was asked about before"),
    },
    "runtime/client/credentials.py": {"create_subprocess_exec": "after a pod was sent to what its node offers"},
    "runtime/client/kubeconfig.py": {"expanduser": "in a process of its own only"},
    "registration/agent/state/directory.py": {
        **dict.fromkeys(("read_bytes", "replace_private"), "in a directory that `mirror` has asked about"),
    },
    "gateway/authorization/impersonation_file.py": {"open": "asks before"},
    "gateway/konnectivity/cluster_proxy.py": {"open_connection": "on a socket that is given"},
    "gateway/tunnel/agent.py": {"open_connection": "the pool's, which asks"},
    "gateway/tunnel/tunnels.py": {"open": "a method of that name, of a tunnel", "create_connection": "on a socket that is given"},
    "operator/bundle.py": {
        **dict.fromkeys(("read_text", "write_text"), "the command that writes deploy/"),
    },
    "operator/klusterlet/connection.py": {"open": "a function of that name, for a Secret's kubeconfig"},
    "operator/klusterlet/controller.py": {"open": "an option of that name, for the same"},
    "http/happy_eyeballs.py": {"sock_connect": "asks before"},
    "http/pool.py": {
        **dict.fromkeys(("create_connection", "open_connection"), "asks before"),
        "open": "a method of that name, which asks",
    },
    "http/paired_pool.py": {"create_connection": "on a pair of sockets of this process"},
    "http/socks.py": {"create_connection": "on a socket that happy_eyeballs has connected"},
    "http/tunnel.py": {"open_connection": "the pool's, which asks, for the proxy"},
    "http/http2/client.py": {"open_connection": "the pool's, which asks"},
    "http/acceptor.py": {"listening_sockets": "asks before"},
    "runtime/client/shared_streams.py": {"open": "a method of that name, of a connection"},
    "transport/rpc/channel.py": {"open": "a method of that name, of a connection"},
    "transport/services/store/hub.py": {"make_directories": "no pod gets there: its persistence is the hub cluster"},
    "http/tls.py": {
        "read_text": "files that servers of this process are given",
        **dict.fromkeys(("write_text", "TemporaryDirectory"), "a pair that OpenSSL reads from files only"),
    },
    "cli/process.py": {"add_signal_handler": "of a process: `run_until_stopped` is no part of a program"},
}


def used(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN and not _is_ours(node):
            yield node.attr
        if isinstance(node, ast.Name) and node.id in FORBIDDEN - {"environ"}:
            yield node.id


def _is_ours(node: ast.Attribute) -> bool:
    """`confinement.environ`, and the variables that somebody was given."""
    return node.attr == "environ" and not (isinstance(node.value, ast.Name) and node.value.id == "os")


def sources() -> list[Path]:
    rooms = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [*rooms, *(ROOT / "cli" / f"{part}.py" for part in PARTS)]


def test_nothing_a_pod_runs_touches_the_machine_but_where_the_boundary_is_asked_for() -> None:
    found = {str(path.relative_to(ROOT)): set(used(path)) for path in sources()}
    new = {name: uses - set(KNOWN.get(name, {})) for name, uses in found.items()}
    assert {name: uses for name, uses in new.items() if uses} == {}


def test_the_table_of_exceptions_has_nothing_that_is_gone() -> None:
    gone = {name: set(uses) - set(used(ROOT / name)) for name, uses in KNOWN.items()}
    assert {name: uses for name, uses in gone.items() if uses} == {}
