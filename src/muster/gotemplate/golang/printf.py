"""Go's `fmt.Sprintf`: format strings with flags, width, precision, `*` and argument indexes.

A directive that does not fit its argument is not an error: it prints as `%!verb(type=value)`, as in Go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from muster.gotemplate.golang import fmt
from muster.gotemplate.golang.fmt import Printer
from muster.gotemplate.values import go_type
from muster.machinery.golang.text import joined

_DIRECTIVE = re.compile("%.?", re.DOTALL)
_MAX_NUMBER = 1_000_000
_FLAGS = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}


class _Format:
    """One pass over a format string; the argument position moves by Go's rules for `*` and `[n]`."""

    def __init__(self, text: str, args: Sequence[Any]) -> None:
        self.text = text
        self.args = args
        self.at = 0
        self.arg = 0
        self.reordered = False
        self.good_index = True
        self.printer = Printer()

    def run(self) -> str:
        text, end, printer = self.text, len(self.text), self.printer
        while self.at < end:
            percent = text.find("%", self.at)
            if percent < 0:
                printer.out.append(text[self.at :])
                break
            if percent > self.at:
                printer.out.append(text[self.at : percent])
            self.at = percent + 1
            self.good_index = True
            printer.clear()
            if not self._directive():
                printer.out.append("%!(NOVERB)")
                break
        if not self.reordered and self.arg < len(self.args):
            self._extra()
        return printer.text()

    def _directive(self) -> bool:
        text, end, printer = self.text, len(self.text), self.printer
        while self.at < end and text[self.at] in _FLAGS:
            setattr(printer, _FLAGS[text[self.at]], True)
            self.at += 1
        after_index = self._index()
        if self.at < end and text[self.at] == "*":
            self.at += 1
            width = self._int_arg()
            if width is None:
                printer.out.append("%!(BADWIDTH)")
            elif width < 0:
                printer.width, printer.minus, printer.zero = -width, True, False
            else:
                printer.width = width
            after_index = False
        else:
            printer.width = self._number()
            if after_index and printer.width is not None:
                self.good_index = False
        if self.at + 1 < end and text[self.at] == ".":
            after_index = self._precision(after_index)
        if not after_index:
            self._index()
        if self.at >= end:
            return False
        verb = text[self.at]
        self.at += 1
        self._verb("�" if "\udc80" <= verb <= "\udcff" else verb)
        return True

    def _precision(self, after_index: bool) -> bool:
        self.at += 1
        if after_index:
            self.good_index = False
        after_index = self._index()
        if self.at < len(self.text) and self.text[self.at] == "*":
            self.at += 1
            precision = self._int_arg()
            if precision is None or precision < 0:
                self.printer.out.append("%!(BADPREC)")
            else:
                self.printer.precision = precision
            return False
        self.printer.precision = self._number() or 0
        return after_index

    def _verb(self, verb: str) -> None:
        printer = self.printer
        if verb == "%":
            printer.out.append("%")
        elif not self.good_index:
            printer.out.append(f"%!{verb}(BADINDEX)")
        elif self.arg >= len(self.args):
            printer.out.append(f"%!{verb}(MISSING)")
        else:
            if verb in "vw":
                printer.sharp_v, printer.sharp = printer.sharp, False
                printer.plus_v, printer.plus = printer.plus, False
            value = self.args[self.arg]
            self.arg += 1
            printer.arg(value, verb)

    def _number(self) -> int | None:
        start, value = self.at, 0
        while self.at < len(self.text) and "0" <= self.text[self.at] <= "9":
            if value > _MAX_NUMBER:
                self.at = len(self.text)
                return None
            value = value * 10 + int(self.text[self.at])
            self.at += 1
        return value if self.at > start else None

    def _int_arg(self) -> int | None:
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_NUMBER:
            return None
        return int(value)

    def _index(self) -> bool:
        """An argument index `[n]`, if one is here; true if it was well formed."""
        if self.text[self.at : self.at + 1] != "[":
            return False
        self.reordered = True
        closing = self.text.find("]", self.at)
        if len(self.text) - self.at < 3 or closing < 0:
            self.at += 1
            self.good_index = False
            return False
        digits = self.text[self.at + 1 : closing]
        self.at = closing + 1
        well_formed = digits.isascii() and digits.isdigit() and len(digits) <= 7
        if well_formed and 1 <= int(digits) <= len(self.args):
            self.arg = int(digits) - 1
            return True
        self.good_index = False
        return well_formed

    def _extra(self) -> None:
        printer = self.printer
        printer.clear()
        printer.out.append("%!(EXTRA ")
        for at, value in enumerate(self.args[self.arg :]):
            if at:
                printer.out.append(", ")
            if value is None:
                printer.out.append("<nil>")
            else:
                printer.out.append(go_type(value) + "=")
                printer.arg(value, "v")
        printer.out.append(")")


@lru_cache(maxsize=512)
def _simple(text: str) -> tuple[str, str] | None:
    """A format of bare %s, %d and %v only, as Python's own format and the verbs; None if there is more to it."""
    verbs = _DIRECTIVE.findall(text)
    if any(verb not in ("%s", "%d", "%v") for verb in verbs):
        return None
    return _DIRECTIVE.sub("%s", text), "".join(verb[1] for verb in verbs)


def _plain_operand(verb: str, value: Any) -> str | None:
    cls = value.__class__
    if cls is str:
        return None if verb == "d" else str(value)
    if cls is int:
        return None if verb == "s" else str(value)
    return fmt.show(value) if verb == "v" else None


def sprintf(text: str, args: Sequence[Any]) -> str:
    simple = _simple(text)
    if simple is not None and len(simple[1]) == len(args):
        operands = tuple(map(_plain_operand, simple[1], args))
        if None not in operands:
            return joined(simple[0] % operands)
    return _Format(text, args).run()
