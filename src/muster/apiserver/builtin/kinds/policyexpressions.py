"""The expressions of a ValidatingAdmissionPolicy: each must compile with the variables declared before it and return the right
type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from muster.apiserver.builtin.kinds.checks import Errors, named_like
from muster.apiserver.cel_environment import Compiled, Composition, compile_expression
from muster.cel import BOOL, NULL, STRING, Environment, Type, escape
from muster.kube import names
from muster.kube.fielderrors import duplicate, invalid, not_supported, required
from muster.machinery.objects import Object

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_REASONS: Final = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION_LENGTH: Final = 5 * 1024


def check_policy_expressions(name: str, spec: Object) -> Errors:
    composition = Composition([v for v in spec.get("variables") or () if v.get("name")], spec.get("paramKind") is not None)
    errors: Errors = []
    for index, variable in enumerate(spec.get("variables") or ()):
        errors += _variable(variable, composition, f"spec.variables[{index}]")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        return [*errors, required("spec.validations", text), required("spec.auditAnnotations", text)]
    full, plain = composition.environment(), composition.environment(authorizer=False)
    for index, validation in enumerate(spec.get("validations") or ()):
        errors += _validation(validation, full, plain, f"spec.validations[{index}]")
    return errors + _annotations(name, spec.get("auditAnnotations") or [], full)


def _compiles(text: str, where: Environment, types: Sequence[Type], path: str) -> Errors:
    return _reported(compile_expression(text, where, types), path)


def _reported(compiled: Compiled, path: str) -> Errors:
    return [invalid(path, compiled.text, compiled.problem)] if compiled.problem else []


def _variable(variable: Object, composition: Composition, path: str) -> Errors:
    name, errors = variable.get("name") or "", Errors()
    if not name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.match(name) or escape(name) == f"__{name}__":
        errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if not (variable.get("expression") or "").strip():
        return [*errors, required(f"{path}.expression", "expression is not specified")]
    compiled = composition.compiled.get(name)
    return errors + (_reported(compiled, f"{path}.expression") if compiled is not None else [])


def _validation(validation: Object, full: Environment, plain: Environment, path: str) -> Errors:
    errors: Errors = []
    expression, message = validation.get("expression") or "", validation.get("message") or ""
    if not expression.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += _compiles(expression, full, (BOOL,), f"{path}.expression")
    wording = validation.get("messageExpression") or ""
    if wording and not wording.strip():
        errors.append(invalid(f"{path}.messageExpression", wording, "must be non-empty if specified"))
    elif wording:
        errors += _compiles(wording, plain, (STRING,), f"{path}.messageExpression")
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        errors.append(not_supported(f"{path}.reason", reason, _REASONS))
    return errors


def _annotations(name: str, annotations: list[Object], full: Environment) -> Errors:
    path, errors, seen = "spec.auditAnnotations", Errors(), set[str]()
    if len(annotations) > _MAX_ANNOTATIONS:
        errors.append(invalid(path, annotations, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"))
    for index, annotation in enumerate(annotations):
        key, value = annotation.get("key") or "", (annotation.get("valueExpression") or "").strip()
        errors += named_like(names.qualified_name, f"{name}/{key}", f"{path}[{index}].key")
        if not value:
            errors.append(required(f"{path}[{index}].valueExpression", "valueExpression is not specified"))
        elif len(value) > _MAX_ANNOTATION_LENGTH:
            errors.append(required(f"{path}[{index}].valueExpression", f"must not exceed {_MAX_ANNOTATION_LENGTH} bytes in length"))
        else:
            errors += _compiles(value, full, (STRING, NULL), f"{path}[{index}].valueExpression")
        if key in seen:
            errors.append(duplicate(f"{path}[{index}].key", key))
        seen.add(key)
    return errors
