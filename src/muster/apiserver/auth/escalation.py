"""Prevention of privilege escalation: writing a role needs every rule in it (or the verb `escalate`), binding a role needs every
rule of the role (or the verb `bind` on it). Follows `k8s.io/kubernetes/pkg/registry/rbac` (`escalation_check.go`, `policybased`).
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.apiserver import errors
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.grants import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.kube.rbac import Rule, shown
from muster.kube.rule_cover import MOST_MISSING, Coverage, RawRule
from muster.machinery.authentication import MASTERS
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object

GROUP = "rbac.authorization.k8s.io"
_ROLE_KINDS = frozenset({ROLES, CLUSTER_ROLES})
_BINDING_KINDS = frozenset({ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS})
_GC_FIELDS = frozenset({"ownerReferences", "finalizers", "managedFields", "selfLink", "resourceVersion"})


async def check_grant(ctx: Context, resource: ServedResource, new: Object, old: Object | None) -> None:
    if resource.group != GROUP or MASTERS in ctx.user.groups:
        return
    if resource.storage in _ROLE_KINDS:
        await _check_role(ctx, resource, new, old)
    elif resource.storage in _BINDING_KINDS:
        await _check_binding(ctx, resource, new, old)


async def _check_role(ctx: Context, resource: ServedResource, new: Object, old: Object | None) -> None:
    name, namespace = new["metadata"].get("name", ""), ctx.namespace_of(resource)
    # As upstream: an object that is being created has no name, so a permission limited to names does not apply.
    escalate = AccessAttributes("escalate", GROUP, "*", resource.plural, namespace=namespace, name=ctx.attributes.name)
    if ctx.cluster.rules.authorize(ctx.user, escalate).allowed or _changes_only_gc_fields(new, old):
        return
    await _require(ctx, resource, name, namespace, new.get("rules") or ())
    if _aggregates(new) or (old is not None and _aggregates(old)):
        everything: list[RawRule] = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]
        if await _missing(ctx, namespace, everything):
            text = "must have cluster-admin privileges to use the aggregationRule"
            raise errors.forbidden(GROUP, resource.plural, name, text)


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _changes_only_gc_fields(new: Object, old: Object | None) -> bool:
    """Whether only fields change that the garbage collector writes (`rbac.IsOnlyMutatingGCFields`). Labels are not among them: they
    decide which roles an aggregated ClusterRole includes."""
    if old is None:
        return False
    metas = [{k: v for k, v in obj["metadata"].items() if k not in _GC_FIELDS} for obj in (new, old)]
    return metas[0] == metas[1] and all(new.get(k) == old.get(k) for k in new.keys() | old.keys() if k != "metadata")


async def _check_binding(ctx: Context, resource: ServedResource, new: Object, old: Object | None) -> None:
    if _changes_only_gc_fields(new, old):
        return
    name, namespace = new["metadata"].get("name", ""), ctx.namespace_of(resource)
    ref = new.get("roleRef") or {}
    plural = "clusterroles" if ref.get("kind") == "ClusterRole" else "roles"
    bind = AccessAttributes("bind", GROUP, "*", plural, namespace=namespace, name=ref.get("name", ""))
    if ctx.cluster.rules.authorize(ctx.user, bind).allowed:
        return
    rules = ctx.cluster.part(Access).rbac.role_rules(ref.get("kind", ""), namespace, ref.get("name", ""))
    if rules is None:
        raise errors.not_found_named(GROUP, resource.plural, ref.get("name", ""))
    await _require(ctx, resource, name, namespace, rules)


async def _missing(ctx: Context, namespace: str, rules: Iterable[RawRule]) -> list[RawRule]:
    owned = ctx.cluster.part(Access).rbac.rules_for(ctx.user, namespace)
    return await ctx.run_in_worker(_uncovered, owned, rules) if ctx.is_large() else _uncovered(owned, rules)


def _uncovered(owned: list[Rule], rules: Iterable[RawRule]) -> list[RawRule]:
    return Coverage(owned).missing(rules)


async def _require(ctx: Context, resource: ServedResource, name: str, namespace: str, rules: Iterable[RawRule]) -> None:
    missing = await _missing(ctx, namespace, rules)
    if not missing:
        return
    groups = " ".join(f'"{group}"' for group in ctx.user.groups)
    lacking = "\n".join(shown(missing)) + ("\nand more" if len(missing) == MOST_MISSING else "")
    text = f'user "{ctx.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{lacking}'
    raise errors.forbidden(GROUP, resource.plural, name, text)
