"""Label and field selectors: from text or an API object to a `Selector` with `matches(labels)`.

A label selector is a conjunction of requirements, sorted by key as the API prints them. The text is parsed by a small hand-written
lexer and parser, because its error messages are part of the API. An operator is a name (`in`, `=`, …) and a function of the label's
value; absent labels are decided by the operator alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.kube.fielderrors import FieldError, forbidden, invalid, required
from muster.kube.names import check_labels, label_value, qualified_name
from muster.machinery.memo import memoized

_INT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
_NEGATIVE: Final = frozenset({"!=", "notin", "!"})
_OBJECT_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:(?P<symbol>[=!(),><]+)|(?P<word>[^=!(),>< \t\r\n\0]+))\0?")
"""A NUL ends a token, and where none has begun the whole text."""
_SYMBOLS: Final = frozenset({")", ",", "!", "==", "=", ">", "<", "!=", "("})
_BINARY: Final = frozenset({"in", "notin", "=", "==", "!=", ">", "<"})
_END: Final = ""


class SelectorError(ValueError):
    """An invalid selector; the text is the API's error (400)."""


def _int64(text: str) -> int | None:
    if not _INT.fullmatch(text):
        return None
    value = int(text) if len(text) < 25 else 2**63
    return value if value in _INT64 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition. `operator` is `=`, `==`, `!=`, `in`, `notin`, `exists`, `!` (does not exist), `>` or `<`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if value is None:
            return operator in _NEGATIVE
        if operator in ("=", "==", "in"):
            return value in self.values
        if operator in ("!=", "notin"):
            return value not in self.values
        if operator in ("exists", "!"):
            return operator == "exists"
        left, right = _int64(value), _int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if operator == ">" else left < right

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({values})"
        return f"{self.key}{self.operator}{values}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold. `nothing` matches no object (an absent LabelSelector), no requirements match every object."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        if not self.requirements:
            return True
        known = labels or {}
        return all(requirement.matches(known) for requirement in self.requirements)

    def compiled(self) -> Callable[[Mapping[str, str]], bool]:
        """`matches` for many calls: a function compiled for these requirements."""
        if self.nothing or len(self.requirements) != 1 or self.requirements[0].operator not in ("=", "==", "in"):
            return self.matches
        key, values = self.requirements[0].key, frozenset(self.requirements[0].values)
        return lambda labels: labels.get(key) in values

    def matches_each(self, labels: Iterable[Mapping[str, str]]) -> Iterable[bool]:
        """`matches` of each of very many."""
        if self.nothing or len(self.requirements) != 1 or self.requirements[0].operator not in ("=", "==", "in"):
            return map(self.matches, labels)
        key, values = self.requirements[0].key, frozenset(self.requirements[0].values)
        return [label.get(key) in values for label in labels]

    @property
    def everything(self) -> bool:
        return not self.nothing and not self.requirements

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def _sorted(requirements: Iterable[Requirement]) -> Selector:
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Every label must be present with the value given; values are not checked."""
    return _sorted(Requirement(key, "=", (value,)) for key, value in labels.items())


def _aggregate(errors: list[FieldError]) -> str:
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


# By operator: the least and the most values, and the error for other numbers.
_ARITY: Final = {
    operator: (least, most, message)
    for operators, least, most, message in (
        (("in", "notin"), 1, 2**31, "for 'in', 'notin' operators, values set can't be empty"),
        (("=", "==", "!="), 1, 1, "exact-match compatibility requires one single value"),
        (("exists", "!"), 0, 0, "values set must be empty for exists and does not exist"),
        ((">", "<"), 1, 1, "for 'Gt', 'Lt' operators, exactly one value is required"),
    )
    for operator in operators
}


def new_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement:
    """A checked requirement; raises SelectorError with all problems."""
    found = tuple(values)
    errors: list[FieldError] = []
    if problems := qualified_name(key):
        errors.append(invalid("key", key, "; ".join(problems)))
    least, most, message = _ARITY[operator]
    if not least <= len(found) <= most:
        errors.append(invalid("values", list(found), message))
    if operator in (">", "<"):
        for index, value in enumerate(found):
            if _int64(value) is None:
                errors.append(invalid(f"values[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    for index, value in enumerate(found):
        if problems := label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(problems)))
    if errors:
        raise SelectorError(_aggregate(errors))
    return Requirement(key, operator, found)


# The text form ---------------------------------------------------------------------------------------------------------------


def _split_symbols(run: str) -> Iterable[tuple[str, str]]:
    """A run of special characters is cut greedily into operators; what fits none is an error token that shows the run."""
    start = 0
    while start < len(run):
        length = 2 if run[start : start + 2] in _SYMBOLS else 1
        yield "symbol", run[start : start + length]
        start += length


def _lex(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        if (run := match["symbol"]) is not None:
            tokens += _split_symbols(run)
        else:
            tokens.append(("word", match["word"]))
    tokens.append(("end", _END))
    return tokens


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _lex(text)
        self.position = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[min(self.position, len(self.tokens) - 1)]

    def next(self) -> tuple[str, str]:
        token = self.peek()
        self.position += 1
        return token

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            kind, literal = self.peek()
            if kind == "end":
                return requirements
            if kind != "word" and literal != "!":
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as problem:
                raise SelectorError(f"unable to parse requirement: {problem}") from None
            kind, literal = self.next()
            if kind == "end":
                return requirements
            if literal != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self.peek()
            if kind != "word" and literal != "!":
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, key = self.next()
        absent = key == "!" and kind == "symbol"
        if absent:
            kind, key = self.next()
        if kind != "word":
            raise SelectorError(f"found '{key}', expected: identifier")
        if problems := qualified_name(key):
            raise SelectorError(str(invalid("<nil>", key, "; ".join(problems))))
        if absent:
            return new_requirement(key, "!", ())
        kind, literal = self.peek()
        if kind == "end" or literal == ",":
            return new_requirement(key, "exists", ())
        _, operator = self.next()
        if operator not in _BINARY:
            raise SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self.value_list() if operator in ("in", "notin") else {self.exact_value()}
        return new_requirement(key, operator, sorted(values))

    def exact_value(self) -> str:
        kind, literal = self.peek()
        if kind == "end" or literal == ",":
            return ""
        kind, literal = self.next()
        if kind != "word":
            raise SelectorError(f"found '{literal}', expected: identifier")
        return literal

    def value_list(self) -> set[str]:
        _, literal = self.next()
        if literal != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self.peek()
        if literal == ")":
            self.next()
            return {""}
        if kind != "word" and literal != ",":
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self.identifiers()
        self.next()
        return values

    def identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, literal = self.next()
            following = self.peek()[1]
            if kind == "word":
                values.add(literal)
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following}', expected: ',' or ')'")
            elif literal == ",":
                if not values or following in (",", ")"):
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")


@memoized(1024, 4096)
def parse_label_selector(text: str) -> Selector:
    """`a=b,c in (d,e),!f` as a Selector; raises SelectorError. The empty text selects everything."""
    return _sorted(_Parser(text).parse())


# The API object --------------------------------------------------------------------------------------------------------------


def check_label_selector(selector: Mapping[str, Any], field: str) -> list[FieldError]:
    """The validation of a metav1.LabelSelector inside an object."""
    errors = check_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
        key = expression.get("key", "")
        errors += [invalid(f"{path}.key", key, message) for message in qualified_name(key)]
        for position, value in enumerate(values):
            errors += [invalid(f"{path}.values[{position}]", value, message) for message in label_value(value)]
    return errors


def from_label_selector_object(selector: Mapping[str, Any] | None) -> Selector:
    """A metav1.LabelSelector as a Selector: absent selects nothing, empty selects everything. Raises SelectorError."""
    if selector is None:
        return NOTHING
    requirements = [new_requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = expression.get("operator", "")
        if operator not in _OBJECT_OPERATORS:
            raise SelectorError(f'"{operator}" is not a valid label selector operator')
        requirements.append(new_requirement(expression.get("key", ""), _OBJECT_OPERATORS[operator], expression.get("values") or ()))
    return _sorted(requirements)


# Field selectors -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on a field; `operator` is `=` or `!=`."""

    path: str
    operator: str
    value: str

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.path}{self.operator}{escaped}"


_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)*", re.DOTALL)
_OPERATOR: Final = re.compile("!=|==|=")


def _unescape(value: str) -> str:
    if not any(mark in value for mark in "\\,="):
        return value
    out: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped == "" or escaped not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            out.append(escaped)
        elif character in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            out.append(character)
    return "".join(out)


@memoized(1024, 4096)
def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """`a.b=c,d!=e` with `\\`, `,` and `=` escaped by a backslash in values; sorted as the API prints them. Raises SelectorError."""
    terms: list[FieldTerm] = []
    for part in sorted(_terms(text)):
        if not part:
            continue
        found = _OPERATOR.search(part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        operator = "!=" if found[0] == "!=" else "="
        terms.append(FieldTerm(part[: found.start()], operator, _unescape(part[found.end() :])))
    return tuple(terms)


def _terms(text: str) -> Iterable[str]:
    position = 0
    while position <= len(text):
        found = _TERM.match(text, position)
        assert found is not None
        yield found[0]
        position = found.end() + 1
