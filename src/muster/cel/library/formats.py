"""Named formats: `format.dns1123Label().validate(name)` and similar calls.

A format returns the errors of Kubernetes' validation of a string, or none.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from muster.cel import types
from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, Overload, method, overload
from muster.cel.library.urls import request_uri_error
from muster.cel.times import parse_timestamp
from muster.cel.types import STRING, Type, list_type
from muster.cel.values import NONE, Opaque, Optional, size_of

FORMAT_TYPE = Type("struct", "kubernetes.NamedFormat")
Validator = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end"
    " with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and"
    " end with an alphanumeric character"
)
_NAME_TEXT = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character"
)


class Format(Opaque):
    __slots__ = ("name", "regex_size", "validate")
    cel_type = FORMAT_TYPE

    def __init__(self, name: str, validate: Validator, regex_size: int) -> None:
        self.name = name
        self.validate = validate
        self.regex_size = regex_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def _complaint(text: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {shown}, regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _dns(pattern: str, limit: int, complaint: str, prefix: bool) -> Validator:
    compiled = re.compile(rf"(?:{pattern})\Z")

    def validate(text: str) -> list[str]:
        # A prefix may end in a dash: something will follow it.
        checked = text[:-1] + "a" if prefix and len(text) > 1 and text.endswith("-") else text
        problems = []
        if len(checked.encode()) > limit:
            problems.append(_too_long(limit))
        if not compiled.match(checked):
            problems.append(complaint)
        return problems

    return validate


def _label(prefix: bool) -> Validator:
    return _dns(_LABEL, 63, _complaint(_LABEL_TEXT, _LABEL, "my-name", "123-abc"), prefix)


def _subdomain(prefix: bool) -> Validator:
    return _dns(_SUBDOMAIN, 253, _complaint(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"), prefix)


def _label_1035(prefix: bool) -> Validator:
    return _dns(_LABEL_1035, 63, _complaint(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"), prefix)


def _qualified_name(text: str) -> list[str]:
    problems: list[str] = []
    parts = text.split("/")
    examples = ("MyName", "my.name", "123-abc")
    if len(parts) > 2:
        complaint = _complaint(f"a valid label key {_NAME_TEXT}", _NAME, *examples)
        return [f"{complaint} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in _subdomain(False)(parts[0])]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not re.fullmatch(_NAME, name):
        problems.append(_complaint(f"name part {_NAME_TEXT}", _NAME, *examples))
    return problems


def _label_value(text: str) -> list[str]:
    problems = [_too_long(63, "bytes")] if len(text.encode()) > 63 else []
    if not re.fullmatch(_VALUE, text):
        problems.append(_complaint(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def _uri(text: str) -> list[str]:
    problem = request_uri_error(text)
    return [] if problem is None else [problem]


def _test(accepts: Callable[[str], Any], complaint: str) -> Validator:
    def validate(text: str) -> list[str]:
        try:
            return [] if accepts(text) else [complaint]
        except (ValueError, EvaluationError):
            return [complaint]

    return validate


def _base64(text: str) -> bool:
    base64.b64decode(text, validate=True)
    return bool(text)


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")
_FORMATS = {
    "dns1123Label": Format("DNS1123Label", _label(False), 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain(False), 60),
    "dns1035Label": Format("DNS1035Label", _label_1035(False), 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _label(True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _subdomain(True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _label_1035(True), 30),
    "labelValue": Format("LabelValue", _label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _test(_UUID.match, "does not match the UUID format"), 69),
    "byte": Format("byte", _test(_base64, "invalid base64"), 84),
    "date": Format("date", _test(lambda text: parse_timestamp(f"{text}T00:00:00Z"), "invalid date"), 72),
    "datetime": Format("datetime", _test(parse_timestamp, "invalid datetime"), 72),
}


def _validate(format_: Format, text: str) -> Optional:
    problems = format_.validate(text)
    return Optional(True, problems) if problems else NONE


def _validate_cost(args: list[Any], result: Any) -> int:
    regex_size: int = args[0].regex_size
    return costs.tenth(1 + size_of(args[1])) * -(-regex_size // 4)


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(True, found)


def _constant(name: str, format_: Format) -> tuple[str, Overload]:
    return (f"format.{name}", overload(f"format.{name}", (), FORMAT_TYPE, lambda: format_))


FORMATS = Library(
    "kubernetes.format",
    overloads=(
        (
            "validate",
            method("format-validate", (FORMAT_TYPE, STRING), types.optional(list_type(STRING)), _validate, _validate_cost),
        ),
        ("format.named", overload("format-named", (STRING,), types.optional(FORMAT_TYPE), _named)),
        *(_constant(name, format_) for name, format_ in _FORMATS.items()),
    ),
)
