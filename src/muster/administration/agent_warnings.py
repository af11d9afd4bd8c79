"""The last warning of a cluster's agent: from its log if that is readable, and from Events about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from muster.administration.content.work_status import one_line
from muster.administration.work_diagnosis import pod_problems
from muster.machinery.objects import Object
from muster.runtime.client import HttpClient, KubeClient, KubeError
from muster.runtime.client.builtin import CORE_EVENTS, PODS

LINES: Final = 200
LONGEST: Final = 400
_LOGFMT: Final = re.compile(r"\blevel=(?:warning|error)\b")
_KLOG: Final = re.compile(r"^[WE]\d{4} ")


async def last_warning(managed: KubeClient, namespace: str) -> str:
    """The last warning of the pods in an agent's namespace; empty if there is none or it is not readable."""
    try:
        pods = (await managed.list(PODS, namespace)).items
    except KubeError:
        return ""
    for pod in pods:
        if problem := next(pod_problems(pod), ""):
            return problem
    found = [line for pod in pods for line in await _warnings(managed, pod)]
    return (found or await _events(managed, namespace) or [""])[-1][:LONGEST]


async def _warnings(managed: KubeClient, pod: Object) -> list[str]:
    if not isinstance(managed, HttpClient):
        return []
    metadata = pod["metadata"]
    try:
        log = await managed.raw("GET", PODS.path(metadata["namespace"], metadata["name"], "log"), {"tailLines": str(LINES)})
    except KubeError:
        return []
    return [f"{metadata['name']}: {one_line(line)}" for line in log.decode(errors="replace").splitlines() if _is_warning(line)]


def _is_warning(line: str) -> bool:
    """Whether a line is a warning, as our agents write it in either format, or as upstream's do."""
    if line.startswith("{"):
        try:
            return json.loads(line).get("level") in ("warning", "warn", "error")
        except (ValueError, AttributeError):
            return False
    return bool(_LOGFMT.search(line) or _KLOG.match(line))


async def _events(managed: KubeClient, namespace: str) -> list[str]:
    try:
        events = (await managed.list(CORE_EVENTS, namespace)).items
    except KubeError:
        return []
    return list(_reasons_of(sorted((event for event in events if event.get("type") == "Warning"), key=_moment)))


def _reasons_of(events: list[Object]) -> Iterator[str]:
    for event in events:
        about = event.get("involvedObject") or {}
        yield f"{about.get('kind')} {about.get('name')}: {event.get('reason')}: {one_line(str(event.get('message') or ''))}"


def _moment(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
