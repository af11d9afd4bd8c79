"""sprig's URLs, paths and host names."""

from __future__ import annotations

import random
import socket
from typing import Any

from muster.gotemplate.golang import path
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import ANY_MAP, kind
from muster.machinery.golang import urls
from muster.machinery.golang.errors import GoError

WEB = FuncTable()

for _prefix in ("", "os"):
    for _name, _function, _result in (
        ("base", path.base, "string"),
        ("dir", path.dir_, "string"),
        ("clean", path.clean, "string"),
        ("ext", path.ext, "string"),
        ("isAbs", path.is_abs, "bool"),
    ):
        WEB.add(_prefix + (_name[0].upper() + _name[1:] if _prefix else _name), "string", _result)(_function)


@WEB.add("urlParse", "string", ANY_MAP)
def url_parse(text: str) -> dict[str, Any]:
    try:
        parsed = urls.parse_url(text)
    except GoError as error:
        raise GoError(f"unable to parse url: {error}") from None
    return {
        "scheme": parsed.scheme,
        "host": parsed.host,
        "hostname": parsed.hostname(),
        "path": parsed.path,
        "query": parsed.query,
        "opaque": parsed.opaque,
        "fragment": parsed.fragment,
        "userinfo": parsed.userinfo(),
    }


def _part(parts: dict[str, Any], key: str) -> str:
    if key not in parts:
        return ""
    value = parts[key]
    if value is None:
        raise GoError("runtime error: invalid memory address or nil pointer dereference")
    if not isinstance(value, str):
        raise GoError(f"unable to parse {key} key, must be of type string, but {kind(value)} found")
    return value


@WEB.add("urlJoin", "map", "string")
def url_join(parts: dict[str, Any]) -> str:
    made = urls.URL(
        scheme=_part(parts, "scheme"), host=_part(parts, "host"), path=_part(parts, "path"),
        query=_part(parts, "query"), opaque=_part(parts, "opaque"), fragment=_part(parts, "fragment"),
    )  # fmt: skip
    userinfo = _part(parts, "userinfo")
    if userinfo:
        try:
            made.user = urls.parse_url(f"proto://{userinfo}@host").user
        except GoError as error:
            raise GoError(f"unable to parse userinfo in dict: {error}") from None
    return str(made)


@WEB.add("getHostByName", "string", "string")
def get_host_by_name(name: str) -> str:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        # Go picks from an empty list here and panics.
        raise GoError("invalid argument to Intn") from None
    return random.SystemRandom().choice(sorted(found))
