"""Go's `fmt`: how values print, and Sprint and Sprintln (Sprintf is in `printf.py`).

`Printer` holds the flags of one directive and appends to a list of parts, as Go's `pp` does with its buffer. A value
with a `go_string()` method prints through it under %v %s %x %X %q (Go's Stringer). Printing charges the running
execution for every element, so a value that contains itself ends in a limit, not in the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang.verbs import Verbs
from muster.gotemplate.limits import charge
from muster.gotemplate.values import (
    INT_KINDS,
    UINT_KINDS,
    Float32,
    Map,
    Missing,
    Slice,
    Struct,
    go_type,
    is_interface_container,
    kind,
)
from muster.machinery.golang import numbers
from muster.machinery.golang.text import encode, joined

_MAX_NESTING = 200


def sort_key(key: Any) -> tuple[int, Any]:
    """Orders map keys as internal/fmtsort does: bytewise strings, numbers by value, false before true."""
    if isinstance(key, str):
        return 2, encode(key)
    if isinstance(key, (int, float)):
        return 1, key
    return 3, str(key)


def _ascii_key(item: tuple[Any, Any]) -> Any:
    return item[0]


def sorted_items(mapping: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The entries in Go's order."""
    try:
        if "".join(mapping).isascii():
            return sorted(mapping.items(), key=_ascii_key)
    except TypeError:
        pass
    return sorted(mapping.items(), key=lambda item: sort_key(item[0]))


class Printer(Verbs):
    """Prints any value."""

    __slots__ = ()

    def arg(self, value: Any, verb: str) -> None:
        if value is None or value.__class__ is Missing:
            if verb in "Tv":
                self.pad("<nil>")
            else:
                self.bad_verb(verb, None, is_nil=True)
        elif verb == "T":
            self.string(go_type(value), "s", value)
        elif verb == "p":
            self._pointer(value)
        else:
            self.value(value, verb, 0)

    def _pointer(self, value: Any) -> None:
        if kind(value) not in ("slice", "map", "func", "ptr"):
            self.bad_verb("p", value)
            return
        self.sharp = not self.sharp
        self._digits(id(value), 16, "v")

    def value(self, value: Any, verb: str, depth: int) -> None:
        cls = value.__class__
        if cls is str:
            self.string(value, verb, value)
        elif cls is bool:
            self.boolean(value, verb)
        elif cls is int:
            self.integer(value, False, verb, value)
        elif cls is float:
            self.floating(value, verb, 64, value)
        elif value is None:
            self.out.append("interface {}(nil)" if self.sharp_v and depth else "<nil>")
        elif cls is list or cls is tuple or cls is Slice:
            self._sequence(value, go_type(value), verb, depth)
        elif cls is dict or cls is Map:
            self._mapping(value, verb, depth)
        elif hasattr(value, "go_string") and not self.erroring and not self.sharp_v and verb in "vsxXq":
            self.string(value.go_string(), verb, value)
        else:
            self._other(value, verb, depth)

    def _other(self, value: Any, verb: str, depth: int) -> None:
        name = kind(value)
        if name in INT_KINDS:
            self.integer(int(value), False, verb, value)
        elif name in UINT_KINDS:
            self.integer(int(value), True, verb, value)
        elif isinstance(value, float):
            self.floating(float(value), verb, 32 if isinstance(value, Float32) else 64, value)
        elif isinstance(value, complex):
            self.complex(value, verb)
        elif isinstance(value, bytes):
            self.byte_slice(value, verb)
        elif isinstance(value, Struct):
            self._struct(value.fields, value.go_type, verb, depth)
        elif self.sharp_v and hasattr(value, "go_syntax"):
            self.string(value.go_syntax(), "s", value)
        elif hasattr(value, "go_fields") and (depth == 0 or name != "ptr"):
            if name == "ptr":
                self.out.append("&")
            self._struct(value.go_fields(), go_type(value).removeprefix("*"), verb, depth)
        elif name == "func":
            self.out.append(f"({go_type(value)})(0x{id(value):x})" if self.sharp_v else f"0x{id(value):x}")
        elif isinstance(value, (list, tuple)):
            self._sequence(value, go_type(value), verb, depth)
        elif isinstance(value, dict):
            self._mapping(value, verb, depth)
        else:
            text = value.go_string() if hasattr(value, "go_string") else str(value)
            self.string(text, "s" if verb == "v" else verb, value)

    def _descend(self, depth: int, count: int) -> None:
        charge(count + 1)
        if depth > _MAX_NESTING:
            raise LimitExceeded("the value to print is nested too deeply")

    def _element(self, value: Any, typed_nil: bool, verb: str, depth: int) -> None:
        """An element of a container; a nil one prints by the rules for a nil interface."""
        if value is None:
            self.out.append("interface {}(nil)" if self.sharp_v and typed_nil else "<nil>")
        else:
            self.value(value, verb, depth + 1)

    def _sequence(self, value: Sequence[Any], type_name: str, verb: str, depth: int) -> None:
        self._descend(depth, len(value))
        typed = is_interface_container(value)
        opening, separator, closing = "[", " ", "]"
        if self.sharp_v:
            if isinstance(value, Slice) and value.is_nil:
                self.out.append(type_name + "(nil)")
                return
            opening, separator, closing = type_name + "{", ", ", "}"
        self.out.append(opening)
        for at, item in enumerate(value):
            if at:
                self.out.append(separator)
            self._element(item, typed, verb, depth)
        self.out.append(closing)

    def _mapping(self, value: dict[Any, Any], verb: str, depth: int) -> None:
        self._descend(depth, len(value))
        typed = is_interface_container(value)
        opening, separator, closing = "map[", " ", "]"
        if self.sharp_v:
            if isinstance(value, Map) and value.is_nil:
                self.out.append(go_type(value) + "(nil)")
                return
            opening, separator, closing = go_type(value) + "{", ", ", "}"
        self.out.append(opening)
        for at, (key, item) in enumerate(sorted_items(value)):
            if at:
                self.out.append(separator)
            self.value(key, verb, depth + 1)
            self.out.append(":")
            self._element(item, typed, verb, depth)
        self.out.append(closing)

    def _struct(self, fields: dict[str, Any], type_name: str, verb: str, depth: int) -> None:
        self._descend(depth, len(fields))
        self.out.append(type_name + "{" if self.sharp_v else "{")
        for at, (name, item) in enumerate(fields.items()):
            if at:
                self.out.append(", " if self.sharp_v else " ")
            if self.plus_v or self.sharp_v:
                self.out.append(name + ":")
            self._element(item, True, verb, depth)
        self.out.append("}")

    def text(self) -> str:
        return joined("".join(self.out))


def show_float(value: float) -> str:
    """A float as `%v` prints it; between 0.0001 and a million Python writes the same digits."""
    if 0.0001 <= value < 1e6:
        text = repr(value)
        return text[:-2] if text.endswith(".0") else text
    return numbers.format_float(value, "g", -1)


def show_bool(value: bool) -> str:
    return "true" if value else "false"


_SIMPLE: dict[type, Callable[[Any], str]] = {str: str, int: str, bool: show_bool, float: show_float}


def show(value: Any) -> str:
    """The value as `%v` prints it."""
    simple = _SIMPLE.get(value.__class__)
    if simple is not None:
        return simple(value)
    printer = Printer()
    printer.arg(value, "v")
    return printer.text()


def sprint(args: Iterable[Any]) -> str:
    printer, previous_string = Printer(), True
    for at, arg in enumerate(args):
        is_string = kind(arg) == "string"
        if at and not is_string and not previous_string:
            printer.out.append(" ")
        printer.arg(arg, "v")
        previous_string = is_string
    return printer.text()


def sprintln(args: Iterable[Any]) -> str:
    return joined(" ".join(map(show, args)) + "\n")
