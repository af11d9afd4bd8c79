"""Go's `time.Duration`: parsing and printing."""

from __future__ import annotations

from muster.gotemplate.errors import GoError
from muster.gotemplate.values import encode, wrap_int64

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND, "m": MINUTE, "h": HOUR}
_MAX = 1 << 63


def quote(text: str) -> str:
    """The `time` package's own quoting, which escapes every byte that is not printable ASCII."""
    out = []
    for char in text:
        if char >= "\x80" or char < " ":
            out.append("".join(f"\\x{byte:02x}" for byte in encode(char)))
        else:
            out.append("\\" + char if char in '"\\' else char)
    return '"' + "".join(out) + '"'


def _leading_digits(text: str) -> str:
    end = 0
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    return text[:end]


def _fraction(digits: str) -> tuple[int, float]:
    """The digits after the point as a number and its scale; precision beyond 63 bits is dropped, not an error."""
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_MAX - 1) // 10 or value * 10 + int(digit) > _MAX:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return value, scale


def parse(text: str) -> int:
    """`time.ParseDuration`, in nanoseconds."""

    def failure(reason: str) -> GoError:
        return GoError(f"time: {reason} {quote(text)}")

    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise failure("invalid duration")
    total = 0
    while rest:
        whole = _leading_digits(rest)
        if not whole and rest[0] != ".":
            raise failure("invalid duration")
        if whole and int(whole) > _MAX:
            raise failure("invalid duration")
        rest = rest[len(whole) :]
        fraction = ""
        if rest.startswith("."):
            fraction = _leading_digits(rest[1:])
            rest = rest[1 + len(fraction) :]
        if not whole and not fraction:
            raise failure("invalid duration")
        size = next((at for at, char in enumerate(rest) if char == "." or "0" <= char <= "9"), len(rest))
        if size == 0:
            raise failure("missing unit in duration")
        unit = _UNITS.get(rest[:size])
        if unit is None:
            raise failure(f"unknown unit {quote(rest[:size])} in duration")
        rest = rest[size:]
        value = int(whole or 0)
        if value > _MAX // unit:
            raise failure("invalid duration")
        value *= unit
        part, scale = _fraction(fraction)
        if part:
            value += int(float(part) * (float(unit) / scale))
        total += value
        if value > _MAX or total > _MAX:
            raise failure("invalid duration")
    if text[:1] == "-":
        return -total
    if total > _MAX - 1:
        raise failure("invalid duration")
    return total


def _with_fraction(value: int, digits: int) -> str:
    whole, rest = divmod(value, 10**digits)
    fraction = f"{rest:0{digits}d}".rstrip("0") if digits else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def show(nanoseconds: int) -> str:
    """`Duration.String`."""
    value = abs(nanoseconds)
    sign = "-" if nanoseconds < 0 else ""
    if value == 0:
        return "0s"
    if value < SECOND:
        digits, unit = (0, "ns") if value < 1000 else (3, "µs") if value < 1_000_000 else (6, "ms")
        return sign + _with_fraction(value, digits) + unit
    minutes, rest = divmod(value, MINUTE)
    text = _with_fraction(rest, 9) + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m" + text
    return sign + text


def round_to(value: int, unit: int) -> int:
    """`Duration.Round`: halves away from zero."""
    if unit <= 0:
        return value
    rest = abs(value) % unit
    down = abs(value) - rest
    rounded = down if rest * 2 < unit else down + unit
    return wrap_int64(-rounded if value < 0 else rounded)
