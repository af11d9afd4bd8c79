"""The types of the HTTP layer: received heads and bodies, and the three kinds of responses.

A handler takes a `Request` and returns a `Response` (complete), a `StreamResponse` (head now, body streamed) or a `Takeover` (the
handler owns the socket, after an Upgrade or CONNECT). Received header fields stay bytes until they are read; names are found in
lower case. The request target is kept unchanged (`target`, `raw_path`, `query`), because authorization must use exactly the string
that is served or forwarded; `path` is its percent-decoded form, and a target that cannot be decoded (invalid escape, not UTF-8) is
refused before any handler runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from muster.machinery.golang.urls import decode_path

if TYPE_CHECKING:
    from muster.http.stream import BodyStream, RawConnection, StreamWriter

_KNOWN_NAMES: dict[bytes, str] = {}
_KNOWN_NAMES_LIMIT = 1024


def _lower_name(raw: bytes) -> str:
    name = raw.decode("latin-1").lower()
    if len(_KNOWN_NAMES) < _KNOWN_NAMES_LIMIT:
        _KNOWN_NAMES[raw] = name
    return name


class Headers:
    """Received header fields. A repeated field reads as one comma-joined value, so a repeated singleton (two Authorization fields)
    never silently becomes one of the two; `getall` returns them separately."""

    __slots__ = ("_joined", "raw")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.raw = raw
        joined: dict[str, bytes] = {}
        for raw_name, value in raw:
            name = _KNOWN_NAMES.get(raw_name) or _lower_name(raw_name)
            earlier = joined.get(name)
            joined[name] = value if earlier is None else earlier + b", " + value
        self._joined = joined

    def get(self, name: str, default: str | None = None) -> str | None:
        """The value of a field by its lower-case name; repeated fields are joined by a comma."""
        value = self._joined.get(name)
        return default if value is None else value.decode("latin-1")

    def getall(self, name: str) -> list[str]:
        return [value.decode("latin-1") for raw_name, value in self.raw if _lowered(raw_name) == name]

    def items(self) -> Iterable[tuple[str, str]]:
        """Each field as received: lower-case name and value, in order, with repeated ones."""
        return [(_lowered(name), value.decode("latin-1")) for name, value in self.raw]

    def any_starts(self, prefix: str) -> bool:
        """Whether a field's lower-case name starts with the prefix."""
        for name in self._joined:  # noqa: SIM110  # a plain loop: this is asked of every request
            if name.startswith(prefix):
                return True
        return False

    def __contains__(self, name: object) -> bool:
        return name in self._joined

    def __len__(self) -> int:
        return len(self.raw)


def _lowered(raw_name: bytes) -> str:
    return _KNOWN_NAMES.get(raw_name) or _lower_name(raw_name)


class Connection:
    """One accepted TCP or TLS connection; `memo` is for handlers (e.g. the authenticated user).

    `owner` is the authenticated user: of the client certificate, or as set by a handler. Limits are counted by owner; a connection
    without one is the first to be closed at a limit, and is counted by its address. `peer_certificate` is the DER of a client
    certificate that chained to the configured client CAs, else None; `peer_chain` is leaf first. `foreign_certificate` is the DER
    of one that did not chain (see tls.py): never an identity.
    """

    __slots__ = ("_memo", "foreign_certificate", "owner", "peer_certificate", "peer_chain", "remote", "scheme")

    def __init__(self, remote: tuple[str, int], scheme: Literal["http", "https"]) -> None:
        self.remote = remote
        self.scheme = scheme
        self.peer_certificate: bytes | None = None
        self.peer_chain: tuple[bytes, ...] = ()
        self.foreign_certificate: bytes | None = None
        self.owner: Hashable | None = None
        self._memo: dict[str, Any] | None = None

    @property
    def memo(self) -> dict[str, Any]:
        if self._memo is None:
            self._memo = {}
        return self._memo


class Request:
    __slots__ = (
        "body",
        "body_stream",
        "connection",
        "headers",
        "keep_alive",
        "method",
        "path",
        "query",
        "raw_path",
        "received",
        "target",
        "upgrade",
        "version",
    )

    def __init__(
        self,
        method: str,
        target: str,
        headers: Headers,
        connection: Connection,
        *,
        received: float,
        version: str = "1.1",
        keep_alive: bool = True,
        upgrade: bool = False,
        body: bytes = b"",
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.connection = connection
        self.received = received
        self.version = version
        self.keep_alive = keep_alive
        self.upgrade = upgrade
        """Requests to leave HTTP (Upgrade without a body, or CONNECT): only such a request may be answered by a Takeover."""
        self.body = body
        """The received body; complete unless there is a `body_stream`."""
        self.body_stream: BodyStream | None = None
        """The incomplete body of a request that was dispatched before all of it arrived."""
        if target.startswith("/"):
            self.raw_path, _, self.query = target.partition("?")
        else:
            self.raw_path, self.query = _split_other_form(method, target)
        self.path = decode_path(self.raw_path)

    async def read_body(self) -> bytes:
        """The whole body, which is `body` from then on; waits for the rest. Raises BodyRefused."""
        if self.body_stream is not None:
            self.body = await self.body_stream.read_whole()
            self.body_stream = None
        return self.body


def _split_other_form(method: str, target: str) -> tuple[str, str]:
    """Path and query of the absolute, authority and asterisk forms."""
    if method == "CONNECT":
        return "", ""
    if target == "*":
        return "*", ""
    scheme, found, rest = target.partition("://")
    if not found or scheme.lower() not in ("http", "https"):
        raise ValueError(f"unsupported request target {target[:80]!r}")
    slash, question = rest.find("/"), rest.find("?")
    if slash < 0 or 0 <= question < slash:
        return "/", rest[question + 1 :] if question >= 0 else ""
    path, _, query = rest[slash:].partition("?")
    return path, query


HeaderFields = Sequence[tuple[str, str]]


class Response:
    """A complete answer. A body given in pieces is sent without being joined into one copy first."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes | Sequence[bytes] = b"",
        headers: HeaderFields = (),
        content_type: str | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.headers = headers
        self.content_type = content_type


class StreamResponse:
    """A head that goes out at once and a body written by `run`; chunked, or raw if its `length` is known.

    If `run` raises, the connection is cut without an end marker, so that the client never takes a torn body for whole.
    `discard` is called instead of `run` where the body is not wanted (HEAD, or the client has gone already).
    """

    __slots__ = ("discard", "headers", "length", "run", "status")

    def __init__(
        self,
        status: int,
        headers: HeaderFields,
        run: Callable[[StreamWriter], Awaitable[None]],
        *,
        length: int | None = None,
        discard: Callable[[], None] | None = None,
    ) -> None:
        self.status = status
        self.headers = headers
        self.run = run
        self.length = length
        self.discard = discard


class Takeover:
    """The handler speaks on the socket itself, its 101 included; the connection is closed when `run` ends.

    `discard` is called instead of `run` if the client has gone already.
    """

    __slots__ = ("discard", "run")

    def __init__(self, run: Callable[[RawConnection], Awaitable[None]], *, discard: Callable[[], None] | None = None) -> None:
        self.run = run
        self.discard = discard


Answer = Response | StreamResponse | Takeover
Handler = Callable[[Request], Awaitable[Answer]]


def has_length(response: Response) -> bool:
    """Whether its body has a known length."""
    return any(name.lower() == "content-length" for name, _ in response.headers)


def discard(answer: Any) -> None:
    """Notify a response whose `run` will never be called."""
    if isinstance(answer, StreamResponse | Takeover) and answer.discard is not None:
        answer.discard()


def encode_chunk(payload: bytes) -> bytes:
    """`payload` as one chunk of the chunked coding, ready for StreamWriter.write_framed on any number of connections."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def decode_chunks(framed: bytes) -> bytes:
    """The payload of one or more chunks made by `encode_chunk` (for clients that do not know the chunked coding)."""
    parts, position = [], 0
    while position < len(framed):
        line_end = framed.index(b"\r\n", position)
        size = int(framed[position:line_end], 16)
        parts.append(framed[line_end + 2 : line_end + 2 + size])
        position = line_end + 2 + size + 2
    return b"".join(parts)


_STATUS_LINES = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n" for status in HTTPStatus}


def encode_head(status: int, headers: HeaderFields, content_type: str | None, tail: str) -> bytes:
    """A response head up to and including `tail`, which holds the framing fields. Refuses fields that would inject others."""
    line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n"
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    lines = len(headers)
    if content_type is not None:
        fields += f"Content-Type: {content_type}\r\n"
        lines += 1
    if fields.count("\n") != lines or fields.count("\r") != lines or "\0" in fields:
        raise ValueError("a response header field contains a line break or NUL")
    return (line + fields + tail).encode("latin-1")
