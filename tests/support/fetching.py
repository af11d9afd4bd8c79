"""One request to any HTTP server, whatever it answers."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

from muster.http import UpstreamPool
from muster.http.upstream import encode_request


async def fetch(url: str, method: str = "GET", body: bytes = b"", trust: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """The status and body of the answer."""
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    asked = encode_request(method, target, [("Host", parts.netloc), ("Connection", "close")], body)
    pool = UpstreamPool()
    try:
        answer, content = await pool.request((parts.hostname, parts.port, trust, None), asked, timeout=10, repeat=False)
    finally:
        pool.close()
    return answer.status, content
