"""What may be written to a ManagedCluster, and what is filled in.

Filled in: when a taint was added (nobody else may say), and the cluster set `default` for a cluster that names none. Checked: the
name can be a namespace's, the URLs are https, and three rights that a plain update right does not include: accepting a cluster
(`managedclusters/accept`), taking that back, and moving a cluster between sets (`managedclustersets/join`, of both). The agents of
a cluster may take back its acceptance, which is how a cluster leaves from its own side; they may never give it.

On updates only what changes is checked: an object that was bad before this webhook came can still be mended and deleted.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlsplit

from muster.api.cluster.v1 import GROUP, ManagedCluster, Taint
from muster.kube.duration import format_time, parse_time
from muster.kube.names import dns1123_label
from muster.registration.hub.clusters.rbac import name_problem
from muster.registration.hub.webhooks.refusals import forbidden, may
from muster.registration.names import CLUSTER_SET_LABEL, HUB_NAMESPACE, REGISTER_GROUP, cluster_group, external_group
from muster.runtime.clock import Clock
from muster.runtime.delegation import Authorizer, Identity
from muster.runtime.errors import NotFound
from muster.runtime.resource import NAMESPACES, Object
from muster.runtime.verbs import KubeClient
from muster.runtime.webhookserver import AdmissionRequest, Verdict, allow, bad_request, mutate, read

DEFAULT_SET = "default"
_WRITES = ("CREATE", "UPDATE")


class ManagedClusterWebhook:
    def __init__(
        self,
        client: KubeClient,
        authorizer: Authorizer,
        clock: Clock,
        *,
        default_cluster_set: bool = True,
        hub_namespace: str = HUB_NAMESPACE,
    ) -> None:
        self._hub_namespace = hub_namespace
        self._client = client
        self._authorizer = authorizer
        self._clock = clock
        self._default_cluster_set = default_cluster_set

    async def mutate(self, request: AdmissionRequest) -> Verdict:
        if request.operation not in _WRITES or request.object is None:
            return allow()
        read(ManagedCluster, request.object)
        wanted = stamp_taints(request.object, _old(request), format_time(self._clock.now()))
        if self._default_cluster_set:
            wanted = in_some_set(wanted)
        return mutate(request, wanted)

    async def validate(self, request: AdmissionRequest) -> Verdict:
        if request.operation not in _WRITES:
            return allow()
        new, old = read(ManagedCluster, request.object), _old(request)
        problems = shape_problems(new, old, self._hub_namespace)
        if problems:
            raise bad_request("\n".join(problems))
        await self._check_acceptance(request.user, new, old)
        await self._check_sets(request.user, new, old)
        return allow()

    async def _check_acceptance(self, who: Identity, new: ManagedCluster, old: ManagedCluster | None) -> None:
        name, accepted = new.metadata.name, new.spec.hub_accepts_client
        if accepted == (old is not None and old.spec.hub_accepts_client):
            return
        if not accepted and {cluster_group(name), external_group(name)} & set(who.groups):
            return
        if not await may(self._authorizer, who, "update", REGISTER_GROUP, "managedclusters/accept", name):
            raise forbidden("managedclusters/accept", name, f'user "{who.name}" cannot update the HubAcceptsClient field')
        if accepted and await self._is_terminating(name):
            raise forbidden("managedclusters/accept", name, f'cluster namespace "{name}" is terminating')

    async def _is_terminating(self, name: str) -> bool:
        try:
            namespace = await self._client.get(NAMESPACES, name)
        except NotFound:
            return False
        return bool((namespace.get("status") or {}).get("phase") == "Terminating")

    async def _check_sets(self, who: Identity, new: ManagedCluster, old: ManagedCluster | None) -> None:
        before, after = "" if old is None else _set_of(old), _set_of(new)
        if before == after:
            return
        if old is not None and not before and after == DEFAULT_SET and self._default_cluster_set:
            # We put it there ourselves: an agent that writes to a cluster from before the default set need not hold the right.
            return
        for name in filter(None, (before, after)):
            if not await may(self._authorizer, who, "create", GROUP, "managedclustersets/join", name):
                why = f'user "{who.name}" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{name}"'
                raise forbidden("managedclustersets/join", name, why)


def _old(request: AdmissionRequest) -> ManagedCluster | None:
    """What was stored before; None for a new one."""
    return read(ManagedCluster, request.old_object) if request.old_object else None


def _set_of(cluster: ManagedCluster) -> str:
    return cluster.metadata.labels.get(CLUSTER_SET_LABEL, "")


def in_some_set(document: Object) -> Object:
    metadata = document.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if labels.get(CLUSTER_SET_LABEL):
        return document
    return {**document, "metadata": {**metadata, "labels": {**labels, CLUSTER_SET_LABEL: DEFAULT_SET}}}


def stamp_taints(document: Object, old: ManagedCluster | None, now: str) -> Object:
    """The object with the time on each taint. Raises Denied (400) where a client sets one that is not its to set."""
    spec = document.get("spec") or {}
    taints = spec.get("taints") or []
    if not taints:
        return document
    before = {} if old is None else {taint.key: taint for taint in reversed(old.spec.taints)}
    stamped, refused = [], []
    for index, taint in enumerate(taints):
        asked = _time(taint.get("timeAdded"), f"spec.taints[{index}].timeAdded")
        known = before.get(taint["key"])
        same = known if known is not None and _is_same(known, taint) else None
        if old is not None and asked is not None and (same is None or asked != _time(same.time_added)):
            refused.append(taint["key"])
        # A manifest without times can be applied again: what does not change keeps its time.
        stamped.append({**taint, "timeAdded": same.time_added or now if same is not None else now})
    if refused:
        raise bad_request(f'It is not allowed to set TimeAdded of Taint "{",".join(refused)}".')
    return {**document, "spec": {**spec, "taints": stamped}}


def _is_same(known: Taint, taint: Object) -> bool:
    return (known.value, known.effect) == (taint.get("value") or "", taint["effect"])


def _time(text: str | None, field: str = "") -> datetime | None:
    """To the second, as the API keeps it."""
    if not text:
        return None
    try:
        return parse_time(text).replace(microsecond=0)
    except ValueError as error:
        raise bad_request(f"{field}: {error}") from error


def shape_problems(new: ManagedCluster, old: ManagedCluster | None, hub_namespace: str) -> list[str]:
    """What is wrong with the object by itself: the name of a new one, URLs that are new."""
    problems = []
    if old is None:
        if flaws := dns1123_label(new.metadata.name):
            problems.append(f"metadata.name format is not correct: {','.join(flaws)}")
        elif problem := name_problem(new.metadata.name, hub_namespace):
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
