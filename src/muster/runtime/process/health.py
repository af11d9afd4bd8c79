"""The health endpoints of a process: `/healthz` and `/livez` (liveness), `/readyz` (readiness), `/metrics`.

Checks are named functions that return None if all is well, or the problem. Responses are like kube-apiserver's: `ok`, a list with
`?verbose`, one check at `/readyz/<name>`, `?exclude=` to skip one. Problems are logged, and the verbose list has only the names of
failed checks: these pages need no authentication.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from urllib.parse import parse_qs

from muster.http import HttpServer, Request, Response
from muster.machinery.logs import get_logger
from muster.machinery.metrics import CONTENT_TYPE, Metrics

log = get_logger("muster.runtime.process.health")

Check = Callable[[], str | None]
_TEXT = "text/plain; charset=utf-8"


class HealthServer:
    def __init__(self, metrics: Metrics | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._metrics = metrics
        self._live: dict[str, Check] = {"ping": lambda: None}
        self._ready: dict[str, Check] = {}
        self._failing: dict[str, str] = {}
        self._passed: set[str] = set()
        """Until a check has passed once, the process is starting, and its failure is not logged as a warning."""
        self._http = HttpServer(self._handle, tls=tls, reads_bodies=True)  # and has no use for any

    def live(self, name: str, check: Check) -> None:
        """Liveness: a process that fails this check is to be restarted."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Readiness: a process that fails this check cannot work now."""
        self._ready[name] = check

    async def start(self, host: str = "0.0.0.0", port: int = 8081) -> None:
        await self._http.start(host, port)

    @property
    def port(self) -> int:
        return self._http.port

    async def stop(self, grace: float = 1.0) -> None:
        await self._http.stop(grace)

    async def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", content_type=_TEXT)
        if request.path == "/metrics" and self._metrics is not None:
            return Response(200, self._metrics.render(), content_type=CONTENT_TYPE)
        page, _, name = request.path.lstrip("/").partition("/")
        checks = {"healthz": self._live, "livez": self._live, "readyz": {**self._live, **self._ready}}.get(page)
        if checks is None or (name and name not in checks):
            return Response(404, b"404 page not found\n", content_type=_TEXT)
        query = parse_qs(request.query, keep_blank_values=True)
        chosen = {name: checks[name]} if name else {n: c for n, c in checks.items() if n not in query.get("exclude", ())}
        return self._answer(page, chosen, verbose="verbose" in query)

    def _answer(self, page: str, checks: dict[str, Check], *, verbose: bool) -> Response:
        failed = {name for name, check in checks.items() if self._fails(name, check)}
        lines = [f"[-]{name} failed: reason withheld" if name in failed else f"[+]{name} ok" for name in checks]
        if failed:
            return Response(500, "\n".join([*lines, f"{page} check failed", ""]).encode(), content_type=_TEXT)
        text = "\n".join([*lines, f"{page} check passed", ""]) if verbose else "ok"
        return Response(200, text.encode(), content_type=_TEXT)

    def _fails(self, name: str, check: Check) -> bool:
        try:
            problem = check()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is None:
            self._failing.pop(name, None)
            self._passed.add(name)
            return False
        if self._failing.get(name) != problem:
            self._failing[name] = problem
            if name in self._passed:
                log.warning("check fails", check=name, problem=problem)
            else:
                log.info("check does not pass yet", check=name, problem=problem)
        return True
