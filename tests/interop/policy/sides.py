"""Two policy controllers, ours and upstream's, that are shown the same: when both have settled, what they say is compared."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tests.support import peers
from tests.support.policies import Program

SETTLED: Final = 1.5
"""Seconds for which everything is to stay as it is."""
_PECULIAR: Final = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r'resourceVersion: "\d+"'), "resourceVersion: N"),
    # Upstream shows the whole policy and the whole call that failed.
    (re.compile(r"(failed to (?:resolve the template|parse the template JSON string)) .*?: (?=template: )", re.DOTALL), r"\1: "),
    (re.compile(r"( at <).*?(>: )"), r"\1…\2"),
)
T = TypeVar("T")


def upstream() -> Program:
    """config-policy-controller, unchanged, with its limits of requests lifted."""
    return (peers.own_program("policy", "controller"), "controller", "--client-max-qps=200", "--client-burst=300")


def settled(look: Callable[[], T], done: Callable[[T], bool], timeout: float = 40) -> T:
    """What there is once it is `done` and has stayed so for a while; or in the end, for the caller to judge."""
    deadline = time.monotonic() + timeout
    since, before = time.monotonic(), None
    while True:
        found = look()
        now = time.monotonic()
        if found != before:
            since, before = now, found
        if now > deadline or (done(found) and now - since >= SETTLED):
            return found
        time.sleep(0.1)


def shown(cluster: str, value: Any) -> Any:
    """A part of a status, without what is another one for each cluster."""
    if isinstance(value, str):
        for pattern, instead in _PECULIAR:
            value = pattern.sub(instead, value)
        return value.replace(cluster, "CLUSTER")
    if isinstance(value, dict):
        return {field: shown(cluster, one) for field, one in value.items()}
    return [shown(cluster, one) for one in value] if isinstance(value, list | tuple) else value
