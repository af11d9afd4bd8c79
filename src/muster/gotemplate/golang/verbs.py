"""How Go's fmt prints basic values: integers, floats, strings and bytes under each verb, with flags, width and precision.

`Verbs` is one printer's state between directives; `Printer` in `fmt.py` adds the values that contain others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from muster.gotemplate.values import go_type
from muster.machinery.golang import numbers, quoting, unicode
from muster.machinery.golang.text import encode

_BASES = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}


class Verbs(ABC):
    """The flags of one directive, and the formatting of basic values."""

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
                self.pad(quoting.quote_rune(code, self.plus))
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
        text = numbers.format_float(value, verb, precision, bits)
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
        if self.sharp and quoting.can_backquote(value):
            self.pad(f"`{value}`")
        else:
            self.pad(quoting.quote(value, self.plus))

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

    @abstractmethod
    def value(self, value: Any, verb: str, depth: int) -> None:
        """Prints any value; implemented by `Printer`."""

    @abstractmethod
    def _sequence(self, value: Sequence[Any], type_name: str, verb: str, depth: int) -> None:
        """Prints the elements of a list; implemented by `Printer`."""
