"""Settings of the pods of a template's Deployments and DaemonSets on a cluster: environment, volumes, nodes, images, resources.

Added entries replace the template's entries of the same name, so there are no duplicates; the template's own volumes and mounts
stay unchanged. Init containers only get images from the same registries, as upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from muster.addon.agent_addon import AddonError
from muster.addon.templates.images import mirrored
from muster.addon.templates.namespaces import metadata_of
from muster.addon.templates.resources import ContainerRequirements, resources_for
from muster.api.addon.v1alpha1 import ImageMirror
from muster.machinery.objects import Object

WORKLOADS: Final = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
"""The kinds of the group apps whose pods are configured, and their plurals in paths and identifiers."""
GROUP: Final = "apps"
_SCALED: Final = ("Deployment", "StatefulSet")
_VOLUME_NAME: Final = 63


@dataclass(frozen=True)
class Mount:
    """A volume of every pod, mounted into all of its containers; `source` is Kubernetes'."""

    name: str
    path: str
    source: Mapping[str, Any]


@dataclass(frozen=True)
class PodSettings:
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    registries: tuple[ImageMirror, ...] = ()
    requirements: tuple[ContainerRequirements, ...] = ()


def plural_of(manifest: Object) -> str:
    """`deployments` or `daemonsets`; empty for everything else."""
    return WORKLOADS.get(str(manifest.get("kind")), "") if _group_of(manifest) == GROUP else ""


def volume_name(text: str) -> str:
    """A valid volume name for any signer name; truncated ones get a hash."""
    name = text.replace("/", "-").replace(".", "-")
    if len(name) <= _VOLUME_NAME:
        return name
    return f"{name[: _VOLUME_NAME - 9].rstrip('-')}-{sha256(text.encode()).hexdigest()[:8]}"


def with_numbers(manifest: Object) -> Object:
    """`replicas` as a number: variables are text, and templates use them for this field."""
    spec = manifest.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    is_scaled = _group_of(manifest) == GROUP and manifest.get("kind") in _SCALED
    if not is_scaled or not isinstance(spec, dict) or not isinstance(replicas, str):
        return manifest
    is_number = replicas.isascii() and replicas.isdigit() and len(replicas) < 10
    return {**manifest, "spec": {**spec, "replicas": int(replicas)}} if is_number else manifest


def configured(manifest: Object, settings: PodSettings) -> Object:
    """A manifest whose pods, if it is a Deployment or a DaemonSet, have these settings. Raises AddonError."""
    plural = plural_of(manifest)
    if not plural:
        return manifest
    spec = _part(manifest, manifest, "spec")
    template = _part(manifest, spec, "template")
    pod = dict(_part(manifest, template, "spec"))
    workload = str(metadata_of(manifest).get("name") or "")
    pod["containers"] = [
        _with_requirements(_container(container, settings), settings, plural, workload)
        for container in _containers(manifest, pod, "containers")
    ]
    if "initContainers" in pod:
        pod["initContainers"] = [_mirrored(container, settings) for container in _containers(manifest, pod, "initContainers")]
    if settings.mounts:
        volumes = pod.get("volumes") or []
        known = set(_names(volumes))
        pod["volumes"] = [*volumes, *({"name": mount.name, **mount.source} for mount in settings.mounts if mount.name not in known)]
    if settings.node_selector:
        pod["nodeSelector"] = dict(settings.node_selector)
    if settings.tolerations:
        pod["tolerations"] = [dict(toleration) for toleration in settings.tolerations]
    return {**manifest, "spec": {**spec, "template": {**template, "spec": pod}}}


def with_environment(container: Object, environment: Mapping[str, str]) -> Object:
    """A container with these variables: existing ones are replaced in place, others appended in order."""
    if not environment:
        return container
    own = container.get("env") or []
    known = set(_names(own))
    kept = [{"name": one["name"], "value": environment[one["name"]]} if _is_named(one, environment) else one for one in own]
    added = [{"name": name, "value": value} for name, value in environment.items() if name not in known]
    return {**container, "env": [*kept, *added]}


def _container(container: Object, settings: PodSettings) -> Object:
    changed = with_environment(_mirrored(container, settings), settings.environment)
    mounts = changed.get("volumeMounts") or []
    paths = {mount.get("mountPath") for mount in mounts if isinstance(mount, dict)}
    added = [{"name": one.name, "mountPath": one.path} for one in settings.mounts if one.path not in paths]
    return {**changed, "volumeMounts": [*mounts, *added]} if added else changed


def _mirrored(container: Object, settings: PodSettings) -> Object:
    image = container.get("image")
    return {**container, "image": mirrored(image, settings.registries)} if isinstance(image, str) and image else container


def _with_requirements(container: Object, settings: PodSettings, plural: str, workload: str) -> Object:
    resources = resources_for(settings.requirements, (plural, workload, str(container.get("name") or "")))
    return container if resources is None else {**container, "resources": dict(resources)}


def _containers(manifest: Object, pod: Object, field_name: str) -> Iterator[Object]:
    containers = pod.get(field_name) or []
    if not isinstance(containers, list) or not all(isinstance(container, dict) for container in containers):
        raise AddonError(f"{describe(manifest)}: spec.template.spec.{field_name}: expected a list of containers")
    return iter(containers)


def _part(manifest: Object, document: Object, field_name: str) -> Object:
    part = document.get(field_name)
    if not isinstance(part, dict):
        raise AddonError(f"{describe(manifest)}: {field_name} is missing; expected spec.template.spec with the pod")
    return part


def describe(manifest: Object) -> str:
    """The manifest in messages."""
    metadata = metadata_of(manifest)
    name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f"{manifest.get('kind') or 'manifest'} {name or '(unnamed)'}"


def _names(entries: object) -> Iterator[str]:
    if isinstance(entries, list):
        yield from (str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry)


def _is_named(entry: object, names: Mapping[str, str]) -> bool:
    return isinstance(entry, dict) and entry.get("name") in names


def _group_of(manifest: Object) -> str:
    return str(manifest.get("apiVersion") or "").rpartition("/")[0]
