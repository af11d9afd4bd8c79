"""The permissions that an executor needs for a manifest, and the text of a refusal. Nothing here sends requests.

The verbs are the enhancement's: those of an object's whole life under the work. A manifest that stays when the work is deleted
needs no `delete`; one that is only read, or only created, needs fewer verbs, unless every verb is required as upstream does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.work.v1 import ExecutorServiceAccount
from muster.kube.names import dns1123_subdomain
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import ObjectRef
from muster.work.agent.interfaces import Manifest

_LIFE: Final = ("create", "update", "patch", "get")
_TAKEN: Final = {"ReadOnly": ("get",), "CreateOnly": ("create", "get")}
_LONGEST: Final = 2000
"""Characters of a server's text in a message."""


def identity_of(account: ExecutorServiceAccount) -> UserInfo:
    """The service account as the cluster would know it; it need not exist. The order of the groups is the enhancement's."""
    namespace = account.namespace
    groups = ("system:serviceaccounts", "system:authenticated", f"system:serviceaccounts:{namespace}")
    return UserInfo(f"system:serviceaccount:{namespace}:{account.name}", groups=groups)


def malformed(account: ExecutorServiceAccount) -> str:
    """What is wrong with the names of an executor that got past admission; empty if nothing is. A name with a colon in it would be
    somebody else's."""
    for field, value in (("namespace", account.namespace), ("name", account.name)):
        problems = dns1123_subdomain(value)
        if problems:
            return f"the {field} of the executor's service account, {value[:300]!r}, is not valid: {problems[0]}"
    return ""


def verbs(manifest: Manifest, every: bool) -> tuple[str, ...]:
    """The verbs in the order in which they are checked."""
    strategy = manifest.strategy.type
    taken = _LIFE if every else _TAKEN.get(strategy, _LIFE)
    goes = manifest.owned and (every or strategy != "ReadOnly")
    return (*taken, "delete") if goes else taken


def action(ref: ObjectRef, verb: str) -> AccessAttributes:
    resource = ref.resource
    return AccessAttributes(verb, resource.group, resource.version, resource.plural, namespace=ref.namespace, name=ref.name)


def denial(ref: ObjectRef, problem: str) -> str:
    """Begins as upstream's text does, two spaces for the core group included."""
    resource = ref.resource
    return f"not allowed to apply the resource {resource.group} {resource.plural}, {ref.namespace} {ref.name}, error: {problem}"


def lacking(who: UserInfo, missing: Sequence[str], reason: str) -> str:
    text = f"{who.name} may not {', '.join(missing)} it"
    return f"{text} ({shortened(reason)})" if reason else text


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
