"""Values written as YAML. Follows yaml.v3's encoder and emitter, with its defects where they show.

Block style throughout, keys in natural order, no line ever folded. Lists are indented under their key. How a string is written is
decided in `styles`; what is here puts lines together: every entry of a map or list starts with the prefix it is given (the
indentation, or the `- ` of the list it begins), and the following ones with the indentation alone.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang.time import Duration, Time
from muster.gotemplate.golang.yaml.errors import YAMLError
from muster.gotemplate.golang.yaml.order import sorted_keys
from muster.gotemplate.golang.yaml.styles import is_simple, is_utf8, literal, styled
from muster.gotemplate.limits import charge, charge_size
from muster.gotemplate.values import Float32, Missing, Struct, go_type
from muster.machinery.golang.numbers import format_float
from muster.machinery.golang.text import encode
from muster.machinery.golang.unicode import lower

MAX_DEPTH: Final = 200
_LONGEST_SIMPLE_KEY: Final = 128
_BASE64_LINE: Final = 70
_BINARY: Final = "!!binary"
_INFINITIES: Final = {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}


def dump(value: Any, *, indent: int = 2) -> str:
    """The value as a YAML document. Raises YAMLError for what has no YAML form, LimitExceeded for values nested too deeply."""
    writer = _Writer(indent)
    writer.document(value)
    text = "".join(writer.out)
    charge_size(len(text))
    return text


class _Writer:
    def __init__(self, indent: int) -> None:
        self.out: list[str] = []
        self.step = indent
        self.depth = 0

    def document(self, value: Any) -> None:
        self._node(_plain(value), "", 0, self.step)

    def _node(self, value: Any, prefix: str, indent: int, scalar_indent: int) -> None:
        """A value that starts on the line of the prefix; entries and items have this indentation, lines of scalars that one."""
        cls = value.__class__
        if (cls is dict or cls is _Fields) and value:
            self._entries(value, indent, prefix)
        elif cls is list and value:
            self._items(value, indent, prefix)
        else:
            self.out.append(prefix + self._scalar(value, scalar_indent))

    def _enter(self, size: int) -> None:
        charge(size)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitExceeded("the value to write as YAML is nested too deeply")

    def _entries(self, entries: dict[Any, Any], indent: int, prefix: str) -> None:
        self._enter(len(entries))
        padding = " " * indent
        inner = self.step * ((indent + self.step) // self.step)
        keys: Iterable[Any] = entries if entries.__class__ is _Fields else sorted_keys(entries)
        for key in keys:
            value = entries[key]
            if key.__class__ is str and len(key) <= _LONGEST_SIMPLE_KEY and is_simple(key):
                name = prefix + key + ":"
            elif self._is_simple_key(key := _plain(key)):
                name = prefix + self._scalar(key, inner)[:-1] + ":"
            else:
                self.out.append(f"{prefix}? {self._scalar(key, inner)}")
                self._node(_plain(value), (padding + ":").ljust(inner), inner, inner)
                prefix = padding
                continue
            prefix = padding
            if value.__class__ is str and is_simple(value):
                self.out.append(f"{name} {value}\n")
                continue
            value = _plain(value)
            if value and value.__class__ in _COLLECTIONS:
                self.out.append(name + "\n")
                self._node(value, " " * inner, inner, inner)
            else:
                self.out.append(f"{name} {self._scalar(value, inner)}")
        self.depth -= 1

    @staticmethod
    def _is_simple_key(key: Any) -> bool:
        """Whether the key stands before a colon, and not, for it is long or has several lines, after a question mark."""
        if key.__class__ is not str:
            return True
        if not is_utf8(key):
            encoded = _base64(encode(key))
            return len(encoded) + len(_BINARY) <= _LONGEST_SIMPLE_KEY and "\n" not in encoded
        return len(key.encode()) <= _LONGEST_SIMPLE_KEY and not any(char in key for char in "\n\r\x85\u2028\u2029")

    def _items(self, items: list[Any], indent: int, prefix: str) -> None:
        self._enter(len(items))
        padding = " " * indent
        for item in items:
            if item.__class__ is str and is_simple(item):
                self.out.append(f"{prefix}- {item}\n")
            else:
                self._node(_plain(item), prefix + "- ", indent + 2, indent + 2)
            prefix = padding
        self.depth -= 1

    def _scalar(self, value: Any, indent: int) -> str:
        """A scalar or an empty collection with its line end; further lines have this indentation."""
        cls = value.__class__
        if cls is str:
            return styled(value, indent, self.step) if is_utf8(value) else _binary(value, indent, self.step)
        if value is None:
            return "null\n"
        if cls is bool:
            return "true\n" if value else "false\n"
        if cls is int:
            return f"{value}\n"
        if cls is float or cls is Float32:
            written = format_float(value, "g", -1, 32 if cls is Float32 else 64)
            return _INFINITIES.get(written, written) + "\n"
        if cls is Time:
            return f"{value.marshal_json()}\n"
        return "[]\n" if cls is list else "{}\n"


class _Fields(dict[str, Any]):
    """The fields of a struct, in its order."""


_COLLECTIONS: Final = (dict, list, _Fields)


def _plain(value: Any) -> Any:
    """The value as one of the few types that are written."""
    cls = value.__class__
    if cls is str or cls is dict or cls is list or cls is int or cls is bool or value is None:
        return value
    if cls is Missing:
        return None
    if isinstance(value, Duration):
        return value.go_string()
    if cls is Time or isinstance(value, float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (list, tuple, bytes)):
        return list(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Struct):
        return _Fields((lower(name), item) for name, item in value.fields.items() if name[:1].isupper())
    if hasattr(value, "marshal_json"):
        return value.marshal_json()
    raise YAMLError(f"yaml marshal error: cannot marshal type: {go_type(value)}")


def _base64(data: bytes) -> str:
    encoded = base64.b64encode(data).decode()
    if len(encoded) < _BASE64_LINE:
        return encoded
    return "".join(encoded[at : at + _BASE64_LINE] + "\n" for at in range(0, len(encoded), _BASE64_LINE))


def _binary(text: str, indent: int, step: int) -> str:
    encoded = _base64(encode(text))
    return f"{_BINARY} {literal(encoded, indent, step) if encoded[-1] == chr(10) else encoded + chr(10)}"
