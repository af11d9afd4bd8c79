"""Writers that keep a journal of what the server promised, and watchers that keep one of what it showed.

A writer owns its objects, so it knows for each of them what must be there. A request that got no answer (the server was killed) is
looked up afterwards: it took place or it did not, and only these two outcomes are right. Every write puts one fresh value into
three fields, so that a half-done write shows. Each object's changes, in order, must be what every watcher saw.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.support.client import Client
from tests.support.planes import EmbeddedPlane

NAMESPACE = "durable"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
GONE = "gone"
_OBJECTS_PER_WRITER = 6
_BROKEN = (OSError, http.client.HTTPException)


class Torn(AssertionError):
    """An object shows parts of two writes."""


def body(name: str, value: str, version: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {"value": value}}
    if version is not None:
        metadata["resourceVersion"] = version
    return {"metadata": metadata, "data": {"first": value, "last": value}}


def value_of(obj: dict[str, Any]) -> str:
    value, first, last = obj["metadata"]["labels"]["value"], obj["data"]["first"], obj["data"]["last"]
    if not value == first == last:
        raise Torn(f"{obj['metadata']['name']} shows {value}, {first} and {last}")
    return str(value)


@dataclass
class Service:
    """The server as its clients know it: up, or being restarted."""

    plane: EmbeddedPlane
    up: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    """No more writes."""


class Writer(threading.Thread):
    def __init__(self, service: Service, number: int) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.number = number
        self.rng = random.Random(number)
        self.current: dict[str, tuple[str, str]] = {}
        """Name → (value, resourceVersion)."""
        self.changes: dict[str, list[str]] = defaultdict(list)
        """Name → the values it went through, GONE for a deletion."""
        self.versions: list[tuple[str, str, str]] = []
        """(resourceVersion, name, value) of every acknowledged write that says its revision."""
        self.acknowledged = 0
        self.unanswered = 0
        self.problem: BaseException | None = None
        self._client = service.plane.client(timeout=20)
        self._count = 0

    def run(self) -> None:
        try:
            while not self.service.over.is_set():
                self._write()
        except BaseException as problem:
            self.problem = problem
        finally:
            self._client.close()

    def _write(self) -> None:
        name = f"w{self.number}-{self.rng.randrange(_OBJECTS_PER_WRITER)}"
        self._count += 1
        value = f"{self.number}.{self._count}"
        known = self.current.get(name)
        verb = "create" if known is None else self.rng.choice(("update", "patch", "patch", "delete"))
        try:
            written = self._send(verb, name, value, known)
        except _BROKEN:
            self._client.close()
            self.unanswered += 1
            written = self._look_up(verb, name, value, known)
            if written is None:
                return
        else:
            self.acknowledged += 1
        if verb == "delete":
            del self.current[name]
            self.changes[name].append(GONE)
            return
        if value_of(written) != value:
            raise AssertionError(f"{verb} of {name} answered {value_of(written)}, not {value}")
        version = written["metadata"]["resourceVersion"]
        self.current[name] = value, version
        self.versions.append((version, name, value))
        self.changes[name].append(value)

    def _send(self, verb: str, name: str, value: str, known: tuple[str, str] | None) -> Any:
        path = f"{PATH}/{name}"
        if verb == "create":
            return self._client.post(PATH, body(name, value)).expect(201)
        assert known is not None
        if verb == "update":
            return self._client.put(path, body(name, value, known[1])).expect(200)
        if verb == "patch":
            return self._client.patch(path, body(name, value)).expect(200)
        return self._client.delete(path).expect(200)

    def _look_up(self, verb: str, name: str, value: str, known: tuple[str, str] | None) -> Any:
        """What an unanswered write did: the object as it is now if it took place, None if it did not."""
        while True:
            self.service.up.wait(60)
            try:
                found = self._client.get(f"{PATH}/{name}")
                break
            except _BROKEN:
                self._client.close()
        if found.status == 404:
            if verb == "delete":
                return {}
            if verb == "create":
                return None
            raise AssertionError(f"{name} is lost: its last acknowledged value was {known}")
        shown = value_of(found.expect(200))
        if known is not None and shown == known[0]:
            return None
        if verb != "delete" and shown == value:
            return found.json
        raise AssertionError(f"{name} shows {shown} after {known} and an unanswered {verb} to {value}")


class Watcher(threading.Thread):
    """Follows all objects across restarts, always going on from the last revision it was told."""

    def __init__(self, service: Service, version: str) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.version = int(version)
        self.events: list[tuple[int, str, str]] = []
        """(revision, name, value or GONE)"""
        self.reconnected = 0
        self.problem: BaseException | None = None
        self.finish_at: int | None = None

    def run(self) -> None:
        client = self.service.plane.client(timeout=20)
        try:
            while not self._done():
                self.service.up.wait(60)
                with contextlib.suppress(*_BROKEN):
                    self._follow(client)
                self.reconnected += 1
        except BaseException as problem:
            self.problem = problem

    def _done(self) -> bool:
        return self.finish_at is not None and self.version >= self.finish_at

    def _follow(self, client: Client) -> None:
        query = {"resourceVersion": self.version, "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
        with client.watch(PATH, query, timeout=10) as watch:
            assert watch.status == 200, watch.reply().text
            for event in watch:
                obj = event["object"]
                if obj["metadata"].get("name") == "kube-root-ca.crt":
                    continue
                assert event["type"] != "ERROR", obj
                revision = int(obj["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    assert revision > self.version, f"event at {revision} after {self.version}"
                    value = value_of(obj)
                    self.events.append((revision, obj["metadata"]["name"], GONE if event["type"] == "DELETED" else value))
                self.version = max(self.version, revision)
                if self._done():
                    return

    def changes(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for _, name, value in self.events:
            found[name].append(value)
        return found
