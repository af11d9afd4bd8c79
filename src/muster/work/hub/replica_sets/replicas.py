"""A work of a replica set as its controller sees it: the digest of its spec, and its progress.

`digest` identifies a spec, independent of the order of its keys; a work has the change if its digest is the template's.

The progress is read from the conditions of the current generation. If the template has a rule for `Progressing`, that condition
decides, as upstream: True is progressing, or failed if `Degraded` is True too; False is succeeded. Without such a rule a work has
succeeded if it is applied and available, has failed if it is not applied or is degraded, and is progressing otherwise. The time of
the state is never before the manifests were applied in this generation: an unchanged condition has the time of the generation
before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec
import orjson

from muster.api.meta import Condition, condition_of
from muster.api.resource import ObjectMeta
from muster.api.salvage import salvaged
from muster.api.work.v1 import ManifestWorkSpec, ManifestWorkStatus
from muster.machinery.golang.timestamps import parse_time
from muster.placement.rollout import Progress, State
from muster.work.names import APPLIED, AVAILABLE, DEGRADED, PLACEMENT_NAME_LABEL, PROGRESSING, REPLICA_SET_LABEL


class _Wire(msgspec.Struct):
    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: ManifestWorkStatus = ManifestWorkStatus()


_decode = msgspec.json.Decoder(_Wire).decode


@dataclass(frozen=True)
class Replica:
    metadata: ObjectMeta
    digest: bytes
    status: ManifestWorkStatus

    @classmethod
    def decode(cls, raw: bytes) -> Replica:
        """Unreadable parts of the status are left out: the work of one agent must not hide those of others."""
        try:
            wire = _decode(raw)
        except msgspec.ValidationError:
            document, _ = salvaged(_Wire, orjson.loads(raw), ("status",))
            wire = _decode(orjson.dumps(document))
        return cls(wire.metadata, digest(orjson.loads(bytes(wire.spec))), wire.status)

    @property
    def cluster(self) -> str:
        return self.metadata.namespace

    @property
    def owner(self) -> str:
        return self.metadata.labels.get(REPLICA_SET_LABEL, "")

    @property
    def placement(self) -> str:
        return self.metadata.labels.get(PLACEMENT_NAME_LABEL, "")

    @property
    def deleting(self) -> bool:
        return bool(self.metadata.deletion_timestamp)

    def is_true(self, kind: str) -> bool:
        found = self.current(kind)
        return found is not None and found.status == "True"

    def current(self, kind: str) -> Condition | None:
        """A condition of the current generation."""
        found = condition_of(self.status.conditions, kind)
        return found if found is not None and found.observed_generation == self.metadata.generation else None

    def progress(self, ruled: bool) -> Progress:
        """`ruled`: the template has a rule for Progressing."""
        applied = self.current(APPLIED)
        if applied is None:
            return Progress(State.PENDING)
        return self._by_rule(applied) if ruled else self._by_availability(applied)

    def _by_rule(self, applied: Condition) -> Progress:
        progressing, degraded = self.current(PROGRESSING), condition_of(self.status.conditions, DEGRADED)
        behind = degraded is not None and self.current(DEGRADED) is None
        if applied.status != "True" or progressing is None or behind:
            return Progress(State.PENDING)
        if progressing.status == "False":
            return self._since(State.SUCCEEDED, progressing)
        if progressing.status == "True" and degraded is not None and degraded.status == "True":
            return self._since(State.FAILED, degraded)
        return self._since(State.PROGRESSING, progressing)

    def _by_availability(self, applied: Condition) -> Progress:
        degraded, available = self.current(DEGRADED), self.current(AVAILABLE)
        if applied.status == "False":
            return self._since(State.FAILED, applied)
        if degraded is not None and degraded.status == "True":
            return self._since(State.FAILED, degraded)
        if applied.status == "True" and available is not None and available.status == "True":
            return self._since(State.SUCCEEDED, applied, available)
        return self._since(State.PROGRESSING, applied)

    def _since(self, state: State, *conditions: Condition) -> Progress:
        listed = (condition_of(manifest.conditions, APPLIED) for manifest in self.status.resource_status.manifests)
        fresh = (one for one in listed if one is not None and one.observed_generation == self.metadata.generation)
        times = list(_times((*conditions, *fresh)))
        return Progress(state, max(times, default=None))


def digest(spec: object) -> bytes:
    try:
        return hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).digest()
    except TypeError:
        # Nested more deeply than a template can be.
        return b""


def is_ruled(template: ManifestWorkSpec) -> bool:
    """Whether the template has a rule for Progressing."""
    return any(rule.condition == PROGRESSING for config in template.manifest_configs for rule in config.condition_rules)


def _times(conditions: Iterable[Condition]) -> Iterable[datetime]:
    for condition in conditions:
        try:
            yield parse_time(condition.last_transition_time)
        except ValueError:
            continue
