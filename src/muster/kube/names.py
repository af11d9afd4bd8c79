"""Validation of names, labels and annotations, with the API's messages.

Each check takes a value and returns a list of messages, empty if the value is valid; the caller adds the field. Object names are
checked by a `NameRule` (`name, prefix -> messages`), where `prefix` is whether a suffix will be appended (generateName). Lengths
are counted in UTF-8 bytes, as the API does.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Final

from muster.kube.fielderrors import FieldError, invalid, too_long

NameRule = Callable[[str, bool], list[str]]

ANNOTATIONS_LIMIT: Final = 256 * 1024
GENERATED_SUFFIX_LENGTH: Final = 5
_MAX_NAME_LENGTH: Final = 63
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"

_LABEL_1123: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL_1123 + r"(\." + _LABEL_1123 + ")*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_ENV_NAME: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"

_LABEL_1123_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with "
    "an alphanumeric character"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_LABEL_VALUE_RULE: Final = f"a valid label must be an empty string or {_QUALIFIED_RULE.removeprefix('must ')}"
_CONFIG_KEY_RULE: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

_is_label_1123 = re.compile(_LABEL_1123, re.ASCII).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN, re.ASCII).fullmatch
_is_label_1035 = re.compile(_LABEL_1035, re.ASCII).fullmatch
_is_qualified = re.compile(_QUALIFIED, re.ASCII).fullmatch
_is_prefixed = re.compile(f"{_SUBDOMAIN}/{_QUALIFIED}", re.ASCII).fullmatch
_is_label_value = re.compile(_LABEL_VALUE, re.ASCII).fullmatch
_is_config_key = re.compile(_CONFIG_KEY, re.ASCII).fullmatch


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} ({'e.g. ' + shown if shown else ''}regex used for validation is '{pattern}')"


def _longer_than(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def dns1123_label(value: str) -> list[str]:
    problems = [_longer_than(63)] if _size(value) > 63 else []
    if not _is_label_1123(value):
        if _is_subdomain(value):
            problems.append("must not contain dots")
        else:
            problems.append(_mismatch(_LABEL_1123_RULE, _LABEL_1123, "my-name", "123-abc"))
    return problems


def dns1123_subdomain(value: str) -> list[str]:
    return _subdomain(value, "characters")


def _subdomain(value: str, unit: str) -> list[str]:
    problems = [_longer_than(253, unit)] if _size(value) > 253 else []
    if not _is_subdomain(value):
        problems.append(_mismatch(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return problems


def dns1035_label(value: str) -> list[str]:
    problems = [_longer_than(63)] if _size(value) > 63 else []
    if not _is_label_1035(value):
        problems.append(_mismatch(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return problems


def _qualified_rule() -> str:
    return _mismatch(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")


def qualified_name(value: str) -> list[str]:
    """Label keys, annotation keys (after lowering), finalizers: an optional DNS prefix, a slash, a name."""
    if len(value) <= 63 and (_is_qualified(value) or _is_prefixed(value)):  # most of them
        return []
    parts = value.split("/")
    if len(parts) > 2:
        return [f"a valid label key {_qualified_rule()} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems: list[str] = []
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {message}" for message in _subdomain(parts[0], "bytes")]
    if not name:
        problems.append("name part must be non-empty")
    elif _size(name) > 63:
        problems.append(f"name part {_longer_than(63, 'bytes')}")
    if not _is_qualified(name):
        problems.append(f"name part {_qualified_rule()}")
    return problems


def label_value(value: str) -> list[str]:
    if len(value) <= 63 and _is_label_value(value):
        return []
    problems = [_longer_than(63, "bytes")] if _size(value) > 63 else []
    if not _is_label_value(value):
        problems.append(_mismatch(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    problems = [_longer_than(253)] if _size(value) > 253 else []
    if not _is_config_key(value):
        problems.append(_mismatch(_CONFIG_KEY_RULE, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def path_segment(value: str, prefix: bool = False) -> list[str]:
    """Names that need only be safe in a URL path."""
    if not prefix and value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def _without_trailing_dash(name: str, prefix: bool) -> str:
    """A generateName may end in a dash, because more follows; the check sees a name that stands for the longer one."""
    return name[:-2] + "a" if prefix and len(name) > 1 and name.endswith("-") else name


def name_is_subdomain(name: str, prefix: bool = False) -> list[str]:
    return dns1123_subdomain(_without_trailing_dash(name, prefix))


def name_is_label(name: str, prefix: bool = False) -> list[str]:
    return dns1123_label(_without_trailing_dash(name, prefix))


def name_is_dns1035_label(name: str, prefix: bool = False) -> list[str]:
    return dns1035_label(_without_trailing_dash(name, prefix))


def check_labels(labels: Mapping[str, str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(field, key, message) for message in qualified_name(key)]
        errors += [invalid(field, value, message) for message in label_value(value)]
    return errors


def annotations_size(annotations: Mapping[str, str]) -> int:
    return sum(_size(key) + _size(value) for key, value in annotations.items())


def check_annotations(annotations: Mapping[str, str], field: str) -> list[FieldError]:
    errors = [invalid(field, key, message) for key in annotations for message in qualified_name(key.lower())]
    if annotations_size(annotations) > ANNOTATIONS_LIMIT:
        errors.append(too_long(field, ANNOTATIONS_LIMIT))
    return errors


def generate_name(base: str, choose: Callable[[str], str] = random.choice) -> str:
    """`base` (cut so that the whole fits a label) plus a random suffix without vowels or look-alikes."""
    kept = base[: _MAX_NAME_LENGTH - GENERATED_SUFFIX_LENGTH]
    return kept + "".join(choose(_SUFFIX_ALPHABET) for _ in range(GENERATED_SUFFIX_LENGTH))
