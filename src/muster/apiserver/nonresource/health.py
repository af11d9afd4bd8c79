"""The endpoints /version, /healthz, /livez and /readyz."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

import orjson

from muster.apiserver.context import Context
from muster.apiserver.presentation.negotiation import JSON, check_produced
from muster.http import Response

VERSION = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.0+muster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-11-15T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": platform.python_implementation().lower(),
    "platform": f"{platform.system().lower()}/{platform.machine().lower().replace('x86_64', 'amd64').replace('aarch64', 'arm64')}",
}
Check = Callable[[], str | None]
"""Returns None if healthy, else the problem."""


class Health:
    """`checks` decide about liveness, together with `readiness` about readiness."""

    def __init__(self, checks: Mapping[str, Check], readiness: Mapping[str, Check] | None = None) -> None:
        self._checks = dict(checks)
        self._readiness = {**checks, **(readiness or {})}

    def serve(self, ctx: Context) -> Response | None:
        path = ctx.attributes.path.rstrip("/")
        if path == "/version":
            check_produced(ctx.accept, JSON)
            return Response(200, orjson.dumps(VERSION), (), JSON)
        for endpoint in ("/healthz", "/livez", "/readyz"):
            if path == endpoint or path.startswith(endpoint + "/"):
                return self._report(ctx, endpoint, path[len(endpoint) + 1 :])
        return None

    def _report(self, ctx: Context, endpoint: str, only: str) -> Response | None:
        checks = self._readiness if endpoint == "/readyz" else self._checks
        if only and only not in checks:
            return None
        excluded = set(ctx.query.getall("exclude"))
        names = [only] if only else [name for name in checks if name not in excluded]
        results = {name: checks[name]() for name in names}
        failed = {name: problem for name, problem in results.items() if problem is not None}
        if not failed and "verbose" not in ctx.query.values:
            return Response(200, b"ok", (), "text/plain; charset=utf-8")
        lines = [f"[+]{name} ok" if problem is None else f"[-]{name} failed: {problem}" for name, problem in results.items()]
        lines.append(f"{endpoint[1:]} check {'failed' if failed else 'passed'}\n")
        return Response(500 if failed else 200, "\n".join(lines).encode(), (), "text/plain; charset=utf-8")
