"""The environment of a program that runs as a container: variables, files, an address, an identity, and scratch space.

Paths in a pod spec are the container's; `path` translates them to paths on the node: in a volume's directory where something is
mounted, else in the container's own scratch directory. Variables are resolved when a container starts, as by a kubelet, so a
restart sees new values.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from muster.fleet.node.podspec import ContainerSpec, FieldSource, KeySource, Mount, Pod, ResourceSource, Variable
from muster.machinery.confinement import Confinement, CredentialProgram, Network, Nowhere
from muster.machinery.golang.quantities import parse_quantity
from muster.machinery.objects import Object
from muster.runtime.client import SERVICE_ACCOUNT, AuthInfo, ClientConfig, KubeClient

Lookup = Callable[[str, str], Object | None]
"""Looks up an object of the pod's namespace by plural and name."""
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class MissingReference(Exception):
    """An object that the pod refers to is missing; the text is that of a kubelet."""


@dataclass(frozen=True, slots=True)
class Address:
    """The pod's own loopback address, and its node's name and address."""

    ip: str
    node_name: str
    node_ip: str


@dataclass(frozen=True, kw_only=True)
class PodEnvironment:
    namespace: str
    pod: str
    container: str
    uid: str
    ip: str
    """The address to bind to: every pod has a loopback address of its own, so ports do not collide."""
    environ: Mapping[str, str] = field(repr=False)
    server: str
    direct: Callable[[], KubeClient] | None = field(repr=False)
    """Makes a client in this process with the identity of the pod's service account, without a socket and with the same RBAC.

    None if the server is elsewhere.
    """
    write: Callable[[str, str], None] = field(repr=False)
    """Writes lines to the pod's log, by stream and text."""
    mounts: Mapping[str, Path] = field(repr=False)
    scratch: Path = field(repr=False)
    network: Network = field(default_factory=Nowhere, repr=False)
    plugins: Mapping[str, CredentialProgram] = field(default_factory=dict, repr=False)

    @cached_property
    def confinement(self) -> Confinement:
        """The resources of this machine that the program may use."""
        return Confinement(
            pod=f"{self.namespace}/{self.pod}",
            ip=self.ip,
            environ=self.environ,
            mounts=self.mounts,
            scratch=self.scratch,
            network=self.network,
            plugins=self.plugins,
        )

    def path(self, inside: str | PurePosixPath) -> Path:
        """Where a path of the container is on the node."""
        return self.confinement.path(inside)

    @property
    def has_identity(self) -> bool:
        """Whether its service account's token is mounted."""
        return self.direct is not None or self.path(str(SERVICE_ACCOUNT / "token")).exists()

    @contextmanager
    def listening(self, port: int) -> Iterator[None]:
        """For servers other than `muster.http`'s: within the context, probes, Services and other pods can connect to the port."""
        self.network.opened(self.ip, port)
        try:
            yield
        finally:
            self.network.closed(self.ip, port)

    def print(self, text: str, *, stream: str = "stdout") -> None:
        self.write(stream, text if text.endswith("\n") else text + "\n")

    @property
    def client_config(self) -> ClientConfig:
        """The in-cluster configuration: the API server, and the service account's token and CA, both of which rotate."""
        token, ca = self.path(str(SERVICE_ACCOUNT / "token")), self.path(str(SERVICE_ACCOUNT / "ca.crt"))
        return ClientConfig(self.server, ca if ca.exists() else None, namespace=self.namespace, identity=AuthInfo(token_file=token))

    def connect(self, agent: str = "muster") -> KubeClient:
        """A client with the identity of the pod's service account, without a socket if possible."""
        from muster.runtime.client import HttpClient

        return self.direct() if self.direct is not None else HttpClient(self.client_config, agent=agent)


def mounted(volumes: Mapping[str, Path], mounts: Sequence[Mount], environ: Mapping[str, str]) -> dict[str, Path]:
    """Mount path to directory (or file, for a subPath)."""
    directories = {}
    for mount in mounts:
        # A subPath must stay inside its volume; the server refuses "..", and the expanded path is checked again here.
        inner = PurePosixPath(expand(mount.sub_path, environ))
        if inner.is_absolute() or ".." in inner.parts:
            raise MissingReference(f"subPath {mount.sub_path!r} of volume {mount.name!r} leads out of the volume")
        if mount.name not in volumes:
            raise MissingReference(f"volume {mount.name!r} is not mounted yet")
        directories[os.path.normpath(mount.mount_path)] = volumes[mount.name] / inner
    return directories


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable if it exists, and `$$` by a dollar."""

    def replaced(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else environ.get(name, match.group(0))

    return _REFERENCE.sub(replaced, text)


def resolve_environ(
    pod: Pod, container: ContainerSpec, address: Address, lookup: Lookup, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`given` has the node's variables, which the pod's override."""
    environ: dict[str, str] = {**(given or {}), "HOSTNAME": pod.spec.hostname or pod.metadata.name}
    for group in container.env_from:
        for plural, named in (("configmaps", group.config_map_ref), ("secrets", group.secret_ref)):
            if named is not None:
                found = _required(lookup, plural, named.name, named.optional)
                values = {group.prefix + key: value.decode(errors="replace") for key, value in contents(found).items()}
                environ |= {key: value for key, value in values.items() if _NAME.fullmatch(key)}
    for variable in container.env:
        value = _value(pod, container, variable, environ, address, lookup)
        if value is not None:
            environ[variable.name] = value
    return environ


def _value(
    pod: Pod, container: ContainerSpec, variable: Variable, environ: Mapping[str, str], address: Address, lookup: Lookup
) -> str | None:
    origin = variable.value_from
    if origin is None:
        return expand(variable.value, environ)
    if origin.field_ref is not None:
        return field_value(pod, origin.field_ref, address)
    if origin.resource_field_ref is not None:
        return resource_value(pod, container, origin.resource_field_ref)
    for plural, reference in (("configmaps", origin.config_map_key_ref), ("secrets", origin.secret_key_ref)):
        if reference is not None:
            return _key_value(plural, reference, pod, lookup)
    return ""


def _key_value(plural: str, reference: KeySource, pod: Pod, lookup: Lookup) -> str | None:
    values = contents(_required(lookup, plural, reference.name, reference.optional))
    if reference.key in values:
        return values[reference.key].decode(errors="replace")
    if reference.optional:
        return None
    shown = "Secret" if plural == "secrets" else "ConfigMap"
    raise MissingReference(f"couldn't find key {reference.key} in {shown} {pod.metadata.namespace}/{reference.name}")


def _required(lookup: Lookup, plural: str, name: str, optional: bool) -> Object | None:
    found = lookup(plural, name)
    if found is None and not optional:
        raise MissingReference(f'{plural.removesuffix("s")} "{name}" not found')
    return found


def contents(found: Object | None) -> dict[str, bytes]:
    """The keys of a ConfigMap or Secret, as bytes."""
    if found is None:
        return {}
    if found.get("kind") == "Secret":
        return {key: base64.b64decode(value or "") for key, value in (found.get("data") or {}).items()}
    texts = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return texts | {key: base64.b64decode(value or "") for key, value in (found.get("binaryData") or {}).items()}


def field_value(pod: Pod, source: FieldSource, address: Address) -> str:
    """A field of the pod, for a variable or a downward API file."""
    subscript = _SUBSCRIPT.fullmatch(source.field_path)
    if subscript is not None:
        return (pod.metadata.labels if subscript[1] == "labels" else pod.metadata.annotations).get(subscript[2], "")
    known = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "metadata.labels": _lines(pod.metadata.labels),
        "metadata.annotations": _lines(pod.metadata.annotations),
        "spec.nodeName": address.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": address.node_ip,
        "status.hostIPs": address.node_ip,
        "status.podIP": address.ip,
        "status.podIPs": address.ip,
    }
    found = known.get(source.field_path)
    if found is None:
        raise MissingReference(f"unsupported fieldPath: {source.field_path}")
    return found


def _lines(values: Mapping[str, str]) -> str:
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for key, value in values.items()}
    return "\n".join(f'{key}="{escaped[key]}"' for key in sorted(escaped))


def resource_value(pod: Pod, container: ContainerSpec, source: ResourceSource) -> str:
    """A request or limit of a container in units of the divisor, rounded up; without a limit it is the machine's capacity."""
    named = [each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == source.container_name]
    kind, _, resource = source.resource.partition(".")
    resources = (named[0] if named else container).resources
    text = (resources.get(kind) or {}).get(resource)
    if text is None and kind == "limits":
        text = str(os.cpu_count() or 1) if resource == "cpu" else str(machine_memory()) if resource == "memory" else "0"
    amount, unit = parse_quantity(text or "0").nanos, parse_quantity(source.divisor or "1").nanos or 10**9
    return str(-(-amount // unit))


def machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
