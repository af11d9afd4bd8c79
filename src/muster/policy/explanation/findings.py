"""Checks of a policy's templates without any cluster.

Errors are templates that can never be resolved: invalid syntax, and functions that are always denied. Warnings are templates
that can be resolved, but rarely as intended: output that changes with every run, so that the policy never settles, and places in
which a template is not resolved, or does not get the type that it seems to have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.gotemplate import Func, GoError, ParseError, Template
from muster.machinery.objects import Object
from muster.policy.configuration.skip import SKIP_OBJECT
from muster.policy.names import HUB_DELIMITERS, MANAGED_DELIMITERS
from muster.policy.resolver import documents, has_template
from muster.policy.resolver.functions import HOST_FUNCTIONS, function_table
from muster.policy.resolver.passes import Passes

ERROR: Final = "error"
WARNING: Final = "warning"
_UNSETTLED: Final = frozenset(
    {
        "ago", "bcrypt", "buildCustomCert", "encryptAES", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert",
        "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "htpasswd", "now", "randAlpha", "randAlphaNum",
        "randAscii", "randBytes", "randInt", "randNumeric", "shuffle", "uuidv4",
    }
)  # fmt: skip
_TYPED: Final = "toInt|toBool|toLiteral|copyConfigMapData|copySecretData"


@dataclass(frozen=True)
class Finding:
    level: str
    where: str
    message: str


@dataclass(frozen=True)
class _Part:
    """A value that is resolved as one template."""

    where: str
    value: Any
    delims: tuple[str, str]
    custom: Mapping[str, Func]


def lint(document: Object) -> list[Finding]:
    """Checks one policy, or the policies in a Policy."""
    if document.get("kind") == "Policy":
        templates = (document.get("spec") or {}).get("policy-templates") or ()
        policies = [one.get("objectDefinition") for one in templates if isinstance(one, dict)]
        return [finding for policy in policies if isinstance(policy, dict) for finding in lint(policy)]
    found = list(_of_metadata(document))
    for part in _parts(document):
        found += _of_part(part)
    return found


def _parts(document: Object) -> Iterator[_Part]:
    spec = document.get("spec") or {}
    if has_template(orjson.dumps(spec).decode(), HUB_DELIMITERS):
        yield _Part("", {**document, "metadata": {}}, HUB_DELIMITERS, {})
    kind = document.get("kind")
    if kind == "ConfigurationPolicy":
        if raw := spec.get("object-templates-raw"):
            yield _Part("spec.object-templates-raw", raw, MANAGED_DELIMITERS, SKIP_OBJECT)
        for index, template in enumerate(spec.get("object-templates") or ()):
            where = f"spec.object-templates[{index}].objectDefinition"
            yield _Part(where, (template or {}).get("objectDefinition"), MANAGED_DELIMITERS, SKIP_OBJECT)
    elif kind == "OperatorPolicy":
        for name in ("operatorGroup", "subscription", "versions"):
            yield _Part(f"spec.{name}", spec.get(name), MANAGED_DELIMITERS, {})
    else:
        yield _Part("", document, MANAGED_DELIMITERS, {})


def _of_metadata(document: Object) -> Iterator[Finding]:
    metadata = document.get("metadata") or {}
    for name in ("labels", "annotations"):
        if document.get("kind") in ("ConfigurationPolicy", "OperatorPolicy") and has_template(
            orjson.dumps(metadata.get(name) or {}).decode(), HUB_DELIMITERS
        ):
            yield Finding(WARNING, f"metadata.{name}", "hub templates are resolved in the spec only: here they stay unresolved")


def _of_part(part: _Part) -> Iterator[Finding]:
    text = orjson.dumps(part.value).decode()
    if part.value is None or not has_template(text, part.delims):
        return
    if part.delims == MANAGED_DELIMITERS and has_template(text, HUB_DELIMITERS):
        # Hub templates are resolved before managed templates, to an unknown value.
        return
    try:
        yaml = part.value if isinstance(part.value, str) else documents.to_yaml(documents.encoded(part.value))
        processed = Passes(part.delims, 0)(yaml)
        template = Template(processed, delims=part.delims, funcs=function_table(0, part.custom, frozenset()))
    except (ParseError, GoError) as error:
        yield Finding(ERROR, part.where, str(error))
        return
    for name in sorted(template.functions & HOST_FUNCTIONS):
        yield Finding(ERROR, part.where, f"{name} is denied: it would show the controller's environment")
    for name in sorted(template.functions & _UNSETTLED):
        yield Finding(WARNING, part.where, f"{name} returns another value each time: the policy never settles")
    if "getHostByName" in template.functions:
        yield Finding(WARNING, part.where, "getHostByName asks the controller's DNS, and its answer may change")
    for applies, message in _LINE_CHECKS:
        for number, line in enumerate(processed.split("\n"), 1):
            if applies(line, part.delims):
                yield Finding(WARNING, f"{part.where} line {number}".strip(), message)


def _in_list(line: str, delims: tuple[str, str]) -> bool:
    action = rf"{re.escape(delims[0])}[^\n]*(?:{_TYPED})"
    return re.match(rf"\s*- '?{action}", line) is not None


def _with_text_behind(line: str, delims: tuple[str, str]) -> bool:
    """The pass that removes quotes removes the first one and not the last."""
    return re.search(rf": {re.escape(delims[0])}[^\n]*(?:{_TYPED})[^\n]*{re.escape(delims[1])}[^\n]*'$", line) is not None


_LINE_CHECKS: Final[tuple[tuple[Callable[[str, tuple[str, str]], bool], str], ...]] = (
    (_in_list, "in an item of a list the result stays a string: only values of fields get another type"),
    (_with_text_behind, "text behind an action that is no string leaves a quote in the value"),
)
