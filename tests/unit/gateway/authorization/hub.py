"""A hub that writes down what it is asked, and requests as they come to the gateway."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from muster.http import Connection, Headers, Request, Response
from muster.kube.rbac import Rule
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import ALLOWED, NO_OPINION, AccessAttributes, AccessDecision

USER1 = UserInfo("user1", "u-1", ("team", "system:authenticated"), {"example.org/scope": ("s1",)})
GATEWAY = "proxy.open-cluster-management.io"


def rule(verbs: str, resources: str = "", groups: str = "", names: str = "", paths: str = "") -> Rule:
    raw: dict[str, Any] = {"verbs": verbs.split()}
    if paths:
        raw["nonResourceURLs"] = paths.split()
    else:
        raw |= {"apiGroups": groups.split() or [""], "resources": resources.split()}
    if names:
        raw["resourceNames"] = names.split()
    return Rule(raw)


def may_use(cluster: str, verbs: str = "get") -> Rule:
    return rule(verbs, "clustergateways/proxy", GATEWAY, cluster)


class RecordingHub:
    """An `Authorizer` with RBAC's way to read rules, all of them user1's."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules
        self.asked: list[tuple[UserInfo, AccessAttributes]] = []
        self.failure: Exception | None = None
        self.hangs = False

    async def authorize(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
        self.asked.append((who, asked))
        if self.failure is not None:
            raise self.failure
        if self.hangs:
            await asyncio.Event().wait()
        return ALLOWED if any(one.allows(asked) for one in self.rules) else NO_OPINION

    @property
    def questions(self) -> list[AccessAttributes]:
        return [asked for _, asked in self.asked]


def request(headers: Mapping[str, str] | None = None, *, body: bytes = b"", media: str = "application/json") -> Request:
    raw = [(name.encode(), value.encode()) for name, value in {"content-type": media, **(headers or {})}.items()]
    return Request("POST" if body else "GET", "/", Headers(raw), Connection(("127.0.0.1", 1), "https"), received=0.0, body=body)


def resource(verb: str, name_of_resource: str, /, **fields: Any) -> RequestInfo:
    return RequestInfo(True, "", verb, version="v1", resource=name_of_resource, **fields)


def path(text: str, verb: str = "get") -> RequestInfo:
    return RequestInfo(False, text, verb)


def content(answer: Response) -> Any:
    assert isinstance(answer.body, bytes)
    return orjson.loads(answer.body)
