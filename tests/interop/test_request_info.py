"""Random requests, read by us and by kube-apiserver's own code: every field of what is read must be equal.

`python -m tests.interop.test_request_info SEED COUNT` compares any number.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from muster.kube.request_info import request_info
from tests.interop.oracle_program import Oracle

ORACLE = Oracle("requestinfo")
METHODS = (
    "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "CONNECT", "get",
)  # fmt: skip
PREFIXES = (
    "/api/v1", "/api/v1", "/apis/apps/v1", "/apis/apps/v1", "/api", "/apis", "/apis/apps", "/API/v1", "/%61pi/v1", "",
    "//api/v1", "/api//v1",
)  # fmt: skip
SEGMENTS = (
    "namespaces", "namespaces", "pods", "secrets", "nodes", "watch", "proxy", "status", "finalize", "log", "default", "x",
    "api", "v1", "", "", ".", "..", "%2e%2e", "%2E", "a%2Fb", "%2f", "%5c", "\\", "%00", "%0a", "%7F", "%20", " ", "+", "%2B",
    "%25", "%252e", "é", "%C3%A9", "%c3", "%ff", "%zz", "%", "%2", "%%", "#", ";", "=", "&", "@", ":", "https:x:443", "*",
    "wat%63h", "Watch", "n" * 300,
)  # fmt: skip
NAMES = (
    "x", "a.b", "", ".", "..", "a/b", "a%b", "a b", "é", "\u0130", "a\\,b", "a\\=b", "a\\\\b", "a\\b", "a,b", "a=b", "\x00",
    "\ufffd", "\U00010000", "*", "n" * 260,
)  # fmt: skip
FIELDS = (
    "metadata.name", "metadata.name", "metadata.name", "metadata.namespace", "status.phase", " metadata.name",
    "metadata.name ", "",
)  # fmt: skip
OPERATORS = ("=", "=", "==", "!=", "===", "<", "", "!")
LABELS = (
    "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "!a", "a", "", ",", "a,", "a=b,c=d", "a in b", "a in ()", "a in (,)",
    "a>1", "a>x", "a<", "é=b", "a=é", "-a=b", "a=-b", "k/e/y=v", "a" * 64, "a=" + "b" * 64, "a=b\x00", "a\x00=b", "\x00!!",
    "a in (b", "a in (b\x00)", "!", "!!a", "a b", "in in (in)", " a = b ", "a=b=c", "(", "a=(",
)  # fmt: skip
NUMBERS = ("1", "0", "-1", "+5", "", "x", "1.5", "9223372036854775807", "9223372036854775808", "1_0", " 1", "0x1", "\u0661", "00")
BOOLEANS = ("true", "1", "", "0", "false", "False", "FALSE", "fal\u017fe", "no", "00", " false", "f", "yes")
KEYS = (
    "watch", "watch", "fieldSelector", "fieldSelector", "labelSelector", "limit", "timeoutSeconds", "resourceVersion",
    "continue", "allowWatchBookmarks", "sendInitialEvents", "resourceVersionMatch", "Watch", "FieldSelector", "x", "",
    "watch ", "dryRun",
)  # fmt: skip


class Requests:
    """A stream of requests of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> tuple[str, str, str]:
        return self.random.choice(METHODS), self.path(), self.query()

    def path(self) -> str:
        pick = self.random.choice
        # Odd segments are drawn from the whole list; most paths have none, so that they are understood to their end.
        usual = SEGMENTS[:14]
        odd = self.random.random() < 0.4
        count = self.random.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 7))
        path = "/".join((pick(PREFIXES), *(pick(SEGMENTS if odd else usual) for _ in range(count))))
        return (path or "/") + pick(("", "", "", "", "/", "//"))

    def query(self) -> str:
        if self.random.random() < 0.3:
            return ""
        pairs = [self.pair() for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
        return self.random.choice(("&", "&", "&", "&", "&", "&&", ";")).join(pairs)

    def pair(self) -> str:
        key = self.random.choice(KEYS)
        name, value = self.encoded(key), self.encoded(self.value(key))
        spoiled = self.random.choice(("", "", "", "", "", "", "", "", "", "%", "%zz", "%ff", ";"))
        return self.random.choice(
            (f"{name}={value}",) * 8 + (name, f"{name}={value}={value}", f"{spoiled}{name}={value}", f"{name}={value}{spoiled}")
        )

    def value(self, key: str) -> str:
        pick = self.random.choice
        if key == "fieldSelector":
            terms = [pick(FIELDS) + pick(OPERATORS) + pick(NAMES) for _ in range(pick((1, 1, 1, 2, 2, 3)))]
            return pick((",", ",", ",", ",,", "\\,", ", ")).join(terms)
        if key == "labelSelector":
            return pick(LABELS)
        if key in ("limit", "timeoutSeconds"):
            return pick(NUMBERS)
        return pick(BOOLEANS)

    def encoded(self, text: str) -> str:
        way = self.random.random()
        if way < 0.6:
            return quote(text, safe="")
        if way < 0.8:
            return quote(text, safe="=,!()+/").replace("%20", "+")
        return text.translate({ord(odd): quote(odd) for odd in "&?#%+;\x00"})


def ours(method: str, path: str, query: str) -> dict[str, Any] | None:
    try:
        found = msgspec.to_builtins(request_info(method, path, query))
    except ValueError:
        return None
    del found["verb_in_path"]
    return {**found, "parts": list(found["parts"])}


def compare(seed: int, count: int) -> tuple[int, list[str]]:
    """How many both refuse to read, and the requests that are not read alike."""
    requests = Requests(seed)
    asked = [requests.make() for _ in range(count)]
    questions = ({"method": method, "target": path + ("?" + query if query else "")} for method, path, query in asked)
    refused, different = 0, []
    for request, theirs in zip(asked, ORACLE.play(questions), strict=True):
        found = ours(*request)
        wanted = None if "error" in theirs else {**theirs, "parts": theirs["parts"] or []}
        refused += wanted is None
        if found != wanted:
            different.append(f"{request}\n  ours   {found}\n  theirs {theirs}")
    return refused, different


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not ORACLE.binary().exists():
        pytest.skip("the requestinfo oracle is not built: make -C peers/requestinfo")


def test_requests_are_read_as_kube_apiserver_reads_them() -> None:
    refused, different = compare(seed=17, count=2_000)
    assert not different, "\n".join(different[:5])
    # A stream of unreadable requests would prove nothing.
    assert 0 < refused < 400


def main() -> None:
    seed, count = (int(argument) for argument in sys.argv[1:3])
    started = time.monotonic()
    refused, different = compare(seed, count)
    print("\n".join(different[:20]))
    print(f"{count} requests, {refused} of them unreadable, {len(different)} different; {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
