"""Conditions of policy statements: a table of operators, and their evaluation with the values of a request.

A condition key has several values, one, or is missing. Plain operators are true if one value matches one of the condition's;
negated ones are true if none does, and if the key is missing. `IfExists` is true for a missing key; `ForAnyValue` is not, and
`ForAllValues` is. An unknown operator makes the policy malformed: it is never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Final

from muster.fleet.aws.policy.patterns import arn_matches, matches
from muster.fleet.aws.policy.variables import substituted

Values = Mapping[str, Sequence[str]]
"""The values of a request, by condition key in lower case."""
Compare = Callable[[str, str], bool]
"""Whether the request's value matches the condition's."""


def _numbers(test: Callable[[float, float], bool]) -> Compare:
    def compare(value: str, wanted: str) -> bool:
        try:
            return test(float(value), float(wanted))
        except ValueError:
            return False

    return compare


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


def _dates(test: Callable[[float, float], bool]) -> Compare:
    def compare(value: str, wanted: str) -> bool:
        try:
            return test(_moment(value), _moment(wanted))
        except ValueError:
            return False

    return compare


def _in_network(value: str, wanted: str) -> bool:
    try:
        return ip_address(value) in ip_network(wanted, strict=False)
    except ValueError:
        return False


def _same_letters(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


def _like(value: str, wanted: str) -> bool:
    return matches(wanted, value)


def _arn(value: str, wanted: str) -> bool:
    return arn_matches(wanted, value)


def _equal(value: str, wanted: str) -> bool:
    return value == wanted


_POSITIVE: Final[Mapping[str, Compare]] = {
    "StringEquals": _equal,
    "StringEqualsIgnoreCase": _same_letters,
    "StringLike": _like,
    "ArnEquals": _arn,
    "ArnLike": _arn,
    "Bool": _same_letters,
    "NumericEquals": _numbers(lambda a, b: a == b),
    "NumericLessThan": _numbers(lambda a, b: a < b),
    "NumericLessThanEquals": _numbers(lambda a, b: a <= b),
    "NumericGreaterThan": _numbers(lambda a, b: a > b),
    "NumericGreaterThanEquals": _numbers(lambda a, b: a >= b),
    "DateEquals": _dates(lambda a, b: a == b),
    "DateLessThan": _dates(lambda a, b: a < b),
    "DateLessThanEquals": _dates(lambda a, b: a <= b),
    "DateGreaterThan": _dates(lambda a, b: a > b),
    "DateGreaterThanEquals": _dates(lambda a, b: a >= b),
    "IpAddress": _in_network,
}
_NEGATED: Final[Mapping[str, Compare]] = {
    "StringNotEquals": _equal,
    "StringNotEqualsIgnoreCase": _same_letters,
    "StringNotLike": _like,
    "ArnNotEquals": _arn,
    "ArnNotLike": _arn,
    "NumericNotEquals": _POSITIVE["NumericEquals"],
    "DateNotEquals": _POSITIVE["DateEquals"],
    "NotIpAddress": _in_network,
}
_NULL: Final = "Null"
_IF_EXISTS: Final = "IfExists"
_ANY: Final = "ForAnyValue"
_ALL: Final = "ForAllValues"


@dataclass(frozen=True)
class Operator:
    name: str
    compare: Compare | None
    """None is for `Null`, which tests whether the key is present."""
    negated: bool = False
    if_exists: bool = False
    quantifier: str = ""


def operator(text: str) -> Operator | None:
    """None if there is no such operator."""
    quantifier, colon, name = text.rpartition(":")
    if colon and quantifier not in (_ANY, _ALL):
        return None
    if name == _NULL:
        return None if quantifier else Operator(name, None)
    plain = name.removesuffix(_IF_EXISTS)
    compare = _POSITIVE.get(plain) or _NEGATED.get(plain)
    if compare is None:
        return None
    return Operator(plain, compare, plain in _NEGATED, plain != name, quantifier)


@dataclass(frozen=True)
class Condition:
    operator: Operator
    key: str
    """In lower case, because keys and the tags in them are case-insensitive."""
    wanted: tuple[str, ...]

    def holds(self, values: Values, variables: bool) -> bool:
        """`variables`: whether `${…}` in the condition's values is replaced, as in policies of the present version."""
        found = tuple(values.get(self.key, ()))
        compare = self.operator.compare
        if compare is None:
            return any((one.lower() == "true") != bool(found) for one in self.wanted)
        filled = [one if not variables else substituted(one, values) for one in self.wanted]
        wanted = [one for one in filled if one is not None]

        def satisfies(value: str) -> bool:
            return any(compare(value, one) for one in wanted) != self.operator.negated

        if self.operator.quantifier == _ALL:
            return all(map(satisfies, found))
        if not found:
            return self.operator.if_exists or (self.operator.negated and not self.operator.quantifier)
        if self.operator.quantifier == _ANY or not self.operator.negated:
            return any(map(satisfies, found))
        return all(map(satisfies, found))
