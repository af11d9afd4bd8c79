"""The permissions that a refused work lacks, as complete kubectl commands for an administrator.

A `Grant` is one missing permission. Grants to one subject in one namespace that differ only in the resource become one role with
its binding. A role's name is derived from its content, so repeating the commands never changes another role.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Grant:
    """`resource` is in kubectl's notation, with its group; without a namespace it is cluster-wide."""

    purpose: str
    """What roles are named after."""
    subject: str
    """The flag by which kubectl binds the role to it."""
    namespace: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""
    """The only object that it is for; empty for all."""


def commands(grants: Iterable[Grant]) -> list[str]:
    """A role and its binding for grants that go together, in the order in which they were found."""
    together: dict[tuple[str, str, str, tuple[str, ...], str], list[str]] = {}
    for grant in grants:
        resources = together.setdefault((grant.purpose, grant.subject, grant.namespace, grant.verbs, grant.name), [])
        if grant.resource not in resources:
            resources.append(grant.resource)
    return [line for key, resources in together.items() for line in _pair(*key, resources)]


def _pair(purpose: str, subject: str, namespace: str, verbs: tuple[str, ...], name: str, resources: list[str]) -> tuple[str, str]:
    content = repr((subject, namespace, verbs, name, sorted(resources)))
    role = shlex.quote(f"{purpose[:200]}-{hashlib.sha256(content.encode()).hexdigest()[:6]}")
    kind = "role" if namespace else "clusterrole"
    where = f" -n {shlex.quote(namespace)}" if namespace else ""
    only = f" --resource-name={shlex.quote(name)}" if name else ""
    rights = f"--verb={','.join(verbs)} --resource={shlex.quote(','.join(resources))}{only}"
    return (
        f"kubectl create {kind} {role}{where} {rights}",
        f"kubectl create {kind}binding {role}{where} --{kind}={role} {shlex.quote(subject)}",
    )
