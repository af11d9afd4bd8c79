"""Prevents privilege escalation by works: roles and bindings follow the API server's escalation check (`rbac/escalation_check.go`).

The agent may `escalate` and `bind`, so the server does not stop it. A writer of a role must hold every rule of it (or may
`escalate` it), a writer of a binding every rule of its role (or may `bind` it); a role of the same work counts with the rules it
will have, and with those it has. This is decided here from the cached RBAC, for the object as it will be after the write. Then the
write is sent as a dry run in the executor's name. A dry run alone is not sufficient: the server permits what exists already, and
dry runs are not always possible.

Before a work is written, all writes are checked, and also the manifests as if no object existed, because a deleted object will be
created again. Each write is checked again when it is sent, because it may differ by then.

For the other guarded kinds nothing is known here: the dry run decides alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.kube.rbac import API_GROUP, RawRule, RbacRef, role_ref, shown, uncovered
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object, ObjectRef
from muster.runtime.auth import RbacAuthorizer
from muster.runtime.cache import Presence
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound
from muster.work.agent.executor.demands import shortened
from muster.work.agent.executor.dry_run import DryRunRefused, DryRuns
from muster.work.agent.executor.executor_access import ExecutorAccess
from muster.work.agent.executor.granted_rules import GrantedRules, gathers, granted_by, result, role_of, unreadable
from muster.work.agent.interfaces import ApplyProblem, Drafts, Manifest, ManifestWrite
from muster.work.agent.manifests import as_new
from muster.work.agent.writes import guarded, seen

READS: Final = 3
"""How often an object is read again because it changed meanwhile."""
_ROLES: Final = frozenset({"roles", "clusterroles"})
Planned = Mapping[RbacRef, Sequence[RawRule]]


class Undecided(Exception):
    """The check failed; the text has the reason."""


def judged(manifest: Manifest) -> bool:
    """Whether the verbs are not all that it takes to write it."""
    return guarded(manifest.ref.resource) and manifest.strategy.type != "ReadOnly"


def planned_roles(manifests: Sequence[Manifest]) -> dict[RbacRef, Sequence[RawRule]]:
    """The rules of the roles that a work is to write."""
    return {
        _rbac_ref(manifest.ref): granted_by(manifest.document).rules
        for manifest in manifests
        if judged(manifest) and _is_role(manifest.ref)
    }


def _rbac_ref(ref: ObjectRef) -> RbacRef:
    return RbacRef(ref.resource.kind, ref.namespace, ref.name)


def _is_role(ref: ObjectRef) -> bool:
    return ref.resource.group == API_GROUP and ref.resource.plural in _ROLES


class Escalation:
    def __init__(self, client: KubeClient, rbac: RbacAuthorizer) -> None:
        self._client = client
        self._rbac = rbac
        self._rehearsals = DryRuns(client)

    async def foreseen(self, access: ExecutorAccess, manifest: Manifest, planned: Planned, drafts: Drafts) -> str:
        """Why the executor may not have the manifest applied as things are; empty if it may. Raises KubeError and Undecided."""
        if problem := await self._as_new(access, manifest, planned):
            return problem
        live = await self._live(access, manifest.ref, drafts)
        for _ in range(READS):
            try:
                write = drafts.write(manifest, live)
            except ApplyProblem:
                # Nothing is written as long as that is so.
                return ""
            if write is None:
                # It is as it should be, and kept so; what is only created is not.
                kept = live if manifest.strategy.type != "CreateOnly" else None
                return await self._held(access, manifest.ref, kept, None, planned) if kept is not None else ""
            try:
                return await self.problem(access, manifest.ref, write, live, planned)
            except (AlreadyExists, Conflict, NotFound) as error:
                if isinstance(error, Conflict) and error.causes:
                    # Another field manager's: it will not be written.
                    return ""
                live = await self._read(manifest.ref)
        raise Undecided("the object does not stop changing")

    async def problem(
        self, access: ExecutorAccess, ref: ObjectRef, write: ManifestWrite, live: Object | None, planned: Planned
    ) -> str:
        """Why the executor may not have this written to an object that is so; empty if it may. Raises KubeError and Undecided, and
        Conflict, AlreadyExists and NotFound where the write would end so."""
        if problem := await self._held(access, ref, result(write, live), live, planned):
            return problem
        try:
            refusal = await self._rehearsals.problem(access, ref, write, live)
        except DryRunRefused as error:
            return await self._unrehearsed(access, ref, result(write, live), str(error))
        if refusal and access.followed:
            return f"the cluster refuses it to {access.who.name}: {refusal}"
        return f"permission escalation: {refusal}" if refusal else ""

    async def _as_new(self, access: ExecutorAccess, manifest: Manifest, planned: Planned) -> str:
        """A manifest without the role that it binds cannot be checked as new."""
        document = as_new(manifest.document)
        role_ref = document.get("roleRef")
        partly = isinstance(role_ref, Mapping) and not (role_ref.get("kind") and role_ref.get("name"))
        if not _is_role(manifest.ref) and (role_ref is None or partly):
            return ""
        return await self._held(access, manifest.ref, document, None, planned)

    async def _held(
        self, access: ExecutorAccess, ref: ObjectRef, after: Mapping[str, Any], live: Mapping[str, Any] | None, planned: Planned
    ) -> str:
        """What of an object as it will be, over one as it is, the executor would hand out without having it."""
        if not access.followed or ref.resource.group != API_GROUP:
            return ""
        granted = self._granted(ref, after, live, planned)
        held = self._rbac.rules_for(access.who, ref.namespace)
        missing = [atom for rule in (granted.rules if granted is not None else ()) for atom in uncovered(held, rule)]
        if (granted is not None and not missing) or await self._privileged(access, ref, after):
            return ""
        if granted is None:
            raise Undecided("the role that it binds does not exist")
        text = f"permission escalation: {access.who.name} does not hold {shortened(', '.join(shown(missing)))}"
        return f"{text} ({granted.doubt}: what cannot be read counts as everything)" if granted.doubt else text

    def _granted(
        self, ref: ObjectRef, after: Mapping[str, Any], live: Mapping[str, Any] | None, planned: Planned
    ) -> GrantedRules | None:
        """None where a role is bound of which nothing is known."""
        if _is_role(ref):
            # To end the gathering of a role takes as much as to begin it.
            return granted_by({**after, "aggregationRule": live["aggregationRule"]} if live and gathers(live) else after)
        role = role_of(after)
        if isinstance(role, str):
            return unreadable(role)
        future = planned.get(role_ref(role.kind, ref.namespace, role.name))
        present = self._rbac.role_rules(role.kind, ref.namespace, role.name)
        if future is None and present is None:
            return None
        return GrantedRules((*(future or ()), *(present or ())))

    async def _privileged(self, access: ExecutorAccess, ref: ObjectRef, after: Mapping[str, Any]) -> bool:
        """Whether holding the rules is not necessary."""
        if _is_role(ref):
            privilege = AccessAttributes("escalate", API_GROUP, "*", ref.resource.plural, namespace=ref.namespace, name=ref.name)
        else:
            role = role_of(after)
            if isinstance(role, str):
                return False
            plural = "clusterroles" if role.kind == "ClusterRole" else "roles"
            privilege = AccessAttributes("bind", API_GROUP, "*", plural, namespace=ref.namespace, name=role.name)
        return (await access.authorize(privilege)).allowed

    async def _unrehearsed(self, access: ExecutorAccess, ref: ObjectRef, after: Mapping[str, Any], why: str) -> str:
        if ref.resource.group != API_GROUP:
            return f"it could not be rehearsed in the name of {access.who.name}: {why}"
        if not access.followed and not await self._privileged(access, ref, after):
            raise Undecided(f"RBAC cannot be followed, and {why}")
        return ""

    async def _live(self, access: ExecutorAccess, ref: ObjectRef, drafts: Drafts) -> Object | None:
        found = drafts.observed(ref)
        if found.presence is not Presence.UNKNOWN:
            return seen(ref, found)
        if ref.resource.group == API_GROUP and access.followed and self._rbac.read(_rbac_ref(ref)) is not None:
            return await self._read(ref)
        # A rehearsal finds out if it is there.
        return None

    async def _read(self, ref: ObjectRef) -> Object | None:
        try:
            return await self._client.get(ref.resource, ref.name, ref.namespace)
        except NotFound:
            return None
