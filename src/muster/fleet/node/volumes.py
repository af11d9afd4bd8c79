"""Volumes of a pod as directories: the content of Secrets, ConfigMaps, fields of the pod and its service account, kept up to date.

`materialise` is called again whenever an object in a volume may have changed; it writes only differences. Tokens are requested from
the API server, bound to the pod, and renewed after four fifths of their life, as by kubelets. A missing object is a
`MissingReference`: the pod waits for it. Volumes that need a machine (hostPath, claims) are refused by the same error, with a
message that explains it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from muster.fleet.node import atomicdir
from muster.fleet.node.environment import Address, Lookup, MissingReference, contents, field_value, resource_value
from muster.fleet.node.podspec import DownwardVolume, KeyPath, Pod, Projection, TokenSource, Volume
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.machinery.privatefiles import make_directories
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import SERVICE_ACCOUNTS

RENEW_AFTER = 0.8
"""The fraction of a token's life after which it is renewed."""
RETRY = 30.0
"""Seconds after which a refused renewal is retried."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    renew: datetime
    expires: datetime


class Volumes:
    def __init__(self, directory: Path, client: KubeClient, lookup: Lookup, clock: Clock) -> None:
        self._directory = directory
        self._client = client
        self._lookup = lookup
        self._clock = clock
        self._tokens: dict[tuple[str, str], _Token] = {}
        self.directories: dict[str, Path] = {}
        """Volume name to directory."""

    async def materialise(self, pod: Pod, address: Address) -> float | None:
        """Bring every volume up to date; returns the seconds until the next renewal of a token."""
        for volume in pod.spec.volumes:
            path = self._directory / volume.name
            if volume.empty_dir is not None:
                await asyncio.to_thread(make_directories, path)
            else:
                files = await self._files(pod, volume, address)
                await asyncio.to_thread(atomicdir.write, path, files)
            self.directories[volume.name] = path
        now = self._clock.now()
        return min((max((token.renew - now).total_seconds(), 1.0) for token in self._tokens.values()), default=None)

    def require(self, pod: Pod) -> None:
        """Check without writing that the objects in its volumes exist, as far as this node supports their kinds."""
        for volume in pod.spec.volumes:
            if volume.secret is not None:
                self._keys("secrets", volume.secret.secret_name, volume.secret.items, volume.secret.optional, pod)
            projected = volume.projected.sources if volume.projected is not None else ()
            for secret in (source.secret for source in projected if source.secret is not None):
                self._keys("secrets", secret.name, secret.items, secret.optional, pod)
            for wanted in (volume.config_map, *(source.config_map for source in projected)):
                if wanted is not None:
                    self._keys("configmaps", wanted.name, wanted.items, wanted.optional, pod)

    async def _files(self, pod: Pod, volume: Volume, address: Address) -> dict[str, bytes]:
        if volume.secret is not None:
            return self._keys("secrets", volume.secret.secret_name, volume.secret.items, volume.secret.optional, pod)
        if volume.config_map is not None:
            return self._keys("configmaps", volume.config_map.name, volume.config_map.items, volume.config_map.optional, pod)
        if volume.downward_api is not None:
            return _downward(pod, volume.downward_api, address)
        if volume.projected is None:
            raise MissingReference(
                f"volume {volume.name!r} is of a kind that this node does not have: only emptyDir, secret, configMap, "
                "downwardAPI and projected volumes exist here"
            )
        files: dict[str, bytes] = {}
        for source in volume.projected.sources:
            files |= await self._projected(pod, volume, source, address)
        return files

    async def _projected(self, pod: Pod, volume: Volume, source: Projection, address: Address) -> dict[str, bytes]:
        if source.secret is not None:
            return self._keys("secrets", source.secret.name, source.secret.items, source.secret.optional, pod)
        if source.config_map is not None:
            return self._keys("configmaps", source.config_map.name, source.config_map.items, source.config_map.optional, pod)
        if source.downward_api is not None:
            return _downward(pod, source.downward_api, address)
        if source.service_account_token is not None:
            token = await self._token(pod, volume.name, source.service_account_token)
            return {source.service_account_token.path: token.encode()}
        return {}

    def _keys(self, plural: str, name: str, items: Iterable[KeyPath], optional: bool, pod: Pod) -> dict[str, bytes]:
        found = self._lookup(plural, name)
        if found is None and not optional:
            raise MissingReference(f'{plural.removesuffix("s")} "{name}" not found')
        return selected(found, tuple(items), optional, f"{pod.metadata.namespace}/{name}")

    async def _token(self, pod: Pod, volume: str, source: TokenSource) -> str:
        held, now = self._tokens.get((volume, source.path)), self._clock.now()
        if held is not None and now < held.renew:
            return held.text
        try:
            fresh = await self._request(pod, source, now)
        except KubeError as problem:
            if held is None or now >= held.expires:
                raise MissingReference(f"failed to fetch token: {problem}") from problem
            fresh = _Token(held.text, now + timedelta(seconds=RETRY), held.expires)
        self._tokens[volume, source.path] = fresh
        return fresh.text

    async def _request(self, pod: Pod, source: TokenSource, now: datetime) -> _Token:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid}
        spec: Object = {"expirationSeconds": source.expiration_seconds, "boundObjectRef": bound}
        if source.audience:
            spec["audiences"] = [source.audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = pod.spec.service_account_name
        answer = await self._client.create(SERVICE_ACCOUNTS, request, pod.metadata.namespace, name=account, subresource="token")
        expires = parse_time(answer["status"]["expirationTimestamp"])
        return _Token(answer["status"]["token"], now + (expires - now) * RENEW_AFTER, expires)


def selected(found: Object | None, items: tuple[KeyPath, ...], optional: bool, shown: str) -> dict[str, bytes]:
    """The files of a Secret or ConfigMap: all its keys, or the selected ones under their paths."""
    values: Mapping[str, bytes] = contents(found)
    if not items:
        return dict(values)
    missing = [item.key for item in items if item.key not in values]
    if missing and not optional:
        raise MissingReference(f"references non-existent key {missing[0]!r} of {shown}")
    return {item.path: values[item.key] for item in items if item.key in values}


def _downward(pod: Pod, volume: DownwardVolume, address: Address) -> dict[str, bytes]:
    files = {}
    for item in volume.items:
        if item.field_ref is not None:
            files[item.path] = field_value(pod, item.field_ref, address).encode()
        elif item.resource_field_ref is not None:
            files[item.path] = resource_value(pod, pod.spec.containers[0], item.resource_field_ref).encode()
    return files
