"""How long a cluster has to begin its answer.

What kube-apiserver itself calls long-running (watches, proxied requests, logs, exec, attach, port-forward) has no limit, nor has an
upgrade. All else must begin within the time that the client has asked for (`timeout`, or `timeoutSeconds` of lists), and a little
more, so that it is the cluster who says that it was too long; or within a time of ours if the client has not asked.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_plus

from muster.kube.request_info import RequestInfo
from muster.machinery.golang.durations import parse_duration

HEAD_TIMEOUT: Final = 60.0
GRACE: Final = 5.0
LONGEST: Final = 3600.0

_LONG_VERBS: Final = frozenset({"watch", "proxy"})
_LONG_SUBRESOURCES: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def is_long_running(inner: RequestInfo) -> bool:
    return inner.is_resource and (inner.verb in _LONG_VERBS or inner.subresource in _LONG_SUBRESOURCES)


def head_timeout(query: str, default: float = HEAD_TIMEOUT) -> float:
    """Of a request that is not long-running."""
    if "timeout" not in query:
        return default
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        seconds = _seconds(name, unquote_plus(value)) if name in ("timeout", "timeoutSeconds") else 0.0
        if seconds > 0:
            return min(seconds, LONGEST) + GRACE
    return default


def _seconds(name: str, value: str) -> float:
    try:
        return float(int(value[:9])) if name == "timeoutSeconds" else parse_duration(value) / 1e9
    except ValueError:
        return 0.0
