"""The parts of a Pod that the node uses, as types; the rest of the object is ignored.

Decoded from the stored object, which the server has defaulted and validated: fields that are required there are required here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from muster.machinery.objects import Object


class Part(msgspec.Struct, frozen=True, rename="camel"):
    pass


class KeySource(Part, frozen=True):
    """A key of a Secret or ConfigMap."""

    key: str
    name: str = ""
    optional: bool = False


class FieldSource(Part, frozen=True):
    field_path: str


class ResourceSource(Part, frozen=True):
    resource: str
    container_name: str = ""
    divisor: str = ""


class ValueSource(Part, frozen=True):
    field_ref: FieldSource | None = None
    resource_field_ref: ResourceSource | None = None
    config_map_key_ref: KeySource | None = None
    secret_key_ref: KeySource | None = None


class Variable(Part, frozen=True):
    name: str
    value: str = ""
    value_from: ValueSource | None = None


class Named(Part, frozen=True):
    name: str = ""
    optional: bool = False


class VariableSource(Part, frozen=True):
    prefix: str = ""
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


class Mount(Part, frozen=True):
    name: str
    mount_path: str
    sub_path: str = ""


class Port(Part, frozen=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Header(Part, frozen=True):
    name: str
    value: str = ""


class HttpCheck(Part, frozen=True):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpCheck(Part, frozen=True):
    port: int | str
    host: str = ""


class GrpcCheck(Part, frozen=True):
    port: int


class Probe(Part, frozen=True):
    http_get: HttpCheck | None = None
    tcp_socket: TcpCheck | None = None
    grpc: GrpcCheck | None = None
    exec: Object | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class ContainerSpec(Part, frozen=True):
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariableSource, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()
    ports: tuple[Port, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    restart_policy: str = ""
    resources: Object = {}
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"


class KeyPath(Part, frozen=True):
    key: str
    path: str


class FieldFile(Part, frozen=True):
    path: str
    field_ref: FieldSource | None = None
    resource_field_ref: ResourceSource | None = None


class SecretVolume(Part, frozen=True):
    secret_name: str = ""
    items: tuple[KeyPath, ...] = ()
    optional: bool = False


class NamedItems(Part, frozen=True):
    """A ConfigMap as a volume; a Secret or ConfigMap inside a projected one."""

    name: str = ""
    items: tuple[KeyPath, ...] = ()
    optional: bool = False


class DownwardVolume(Part, frozen=True):
    items: tuple[FieldFile, ...] = ()


class TokenSource(Part, frozen=True):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(Part, frozen=True):
    service_account_token: TokenSource | None = None
    config_map: NamedItems | None = None
    secret: NamedItems | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")


class ProjectedVolume(Part, frozen=True):
    sources: tuple[Projection, ...] = ()


class Volume(Part, frozen=True):
    name: str
    empty_dir: Object | None = None
    secret: SecretVolume | None = None
    config_map: NamedItems | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None


class Gate(Part, frozen=True):
    condition_type: str = ""


class PodSpec(Part, frozen=True):
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    service_account_name: str = "default"
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    readiness_gates: tuple[Gate, ...] = ()
    hostname: str = ""
    active_deadline_seconds: int | None = None


class PodMetadata(Part, frozen=True):
    name: str
    uid: str
    namespace: str
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None


class Pod(Part, frozen=True):
    metadata: PodMetadata
    spec: PodSpec
    status: dict[str, Any] = {}

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def leaving(self) -> bool:
        return bool(self.metadata.deletion_timestamp)

    @property
    def grace(self) -> float:
        requested = self.metadata.deletion_grace_period_seconds
        return float(self.spec.termination_grace_period_seconds if requested is None else requested)


def pod_of(obj: Object) -> Pod:
    return msgspec.convert(obj, Pod, strict=True)


def referenced(pod: Pod) -> set[tuple[str, str]]:
    """(plural, name) of every Secret and ConfigMap that the pod uses: their changes concern the pod."""
    found: set[tuple[str, str]] = set()
    for volume in pod.spec.volumes:
        if volume.secret is not None:
            found.add(("secrets", volume.secret.secret_name))
        if volume.config_map is not None:
            found.add(("configmaps", volume.config_map.name))
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.secret is not None:
                found.add(("secrets", source.secret.name))
            if source.config_map is not None:
                found.add(("configmaps", source.config_map.name))
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for variable in container.env:
            origin = variable.value_from
            if origin is not None and origin.secret_key_ref is not None:
                found.add(("secrets", origin.secret_key_ref.name))
            if origin is not None and origin.config_map_key_ref is not None:
                found.add(("configmaps", origin.config_map_key_ref.name))
        for group in container.env_from:
            if group.secret_ref is not None:
                found.add(("secrets", group.secret_ref.name))
            if group.config_map_ref is not None:
                found.add(("configmaps", group.config_map_ref.name))
    return found
