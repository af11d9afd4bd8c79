"""Go's `fmt`: how values print, and Sprint and Sprintln (Sprintf is in `printf.py`).

`Printer` holds the flags of one directive and appends to a list of parts, as Go's `pp` does with its buffer. A value
with a `go_string()` method prints through it under %v %s %x %X %q (Go's Stringer). Printing charges the running
execution for every element, so a value that contains itself ends in a limit, not in the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang import strconv, unicode
from muster.gotemplate.limits import charge
from muster.gotemplate.values import (
    INT_KINDS,
    UINT_KINDS,
    Float32,
    Map,
    Missing,
    Slice,
    Struct,
    encode,
    go_type,
    is_interface_container,
    joined,
    kind,
)

_MAX_NESTING = 200
_BASES = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}


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


class Printer:
    __slots__ = (
        "erroring", "minus", "out", "plus", "plus_v", "precision", "sharp", "sharp_v", "space", "width", "zero",
    )  # fmt: skip

    def __init__(self) -> None:
        self.out: list[str] = []
        self.erroring = False
        self.clear()

    def clear(self) -> None:
        self.sharp = self.zero = self.plus = self.minus = self.space = self.sharp_v = self.plus_v = False
        self.width: int | None = None
        self.precision: int | None = None

    # Padding

    def pad(self, text: str) -> None:
        if self.width:
            missing = self.width - len(text)
            if missing > 0:
                if self.minus:
                    text += " " * missing
                else:
                    text = ("0" if self.zero else " ") * missing + text
        self.out.append(text)

    def pad_without_zeros(self, text: str) -> None:
        zero, self.zero = self.zero, False
        self.pad(text)
        self.zero = zero

    # Basic values

    def bad_verb(self, verb: str, value: Any, is_nil: bool = False) -> None:
        self.erroring = True
        self.out.append(f"%!{verb}(")
        if is_nil or value is None:
            self.out.append("<nil>")
        else:
            self.out.append(go_type(value) + "=")
            self.value(value, "v", 0)
        self.out.append(")")
        self.erroring = False

    def boolean(self, value: bool, verb: str) -> None:
        if verb in "tv":
            self.pad("true" if value else "false")
        else:
            self.bad_verb(verb, value)

    def integer(self, value: int, unsigned: bool, verb: str, origin: Any) -> None:
        if verb == "v" and self.sharp_v and unsigned:
            sharp, self.sharp = self.sharp, True
            self._digits(value, 16, "v")
            self.sharp = sharp
        elif verb in _BASES:
            self._digits(value, _BASES[verb], verb)
        elif verb in "cq":
            code = value & 0xFFFFFFFFFFFFFFFF
            code = code if code <= 0x10FFFF else 0xFFFD
            if verb == "q":
                self.pad(strconv.quote_rune(code, self.plus))
            else:
                self.pad("�" if 0xD800 <= code <= 0xDFFF else chr(code))
        elif verb == "U":
            self._unicode(value & 0xFFFFFFFFFFFFFFFF)
        else:
            self.bad_verb(verb, origin)

    def _digits(self, value: int, base: int, verb: str) -> None:
        negative, magnitude = value < 0, abs(value)
        precision = 0
        if self.precision is not None:
            precision = self.precision
            if precision == 0 and magnitude == 0:
                self.out.append(" " * (self.width or 0))
                return
        elif self.zero and not self.minus and self.width is not None:
            precision = self.width - (1 if negative or self.plus or self.space else 0)
        if base == 10:
            text = str(magnitude)
        else:
            text = f"{magnitude:{'b' if base == 2 else 'o' if base == 8 else 'X' if verb == 'X' else 'x'}}"
        text = text.zfill(precision) if precision > len(text) else text
        if self.sharp:
            if base == 2:
                text = "0b" + text
            elif base == 8 and not text.startswith("0"):
                text = "0" + text
            elif base == 16:
                text = ("0X" if verb == "X" else "0x") + text
        if verb == "O":
            text = "0o" + text
        if negative:
            text = "-" + text
        elif self.plus:
            text = "+" + text
        elif self.space:
            text = " " + text
        self.pad_without_zeros(text)

    def _unicode(self, code: int) -> None:
        text = f"U+{code:0{max(self.precision or 0, 4)}X}"
        if self.sharp and code <= 0x10FFFF and unicode.is_print(chr(code)):
            text += f" '{chr(code)}'"
        self.pad_without_zeros(text)

    def floating(self, value: float, verb: str, bits: int, origin: Any) -> None:
        if verb == "v":
            self._float(value, "g", -1, bits)
        elif verb in "bgGxX":
            self._float(value, verb, -1, bits)
        elif verb in "feEF":
            self._float(value, "f" if verb == "F" else verb, 6, bits)
        else:
            self.bad_verb(verb, origin)

    def _float(self, value: float, verb: str, precision: int, bits: int) -> None:
        if self.precision is not None:
            precision = self.precision
        text = strconv.format_float(value, verb, precision, bits)
        sign = "+"
        if text[0] in "+-":
            sign, text = text[0], text[1:]
        if self.space and sign == "+" and not self.plus:
            sign = " "
        if text[0] in "IN":
            shown = text if text[0] == "N" and not self.space and not self.plus else sign + text
            if text[0] == "I" and sign == "+" and not self.plus:
                shown = sign + text
            self.pad_without_zeros(shown)
            return
        if self.sharp and verb != "b":
            text = self._sharp_float(text, verb, precision)
        if self.plus or sign != "+":
            if self.zero and not self.minus and self.width is not None and self.width > len(text) + 1:
                self.out.append(sign + "0" * (self.width - len(text) - 1) + text)
                return
            self.pad(sign + text)
            return
        self.pad(text)

    @staticmethod
    def _sharp_float(text: str, verb: str, precision: int) -> str:
        digits = (6 if precision == -1 else precision) if verb in "vgGx" else 0
        tail, seen_nonzero, point, head = "", False, False, []
        for at, char in enumerate(text):
            if char == ".":
                point = True
            elif char in "pP" or (char in "eE" and verb not in "xX"):
                tail = text[at:]
                break
            else:
                seen_nonzero = seen_nonzero or char != "0"
                digits -= seen_nonzero
            head.append(char)
        if not point:
            if head == ["0"]:
                digits -= 1
            head.append(".")
        return "".join(head) + "0" * max(digits, 0) + tail

    def complex(self, value: complex, verb: str) -> None:
        if verb not in "vbgGxXfFeE":
            self.bad_verb(verb, value)
            return
        plus = self.plus
        self.out.append("(")
        self.floating(value.real, verb, 64, value)
        self.plus = True
        self.floating(value.imag, verb, 64, value)
        self.out.append("i)")
        self.plus = plus

    def string(self, value: str, verb: str, origin: Any) -> None:
        if verb in "sv" and not (verb == "v" and self.sharp_v):
            self.pad(value if self.precision is None else value[: self.precision])
        elif verb in "qv":
            self._quoted(value)
        elif verb in "xX":
            self._hexadecimal(encode(value), verb)
        else:
            self.bad_verb(verb, origin)

    def _quoted(self, value: str) -> None:
        if self.precision is not None:
            value = value[: self.precision]
        if self.sharp and strconv.can_backquote(value):
            self.pad(f"`{value}`")
        else:
            self.pad(strconv.quote(value, self.plus))

    def _hexadecimal(self, data: bytes, verb: str) -> None:
        if self.precision is not None:
            data = data[: self.precision]
        if not data:
            if self.width is not None:
                self.pad("")
            return
        prefix = ("0X" if verb == "X" else "0x") if self.sharp else ""
        pairs = [f"{byte:02X}" if verb == "X" else f"{byte:02x}" for byte in data]
        self.pad(" ".join(prefix + pair for pair in pairs) if self.space else prefix + "".join(pairs))

    def byte_slice(self, value: bytes, verb: str) -> None:
        if verb in "vd":
            if self.sharp_v:
                self.out.append("[]byte{" + ", ".join(f"0x{byte:x}" for byte in value) + "}")
                return
            self.out.append("[")
            for at, byte in enumerate(value):
                if at:
                    self.out.append(" ")
                self._digits(byte, 10, verb)
            self.out.append("]")
        elif verb == "s":
            self.string(value.decode("utf-8", "surrogateescape"), "s", value)
        elif verb == "q":
            self._quoted(value.decode("utf-8", "surrogateescape"))
        elif verb in "xX":
            self._hexadecimal(value, verb)
        else:
            self._sequence(value, "[]uint8", verb, 0)

    # Any value

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
            self._struct(value, verb, depth)
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

    def _struct(self, value: Struct, verb: str, depth: int) -> None:
        self._descend(depth, len(value.fields))
        self.out.append(value.go_type + "{" if self.sharp_v else "{")
        for at, (name, item) in enumerate(value.fields.items()):
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
    return strconv.format_float(value, "g", -1)


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
