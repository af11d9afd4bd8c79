"""Go's `path` package (and `path/filepath` on Unix, which agrees with it for these functions)."""

from __future__ import annotations


def clean(path: str) -> str:
    if not path:
        return "."
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    text = "/".join(parts)
    return "/" + text if rooted else text or "."


def base(path: str) -> str:
    if not path:
        return "."
    path = path.rstrip("/")
    return path[path.rfind("/") + 1 :] if path else "/"


def dir_(path: str) -> str:
    return clean(path[: path.rfind("/") + 1])


def ext(path: str) -> str:
    name = path[path.rfind("/") + 1 :]
    return name[name.rfind(".") :] if "." in name else ""


def is_abs(path: str) -> bool:
    return path.startswith("/")
