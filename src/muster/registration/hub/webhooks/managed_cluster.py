"""Defaulting and validation of ManagedClusters.

Defaulted: the timeAdded of taints (clients may not set it), and the cluster set `default` for a cluster that names none. Validated:
the name is a valid namespace name, the URLs are https, and the permissions that updating does not include, which are in
`muster.api.cluster.write_rules`. `clusters/namespaces.py` has which namespaces may become a cluster's.

No stored object makes these decisions fail: it is parsed as far as possible. On updates only changes are validated: an object that
was invalid before this webhook existed can still be corrected and deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from muster.api.cluster.v1 import ManagedCluster, Taint
from muster.api.cluster.write_rules import DEFAULT_SET, ClusterWriteRules, required_rights
from muster.kube.names import dns1123_label
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object
from muster.registration.hub.clusters.namespaces import foreign_namespace_problem, is_terminating, namespace_named
from muster.registration.hub.clusters.rbac import name_problem
from muster.registration.hub.webhooks.refusals import forbidden
from muster.registration.names import CLUSTER_SET_LABEL, HUB_NAMESPACE, RESOURCE_CLEANUP
from muster.runtime.auth import Authorizer
from muster.runtime.client import KubeClient
from muster.runtime.webhook import AdmissionRequest, AdmissionResponse, Denied, allow, bad_request, mutate, read

_WRITES = ("CREATE", "UPDATE")


class ManagedClusterWebhook:
    def __init__(
        self,
        client: KubeClient,
        authorizer: Authorizer,
        clock: Clock,
        *,
        default_cluster_set: bool = True,
        agent_restriction: bool = False,
        hub_namespace: str = HUB_NAMESPACE,
    ) -> None:
        self._hub_namespace = hub_namespace
        self._client = client
        self._authorizer = authorizer
        self._clock = clock
        self._rules = ClusterWriteRules(default_cluster_set, agent_restriction)

    async def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation not in _WRITES or request.object is None:
            return allow()
        old = _old(request)
        _read_new(request, old)
        wanted = stamp_taints(request.object, old, format_time(self._clock.now()))
        if self._rules.default_cluster_set:
            wanted = in_some_set(wanted)
        return mutate(request, wanted)

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation not in _WRITES:
            return allow()
        old = _old(request)
        new = _read_new(request, old)
        problems = shape_problems(new, old, self._hub_namespace)
        if problems:
            raise bad_request("\n".join(problems))
        await self._check_rights(request.user, new, old)
        if new.spec.hub_accepts_client and not (old is not None and old.spec.hub_accepts_client):
            await self._check_namespace(new)
        return allow()

    async def _check_rights(self, who: UserInfo, new: ManagedCluster, old: ManagedCluster | None) -> None:
        for right in required_rights(who, new, old, self._rules):
            if right.asked is None or not (await self._authorizer.authorize(who, right.asked)).allowed:
                raise Denied(right.refusal)

    async def _check_namespace(self, cluster: ManagedCluster) -> None:
        """Check that the cluster's name and its namespace are those of a cluster."""
        name = cluster.metadata.name
        namespace = await namespace_named(self._client, name)
        if is_terminating(namespace):
            raise forbidden("managedclusters/accept", name, f'cluster namespace "{name}" is terminating')
        if RESOURCE_CLEANUP in cluster.metadata.finalizers:
            # It was accepted before: its namespace was checked then.
            return
        if problem := name_problem(name, self._hub_namespace, is_new=True) or foreign_namespace_problem(name, namespace):
            raise forbidden("managedclusters/accept", name, problem)


def _read_new(request: AdmissionRequest, old: ManagedCluster | None) -> ManagedCluster:
    """The new object. A spec that cannot be parsed is refused, unless it was stored so before."""
    new = read(ManagedCluster, request.object)
    known = () if old is None else old.unread
    unreadable = [part for part in new.unread if part.startswith("spec") and part not in known]
    if unreadable:
        raise bad_request(f"ManagedCluster {new.metadata.name} cannot be read: {', '.join(unreadable)}")
    return new


def _old(request: AdmissionRequest) -> ManagedCluster | None:
    """The stored object; None on a create."""
    return read(ManagedCluster, request.old_object) if request.old_object else None


def in_some_set(document: Object) -> Object:
    metadata = document.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if labels.get(CLUSTER_SET_LABEL):
        return document
    return {**document, "metadata": {**metadata, "labels": {**labels, CLUSTER_SET_LABEL: DEFAULT_SET}}}


def stamp_taints(document: Object, old: ManagedCluster | None, now: str) -> Object:
    """The object with timeAdded on each taint. Raises Denied (400) if a client sets a value that it may not set."""
    spec = document.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(taints, list) or not taints:
        return document
    before = {} if old is None else {taint.key: taint for taint in reversed(old.spec.taints)}
    stamped, refused = [], []
    for index, taint in enumerate(taints):
        if not _is_taint(taint):
            # It was stored so before, or it would have been refused.
            stamped.append(taint)
            continue
        requested = _time(taint.get("timeAdded"), f"spec.taints[{index}].timeAdded")
        known = before.get(taint["key"])
        same = known if known is not None and _is_same(known, taint) else None
        if old is not None and requested is not None and (same is None or requested != _stored_time(same)):
            refused.append(taint["key"])
        # A manifest without times can be applied again: unchanged taints keep their time.
        stamped.append({**taint, "timeAdded": same.time_added or now if same is not None else now})
    if refused:
        raise bad_request(f'It is not allowed to set TimeAdded of Taint "{",".join(refused)}".')
    return {**document, "spec": {**spec, "taints": stamped}}


def _is_taint(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("key"), str) and isinstance(document.get("effect"), str)


def _is_same(known: Taint, taint: Object) -> bool:
    return (known.value, known.effect) == (taint.get("value") or "", taint["effect"])


def _time(text: Any, field: str) -> datetime | None:
    """The time to the second, as the API stores it. The CRD schema admits lists as times; a stored list is no time."""
    if not text or not isinstance(text, str):
        return None
    try:
        return parse_time(text).replace(microsecond=0)
    except ValueError as error:
        raise bad_request(f"{field}: {error}") from error


def _stored_time(taint: Taint) -> datetime | None:
    try:
        return parse_time(taint.time_added).replace(microsecond=0)
    except ValueError:
        return None


def shape_problems(new: ManagedCluster, old: ManagedCluster | None, hub_namespace: str) -> list[str]:
    """What is invalid in the object itself: the name of a new one, and new URLs."""
    problems = []
    if old is None:
        if flaws := dns1123_label(new.metadata.name):
            problems.append(f"metadata.name format is not correct: {','.join(flaws)}")
        elif problem := name_problem(new.metadata.name, hub_namespace, is_new=True):
            problems.append(f"metadata.name: {problem}")
    known = set() if old is None else {config.url for config in old.spec.managed_cluster_client_configs}
    for index, config in enumerate(new.spec.managed_cluster_client_configs):
        if config.url not in known and not is_https_url(config.url):
            field = f"spec.managedClusterClientConfigs[{index}].url"
            problems.append(f'{field}: url "{config.url}" is invalid in client configs: expected https://HOST…')
    return problems


def is_https_url(text: str) -> bool:
    if any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
