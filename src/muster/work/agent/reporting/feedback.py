"""Values of applied objects that are reported back: by well-known tables, or by JSONPaths that the work gives.

A value is an integer, a string or a boolean; anything else is a problem, or raw JSON where that is switched on. What cannot be
read is a problem of its path alone: the other values are still reported. Invariant: the values are a valid list of the status, so
no two have the same name and none is longer than the hub takes, whatever the rules say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.work.v1 import FeedbackRule, FeedbackValue, FieldValue, JsonPath
from muster.kube.jsonpath import MOST, JSONPathError, Limit, UnknownIdentifier, compile_path
from muster.machinery.golang import formatting
from muster.machinery.golang.json import encode_json
from muster.machinery.objects import GVR, Object

LONGEST_STRING: Final = 32768
LONGEST_RAW: Final = 1024
"""What the definition of ManifestWork allows for raw JSON."""
_LARGEST: Final = 2**63


def _paths(**paths: str) -> tuple[JsonPath, ...]:
    return tuple(JsonPath(name=name, path=path) for name, path in paths.items())


_REPLICAS: Final = _paths(
    ReadyReplicas=".status.readyReplicas", Replicas=".status.replicas", AvailableReplicas=".status.availableReplicas"
)
WELL_KNOWN: Final[Mapping[tuple[str, str], tuple[JsonPath, ...]]] = {
    ("apps/v1", "Deployment"): _REPLICAS,
    ("apps/v1", "DaemonSet"): _paths(
        NumberReady=".status.numberReady",
        DesiredNumberScheduled=".status.desiredNumberScheduled",
        NumberAvailable=".status.numberAvailable",
    ),
    ("batch/v1", "Job"): _paths(JobComplete='.status.conditions[?(@.type=="Complete")].status', JobSucceeded=".status.succeeded"),
    ("v1", "Pod"): _paths(PodReady='.status.conditions[?(@.type=="Ready")].status', PodPhase=".status.phase"),
    # Those below OCM's agent does not know: it reports a failure for them.
    ("apps/v1", "StatefulSet"): _REPLICAS,
    ("apps/v1", "ReplicaSet"): _REPLICAS,
    ("v1", "PersistentVolumeClaim"): _paths(ClaimPhase=".status.phase"),
}


@dataclass(frozen=True)
class Feedback:
    values: tuple[FeedbackValue, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeedbackReader:
    """`raw_json` is OCM's feature RawFeedbackJsonString."""

    raw_json: bool = False
    longest_raw: int = LONGEST_RAW
    limit: Limit = field(default_factory=lambda: Limit(MOST), compare=False)
    """For all that one reader reads: no work may keep the agent from the others."""

    def read(self, resource: GVR, document: Object, rules: Iterable[FeedbackRule]) -> Feedback:
        values: dict[str, FeedbackValue] = {}
        problems: dict[str, None] = {}
        for path in _paths_of(resource, rules, problems):
            try:
                value = self._value(path, document)
            except _Unreadable as problem:
                problems[str(problem)] = None
                continue
            if value is None:
                continue
            if path.name in values:
                problems[f"the name {path.name} is given by more than one rule, only the first value is reported"] = None
            else:
                values[path.name] = FeedbackValue(name=path.name, field_value=value)
        return Feedback(tuple(values.values()), tuple(problems))

    def _value(self, path: JsonPath, document: Object) -> FieldValue | None:
        found = _found(path, document, self.limit)
        if not found:
            return None
        value: Any = found if self.raw_json and len(found) > 1 else found[0]
        if value is None:
            return None
        if isinstance(value, bool):
            return FieldValue(type="Boolean", boolean=value)
        if isinstance(value, str):
            return _string(path, value)
        if isinstance(value, int) and -_LARGEST <= value < _LARGEST:
            return FieldValue(type="Integer", integer=value)
        if self.raw_json:
            return self._raw(path, value)
        kind = "float64" if isinstance(value, int) else formatting.type_name(value)
        raise _Unreadable(f"the type {kind} of the value for {path.name} is not found")

    def _raw(self, path: JsonPath, value: Any) -> FieldValue:
        text = encode_json(value)
        limit = min(self.longest_raw, LONGEST_RAW)
        if len(text.encode()) > limit:
            raise _Unreadable(
                f"the length of returned json raw string for name {path.name} is larger than the maximum length {limit}"
            )
        return FieldValue(type="JsonRaw", json_raw=text)


class _Unreadable(Exception):
    """A path that gives no value, and why."""


def _paths_of(resource: GVR, rules: Iterable[FeedbackRule], problems: dict[str, None]) -> Iterator[JsonPath]:
    """The paths of the rules; a rule without a known path is a problem."""
    for rule in rules:
        if rule.type == "JSONPaths":
            for path in rule.json_paths:
                if path.version and path.version != resource.version:
                    problems[f"version set in the path {path.name} is not matched for the related resource"] = None
                else:
                    yield path
        elif known := WELL_KNOWN.get((resource.api_version, resource.kind)):
            yield from known
        else:
            kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
            problems[f"cannot find the wellknown statuses for resource with gvk {kind}"] = None


def _found(path: JsonPath, document: Object, limit: Limit) -> list[Any]:
    try:
        compiled = compile_path(path.path)
    except UnknownIdentifier as error:
        raise _not_found(path, error) from None
    except JSONPathError as error:
        raise _Unreadable(f"failed to parse json path {path.path} of {path.name} with error: {error}") from None
    try:
        return next(compiled.results(document, limit=limit), [])
    except JSONPathError as error:
        raise _not_found(path, error) from None


def _not_found(path: JsonPath, error: JSONPathError) -> _Unreadable:
    return _Unreadable(f"failed to find value for {path.name} with error: {error}")


def _string(path: JsonPath, value: str) -> FieldValue:
    if len(value) > LONGEST_STRING:
        raise _Unreadable(f"the string for name {path.name} is longer than {LONGEST_STRING} characters")
    return FieldValue(type="String", string=value)
