"""Validation that many kinds share, with kube-apiserver's messages. Each function returns a list of field errors, empty if
valid."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import OMITTED, FieldError, field_error, invalid, not_supported, required
from muster.kube.selectors import SelectorError, check_label_selector, from_label_selector_object
from muster.machinery.objects import Object

Errors = list[FieldError]
Validator = Callable[[HookContext, Object, Object | None], Errors]

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_PORT_NAME = re.compile(r"[-a-z0-9]+", re.ASCII)
_PERCENT = re.compile(r"[0-9]+%", re.ASCII)


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def status_of(obj: Object) -> Object:
    return obj.get("status") or {}


def require(holder: Mapping[str, Any], field: str, path: str, detail: str = "") -> Errors:
    """The error if a required field is empty."""
    return [] if holder.get(field) else [required(f"{path}.{field}" if path else field, detail)]


def one_of(value: Any, allowed: Iterable[str], path: str, optional: bool = False) -> Errors:
    """Validate an enumeration; an empty value is an error unless `optional`."""
    if not value:
        return [] if optional else [required(path)]
    supported = list(allowed)
    return [] if value in supported else [not_supported(path, value, supported)]


def not_negative(value: Any, path: str) -> Errors:
    return [invalid(path, value, NOT_NEGATIVE)] if isinstance(value, int) and value < 0 else []


def none_negative(holder: Mapping[str, Any], fields: Iterable[str], path: str) -> Errors:
    return [error for field in fields for error in not_negative(holder.get(field), f"{path}.{field}")]


def immutable(new: Any, old: Any, path: str) -> Errors:
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def named_like(rule: Callable[[str], list[str]], value: str, path: str) -> Errors:
    return [invalid(path, value, text) for text in rule(value)]


def port_number(value: Any, path: str) -> Errors:
    return (
        [] if isinstance(value, int) and 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]
    )


def port_name_problems(name: str) -> list[str]:
    problems = []
    if len(name) > 15:
        problems.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number_or_name(value: Any, path: str) -> Errors:
    return named_like(port_name_problems, value, path) if isinstance(value, str) else port_number(value, path)


def int_or_percent(value: Any, path: str, at_most_100: bool = False) -> Errors:
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
                "validation is '[0-9]+%')"
            )
            return [invalid(path, value, text)]
        return [invalid(path, value, "must not be greater than 100%")] if at_most_100 and int(value[:-1]) > 100 else []
    return not_negative(value, path)


def amount_of(value: Any) -> int:
    """The number of an int-or-percent."""
    return (
        int(value.rstrip("%") or 0)
        if isinstance(value, str) and value.rstrip("%").isdigit()
        else value
        if isinstance(value, int)
        else 0
    )


def label_selector(selector: Any, path: str) -> Errors:
    return check_label_selector(selector, path) if selector else []


def is_empty_selector(selector: Mapping[str, Any]) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool | None:
    """Whether the labels match; None if the selector is invalid."""
    try:
        return from_label_selector_object(selector).matches(labels or {})
    except SelectorError:
        return None


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def endpoint_ip(text: str, path: str, loopback: bool = False) -> Errors:
    """Validate the address of an endpoint; loopback addresses are allowed only with `loopback`."""
    if not is_ip(text):
        return [invalid(path, text, "must be a valid IP address")]
    address = ipaddress.ip_address(text)
    unspecified = f"may not be unspecified ({address})"
    rules = (
        (address.is_unspecified, unspecified),
        (address.is_loopback and not loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (
            address.is_multicast and str(address)[:4] in ("224.", "ff02"),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    )
    return [invalid(path, text, problem) for broken, problem in rules if broken]


def struct_error(reason: str, path: str, value: Mapping[str, Any], detail: str) -> FieldError:
    """An error that shows the value with the field names and order of the Go type."""
    shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return field_error(reason, path, OMITTED, f"{shown}: {detail}" if detail else shown)


def valid_ip(text: str, path: str) -> Errors:
    return [] if is_ip(text) else [invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]


def repeated(values: Sequence[Hashable]) -> list[int]:
    """Positions of repeated values."""
    seen: set[Hashable] = set()
    found: list[int] = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(index)
        seen.add(value)
    return found


def fully_qualified(value: str, path: str) -> Errors:
    """Validate a domain with at least three segments (webhook names)."""
    if not value:
        return [required(path)]
    problems = names.dns1123_subdomain(value)
    if problems:
        return [invalid(path, value, ", ".join(problems))]
    if len(value.split(".")) < 3:
        return [invalid(path, value, "should be a domain with at least three segments separated by dots")]
    return []


def qualified(value: str, path: str) -> Errors:
    return named_like(names.qualified_name, value, path)


def on_spec(validate: Validator) -> Validator:
    """A validation that is skipped when only the status is written."""

    def checked(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
        return [] if ctx.subresource == "status" else validate(ctx, obj, old)

    return checked
