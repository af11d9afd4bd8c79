"""Timeouts for the beginning of a cluster's answer.

Requests that kube-apiserver treats as long-running (watches, proxied requests, logs, exec, attach, port-forward) have none, nor
have upgrades. Any other request has the timeout that the client has set (`timeout`, or `timeoutSeconds` of lists), plus a little
more so that the cluster itself reports the timeout; or the default if the client has set none.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_plus

from muster.kube.request_info import RequestInfo
from muster.machinery.golang.durations import parse_duration

HEAD_TIMEOUT: Final = 60.0
ANSWER_GRACE: Final = 5.0
MAX_TIMEOUT: Final = 3600.0

_LONG_VERBS: Final = frozenset({"watch", "proxy"})
_LONG_SUBRESOURCES: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def is_long_running(inner: RequestInfo) -> bool:
    return inner.is_resource and (inner.verb in _LONG_VERBS or inner.subresource in _LONG_SUBRESOURCES)


def head_timeout(query: str, default: float = HEAD_TIMEOUT) -> float:
    """The timeout of a request that is not long-running."""
    if "timeout" not in query:
        return default
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        seconds = _seconds(name, unquote_plus(value)) if name in ("timeout", "timeoutSeconds") else 0.0
        if seconds > 0:
            return min(seconds, MAX_TIMEOUT) + ANSWER_GRACE
    return default


def _seconds(name: str, value: str) -> float:
    try:
        return float(int(value[:9])) if name == "timeoutSeconds" else parse_duration(value) / 1e9
    except ValueError:
        return 0.0
