"""Plays a case on a control plane and writes down what came back.

Each case gets a namespace of its own, made and settled (service account, root CA) before the first step, so that
controllers do not write into the middle of the story. The result is a list of plain records, masked and ready to be
compared or stored.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import yaml

from tests.differential.dsl import Arrived, Case, Kubectl, Request, Step, WatchStep
from tests.differential.masking import Mask
from tests.support import kubectl as kubectl_runner
from tests.support.client import Client, Reply
from tests.support.https_server import HttpsServer
from tests.support.planes import USERS, Cluster

Record = dict[str, Any]
PATIENCE = 60.0
"""Seconds in which a server, on however busy a machine, does what it will do."""
HEADERS = ("content-type", "warning", "retry-after", "cache-control", "location", "vary", "allow")
_VARIABLE = re.compile(r"\$\{([\w.]+)\}")
_SHORT = re.compile(r"^(?:(?P<group>[\w.${}-]+/\w+):)?(?P<rest>.*)$")

_CLIENT_LOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""Lines kubectl's client library logs for itself, with times and process numbers; whether they come is a race."""


class CaseFailed(AssertionError):
    """A step could not be carried out at all."""


def run(case: Case, cluster: Cluster) -> list[Record]:
    with Run(case, cluster) as running:
        for step in case.steps:
            running.step(step)
        return running.records


def wait_until_gone(cluster: Cluster, case: Case, seconds: float = 60.0) -> None:
    """Until the namespace of an earlier run of the case is gone."""
    client = cluster.client("")
    deadline = time.monotonic() + seconds
    while client.get(f"/api/v1/namespaces/{case.slug}", user=USERS["admin"].token).status != 404:
        assert time.monotonic() < deadline, f"namespace {case.slug} does not go"
        time.sleep(0.2)
    client.close()


class Run:
    """One case on one cluster."""

    def __init__(self, case: Case, cluster: Cluster) -> None:
        self.case = case
        self.cluster = cluster
        self.client: Client = cluster.client("")
        self.mask = Mask(self.client.prefix)
        self.records: list[Record] = []
        self.variables: dict[str, str] = {"ns": case.slug, "slug": case.slug}
        self._servers: dict[str, HttpsServer] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Run":
        for name, behaviour in self.case.servers.items():
            server = self._stack.enter_context(HttpsServer(behaviour))
            self._servers[name] = server
            self.variables |= {f"{name}.url": server.url, f"{name}.ca": server.ca_bundle, f"{name}.port": str(server.port)}
        admin = USERS["admin"].token
        self.client.post("/api/v1/namespaces", {"metadata": {"name": self.case.slug}}, user=admin).expect(201)
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            self._until_found(f"/api/v1/namespaces/{self.case.slug}/{path}", admin)
        return self

    def __exit__(self, *_: object) -> None:
        admin = USERS["admin"].token
        for path in self.case.cleanup:
            self.client.delete(self.path(path), user=admin)
        self.client.delete(f"/api/v1/namespaces/{self.case.slug}", user=admin)
        self.client.close()
        self._stack.close()

    def _until_found(self, path: str, token: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.client.get(path, user=token).status != 200:
            if time.monotonic() > deadline:
                raise CaseFailed(f"{path} never appeared")
            time.sleep(0.01)

    def step(self, step: Step) -> None:
        match step:
            case Request():
                self._request(step)
            case WatchStep():
                self._watch(step)
            case Kubectl():
                self._kubectl(step)
            case Arrived():
                self._arrived(step)

    # Requests

    def _request(self, step: Request) -> None:
        reply = self._send(step)
        deadline = time.monotonic() + PATIENCE
        while not self._settled(step, _decoded(reply)):
            if time.monotonic() > deadline:
                raise CaseFailed(f"{step.title()}: never {_awaited(step)}: {reply.text[:2000]}")
            time.sleep(0.02)
            reply = self._send(step)
        body = _decoded(reply)
        for name, part in step.save.items():
            value = _part(body, part)
            if value is None:
                raise CaseFailed(f"{step.title()}: nothing at {part} to save: {reply.status} {reply.text[:2000]}")
            self.variables[name] = str(value)
            self.mask.remember(name, str(value))
        if not step.keep:
            if reply.status >= 400 and not _awaited(step):
                raise CaseFailed(f"{step.title()}: {reply.status} {reply.text[:2000]}")
            return
        masked = self.mask.value(body) if not isinstance(body, str) else self.mask.prose(body)
        self.records.append(
            {
                "step": step.title(),
                "status": reply.status,
                "headers": self._headers(reply.headers),
                "body": step.pick(masked) if step.pick else masked,
            }
        )

    @staticmethod
    def _settled(step: Request, body: Any) -> bool:
        """Whether the answer is the one the step waits for; most wait for none."""
        if step.not_yet is not None and body == step.not_yet:
            return False
        if step.present:
            return _part(body, step.present) is not None
        return step.until is None or _part(body, step.until[0]) == step.until[1]

    def _send(self, step: Request) -> Reply:
        return self.client.request(
            step.method,
            self.path(step.path),
            self.fill(step.body),
            query=self.fill(step.query),
            headers=self.fill(step.headers),
            content_type=step.content_type,
            accept=step.accept,
            user=_token(self.fill(step.user)),
        )

    def path(self, path: str) -> str:
        path = self.fill(path)
        if path.startswith("/"):
            return path
        found = _SHORT.match(path)
        assert found is not None
        root = f"/apis/{found['group']}" if found["group"] else "/api/v1"
        return f"{root}/namespaces/{self.variables['ns']}/{found['rest']}"

    def fill(self, value: Any) -> Any:
        """`value` with every `${name}` replaced, in keys too."""
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: self.variables[found[1]], value)
        if isinstance(value, bytes):
            return value
        if isinstance(value, Mapping):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill(item) for item in value]
        return value

    def _headers(self, headers: list[tuple[str, str]]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name in HEADERS:
            values = [self.mask.prose(value) for key, value in headers if key.lower() == name]
            if values:
                kept[name] = values if name == "warning" else values[0]
        return kept

    # Watches

    def _watch(self, step: WatchStep) -> None:
        path, query = self.path(step.path), self.fill(step.query)
        with self.client.watch(path, query, timeout=step.timeout, accept=step.accept, user=_token(step.user)) as stream:
            record: Record = {"step": step.title(), "status": stream.status, "headers": self._headers(stream.headers)}
            self.records.append(record)
            if stream.status != 200:
                record["body"] = self.mask.value(_decoded(stream.reply()))
                return
            for during in step.during:
                self.step(during)
            events = stream.take(step.take) if step.take is not None else list(_all(stream))
            record["events"] = [self.mask.value(event) for event in events]
            if step.take is None:
                record["ended"] = stream.ended_by_server

    # kubectl and own servers

    def _kubectl(self, step: Kubectl) -> None:
        arguments = self.fill(step.arguments)
        outcome = kubectl_runner.kubectl(
            self.cluster,
            *arguments,
            "--namespace",
            self.variables["ns"],
            input=self.fill(step.input),
            kubectl=step.kubectl,
            user=_token(step.user),
            environment=self.fill(step.environment),
        )
        out = self._kubectl_text(outcome.out)
        self.records.append(
            {
                "step": step.title(),
                "code": outcome.code,
                "out": step.pick(out) if step.pick else out,
                "err": self._kubectl_text(outcome.err),
            }
        )

    def _kubectl_text(self, text: str) -> list[str]:
        directory = str(self.cluster.kubeconfig.parent)
        said = "".join(line for line in text.splitlines(keepends=True) if not _CLIENT_LOG.match(line))
        lines = self.mask.prose(said.replace(directory, "<dir>")).splitlines()
        return [_GAP.sub("  ", _AGE.sub("<age>", line)).rstrip() for line in lines]

    def _arrived(self, step: Arrived) -> None:
        server = self._servers[step.server]
        deadline = time.monotonic() + PATIENCE
        while len(server.received) < step.count and time.monotonic() < deadline:
            time.sleep(0.01)
        requests = [
            {"method": r.method, "path": r.path, "peer": r.peer, "body": self.mask.value(_json_or_text(r.body))}
            for r in server.received
        ]
        self.records.append({"step": step.title(), "requests": step.pick(requests) if step.pick else requests})


# Columns are as wide as what stands in them, ages and generated names included.
_GAP = re.compile(r"(?<=\S) {2,}")
_AGE = re.compile(r"(?<![\w.:-])(?:\d+[smhd]){1,2}(?![\w.:-])")


def _awaited(step: Request) -> Any:
    """What the step repeats itself for, if anything."""
    return step.until or step.present or (step.not_yet and f"anything but {step.not_yet!r}")


def _token(user: str | None) -> str:
    """A static user by name, any other text as the token itself."""
    if not user:
        return ""
    return USERS[user].token if user in USERS else user


def _all(stream: Any) -> Iterator[Any]:
    yield from stream


def _decoded(reply: Reply) -> Any:
    kind = (reply.header("content-type") or "").partition(";")[0]
    if kind == "application/yaml":
        return yaml.safe_load(reply.body)
    return _json_or_text(reply.body)


def _json_or_text(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="backslashreplace")


def _part(value: Any, path: str) -> Any:
    """The part of `value` at a dotted path, all of it at none; `key=text` picks the list element that has it."""
    for name in path.split(".") if path else ():
        if isinstance(value, list) and "=" in name:
            key, _, wanted = name.partition("=")
            value = next((item for item in value if str(item.get(key)) == wanted), None)
        elif isinstance(value, list) and name.lstrip("-").isdigit():
            index = int(name)
            value = value[index] if -len(value) <= index < len(value) else None
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            return None
    return value
