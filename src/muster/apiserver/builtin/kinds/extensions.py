"""Webhook configurations, admission policies, APIServices, and small cluster-scoped classes."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from muster.apiserver.builtin.kinds.checks import (
    Errors,
    Validator,
    fully_qualified,
    immutable,
    label_selector,
    named_like,
    one_of,
    repeated,
    spec_of,
)
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import duplicate, forbidden, invalid, not_supported, required
from muster.machinery.objects import Object

_OPERATIONS: Final = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES: Final = ["*", "Cluster", "Namespaced"]
_NO_SIDE_EFFECTS: Final = ["None", "NoneOnDryRun"]
_REVIEW_VERSIONS: Final = "v1, v1beta1"
_FORM: Final = "; desired format: https://host[/path]"
_HIGHEST_PRIORITY: Final = 1_000_000_000
_SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _resources(resources: list[str], path: str) -> Errors:
    errors: Errors = [] if resources else [required(path)]
    errors += [required(f"{path}[{index}]") for index, name in enumerate(resources) if not name]
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and any("/" not in name and name != "*" for name in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _rule(rule: Object, path: str) -> Errors:
    errors: Errors = []
    operations = rule.get("operations") or []
    if not operations:
        errors.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        errors.append(invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations"))
    errors += [
        not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            errors.append(invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {what}"))
    errors += _resources(rule.get("resources") or [], f"{path}.resources")
    return errors + one_of(rule.get("scope"), _SCOPES, f"{path}.scope", optional=True)


def webhook_url(url: str, path: str) -> Errors:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_FORM}")]
    errors: Errors = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not parts.netloc:
        errors.append(invalid(path, parts.netloc, f"host must be specified{_FORM}"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def service_reference(service: Object, path: str) -> Errors:
    errors: Errors = [required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        errors.append(invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    route = service.get("path")
    if route and not route.startswith("/"):
        errors.append(invalid(f"{path}.path", route, "must start with a '/'"))
    return errors


def _client(client: Object, path: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return webhook_url(url, f"{path}.url") if url is not None else service_reference(service or {}, f"{path}.service")


def _review_versions(versions: list[str], path: str) -> Errors:
    if not versions:
        return [required(path, f"must specify one of {_REVIEW_VERSIONS}")]
    errors: Errors = []
    again = set(repeated(versions))
    for index, version in enumerate(versions):
        if index in again:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        errors += named_like(names.dns1035_label, version, f"{path}[{index}]")
    if not {"v1", "v1beta1"} & set(versions):
        errors.append(invalid(path, versions, f"must include at least one of {_REVIEW_VERSIONS}"))
    return errors


def _webhook(hook: Object, path: str, mutating: bool) -> Errors:
    errors = fully_qualified(hook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += _rule(rule, f"{path}.rules[{index}]")
    errors += one_of(hook.get("failurePolicy"), ["Fail", "Ignore"], f"{path}.failurePolicy", optional=True)
    errors += one_of(hook.get("matchPolicy"), ["Equivalent", "Exact"], f"{path}.matchPolicy", optional=True)
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}"))
    elif effects not in _NO_SIDE_EFFECTS:
        errors.append(not_supported(f"{path}.sideEffects", effects, _NO_SIDE_EFFECTS))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        errors.append(invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"))
    for field in ("namespaceSelector", "objectSelector"):
        errors += label_selector(hook.get(field), f"{path}.{field}")
    if mutating:
        errors += one_of(hook.get("reinvocationPolicy"), ["IfNeeded", "Never"], f"{path}.reinvocationPolicy", optional=True)
    errors += _client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    errors += _match_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
    return errors + _review_versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")


def expression(text: str, path: str, missing: str = "", params: bool = False) -> Errors:
    """Validate a CEL condition: it must compile and return a bool."""
    if not text.strip():
        return [required(path, missing)]
    from muster.apiserver.cel_environment import compile_expression, environment

    problem = compile_expression(text.strip(), environment(params)).problem
    return [invalid(path, text.strip(), problem)] if problem else []


def _match_conditions(conditions: list[Object], path: str, params: bool = False) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        errors += expression(condition.get("expression") or "", f"{path}[{index}].expression", params=params)
        name = condition.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        else:
            errors += named_like(names.qualified_name, name, f"{path}[{index}].name")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}].name", name))
        seen.add(name)
    return errors


def _webhooks(mutating: bool) -> Validator:
    def validate(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for index, hook in enumerate(obj.get("webhooks") or ()):
            errors += _webhook(hook, f"webhooks[{index}]", mutating)
            name = hook.get("name", "")
            if name and name in seen:
                errors.append(duplicate(f"webhooks[{index}].name", name))
            seen.add(name)
        return errors

    return validate


validate_mutating_webhooks: Final = _webhooks(True)
validate_validating_webhooks: Final = _webhooks(False)


def validate_admission_policy(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    from muster.apiserver.builtin.kinds.policyexpressions import check_policy_expressions

    spec = spec_of(obj)
    errors = one_of(spec.get("failurePolicy"), ["Fail", "Ignore"], "spec.failurePolicy")
    kind = spec.get("paramKind")
    if kind is not None:
        errors += _param_kind(kind, "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += _match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    errors += _match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", params=kind is not None)
    return errors + check_policy_expressions(obj["metadata"].get("name", ""), spec)


def _param_kind(kind: Object, path: str) -> Errors:
    errors: Errors = []
    text, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    group, _, version = text.rpartition("/")
    if not text:
        errors.append(required(f"{path}.apiVersion"))
    elif text.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", text, f"unexpected GroupVersion string: {text}"))
    else:
        problems = names.dns1123_subdomain(group) if group else []
        if problems:
            errors.append(invalid(f"{path}.apiVersion", group, ",".join(problems)))
        problems = names.dns1035_label(version) if version else ["version must be specified"]
        if problems:
            errors.append(invalid(f"{path}.apiVersion", version or text, ",".join(problems)))
    if not name:
        errors.append(required(f"{path}.kind"))
    elif names.dns1035_label(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(names.dns1035_label(name.lower()))
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


def _match_resources(match: Object, path: str) -> Errors:
    errors = one_of(match.get("matchPolicy"), ["Equivalent", "Exact"], f"{path}.matchPolicy")
    for field in ("namespaceSelector", "objectSelector"):
        errors += label_selector(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += _rule(rule, f"{path}.{field}[{index}]")
    return errors


def validate_admission_binding(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    name = spec.get("policyName", "")
    errors = named_like(names.dns1123_subdomain, name, "spec.policyName") if name else [required("spec.policyName")]
    reference = spec.get("paramRef")
    if reference is not None:
        errors += _param_reference(reference, "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += _match_resources(spec["matchResources"], "spec.matchResources")
    actions = spec.get("validationActions") or []
    if not actions:
        errors.append(required("spec.validationActions", "at least one validation action is required"))
    errors += [
        not_supported(f"spec.validationActions[{index}]", action, ["Audit", "Deny", "Warn"])
        for index, action in enumerate(actions)
        if action not in ("Audit", "Deny", "Warn")
    ]
    errors += [duplicate(f"spec.validationActions[{i}]", actions[i]) for i in repeated(actions)]
    if "Deny" in actions and "Warn" in actions:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
            "headers serves no purpose)"
        )
        errors.append(invalid("spec.validationActions", actions, text))
    return errors


def _param_reference(reference: Object, path: str) -> Errors:
    errors: Errors = []
    name, selector = reference.get("name"), reference.get("selector")
    if name and selector is not None:
        text = "name and selector are mutually exclusive"
        errors += [forbidden(f"{path}.name", text), forbidden(f"{path}.selector", text)]
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    return errors + one_of(reference.get("parameterNotFoundAction"), ["Deny", "Allow"], f"{path}.parameterNotFoundAction")


def local_condition(now: str) -> Object:
    """The condition Available of a local APIService."""
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


def prepare_api_service(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Set local APIServices available."""
    if old is None:
        local = spec_of(obj).get("service") is None
        obj["status"] = {"conditions": [local_condition(ctx.now())]} if local else {}


def validate_api_service(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    group, version = spec.get("group", ""), spec.get("version", "")
    name, expected = obj["metadata"].get("name", ""), f"{version}.{group}"
    errors: Errors = []
    if name != expected:
        errors.append(invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{expected}"'))
    if not group and version != "v1":
        errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        errors += named_like(names.dns1123_subdomain, group, "spec.group")
    errors += named_like(names.dns1035_label, version, "spec.version")
    for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < spec.get(field, 0) <= limit:
            errors.append(invalid(f"spec.{field}", spec.get(field, 0), f"must be positive and less than {limit}"))
    service = spec.get("service")
    if service is None:
        if spec.get("caBundle"):
            errors.append(invalid("spec.caBundle", f"{len(spec['caBundle'])} bytes", "local APIServices may not have a caBundle"))
        if spec.get("insecureSkipTLSVerify"):
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
        return errors
    errors += [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        errors.append(invalid("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.append(invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return errors


def validate_priority_class(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    value = obj.get("value", 0)
    if old is not None:
        errors: Errors = [forbidden("value", "may not be changed in an update.")] if value != old.get("value", 0) else []
        return errors + immutable(obj.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
    name = obj["metadata"].get("name", "")
    errors = []
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value:
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
            )
            errors.append(forbidden("metadata.name", text))
    elif value > _HIGHEST_PRIORITY:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"))
    return errors + one_of(obj.get("preemptionPolicy"), ["PreemptLowerPriority", "Never"], "preemptionPolicy", optional=True)


def validate_runtime_class(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    handler = obj.get("handler", "")
    if old is not None:
        return immutable(handler, old.get("handler", ""), "handler")
    return named_like(names.dns1123_label, handler, "handler")


def validate_flow_schema(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors: Errors = []
    precedence = spec.get("matchingPrecedence", 0)
    if not 1 <= precedence <= 10000:
        errors.append(invalid("spec.matchingPrecedence", precedence, "must be a value between 1 and 10000, inclusive"))
    if not (spec.get("priorityLevelConfiguration") or {}).get("name"):
        errors.append(required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
    return errors


def validate_priority_level(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    kind = spec.get("type", "")
    if kind not in ("Exempt", "Limited"):
        return [not_supported("spec.type", kind, ["Exempt", "Limited"])]
    if kind == "Limited" and spec.get("limited") is None:
        return [required("spec.limited", "must not be empty when type is Limited")]
    if kind == "Exempt" and spec.get("limited") is not None:
        return [forbidden("spec.limited", "must be nil if the type is not Limited")]
    return []
