"""Nobody gets more by a work than its executor has: roles and bindings are held to the rule that the API server has for them.

The agent may `escalate` and `bind`, so the server does not stop it. Whoever writes a role must hold every rule of it (or may
`escalate` it), whoever binds one must hold every rule of that (or may `bind` it); a role of the same work counts with the rules it
will have, and with those it has. What a manifest does not say of a role or binding that is there stays as it is, so it counts too.
That is decided here from RBAC as it is known. Then applying is rehearsed: a server-side apply in the executor's name that changes
nothing, so that the server itself, and its admission, have their say. A rehearsal alone would not do: the server lets everybody
write what is there already, and it would let the agent restore it for ever after; and it may refuse for reasons of its own what
the agent then writes in another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.kube.rbac import API_GROUP, EVERYTHING, Place, RawRule, role_place, shown, uncovered
from muster.logs import get_logger
from muster.runtime.delegation import Action
from muster.runtime.errors import AlreadyExists, Forbidden, StatusError
from muster.runtime.rbac import RbacAuthorizer
from muster.runtime.resource import Object
from muster.runtime.verbs import KubeClient
from muster.work.agent.executor.demands import shortened, verbs
from muster.work.agent.executor.standing import Standing
from muster.work.agent.manifests import as_new
from muster.work.agent.seam import Manifest
from muster.work.names import AGENT

log = get_logger("muster.work.agent.executor")

_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
Planned = Mapping[Place, Sequence[RawRule]]


class Undecided(Exception):
    """It could not be found out; the text says why."""


def grants(manifest: Manifest) -> bool:
    """Whether applying it gives permissions to somebody."""
    resource = manifest.ref.resource
    return resource.group == API_GROUP and resource.plural in _ROLES | _BINDINGS and manifest.strategy.type != "ReadOnly"


def planned_roles(manifests: Sequence[Manifest]) -> dict[Place, list[RawRule]]:
    """The rules of the roles that a work is to write."""
    return {
        Place(manifest.ref.resource.kind, manifest.ref.namespace, manifest.ref.name): role_wants(manifest.document)
        for manifest in manifests
        if grants(manifest) and manifest.ref.resource.plural in _ROLES
    }


def role_wants(role: Object, live: Mapping[str, Any] | None = None) -> list[RawRule]:
    """What must be held to write a role, over the one that is there; one that gathers others may come to hold anything."""
    live = live or {}
    said = role.get("rules")
    listed = said if isinstance(said, list) else live.get("rules") or ()
    rules: list[RawRule] = [rule for rule in listed if _is_rule(rule)]
    if _gathers(role) or _gathers(live):
        rules += [rule.raw for rule in EVERYTHING]
    return rules


def _is_rule(rule: object) -> bool:
    """A role with any other among its rules is refused by the server, and so grants nothing."""
    return isinstance(rule, Mapping) and all(
        value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)) for value in rule.values()
    )


def _gathers(role: Mapping[str, Any]) -> bool:
    aggregation = role.get("aggregationRule")
    return isinstance(aggregation, Mapping) and bool(aggregation.get("clusterRoleSelectors"))


class Escalation:
    def __init__(self, client: KubeClient, rbac: RbacAuthorizer, every_verb: bool) -> None:
        self._client = client
        self._rbac = rbac
        self._every_verb = every_verb
        self._warned = False

    async def problem(self, standing: Standing, manifest: Manifest, planned: Planned) -> str:
        """Why the executor may not grant what the manifest grants; empty if it may. Raises KubeError and Undecided."""
        if standing.followed:
            wanted = self._wanted(manifest, planned)
            held = self._rbac.rules_for(standing.who, manifest.ref.namespace)
            missing = [atom for rule in wanted or () for atom in uncovered(held, rule)]
            if (missing or wanted is None) and not (await standing.may(self._privilege(manifest))).allowed:
                if wanted is None:
                    raise Undecided("the role that it binds does not exist")
                return f"permission escalation: {standing.who.name} does not hold {shortened(', '.join(shown(missing)))}"
        if "patch" not in verbs(manifest, self._every_verb) and standing.followed:
            # To apply is more than to create, so rehearsing it could be refused for lack of what is not needed.
            return ""
        return await standing.rehearsals.ask((manifest.ref, manifest.digest), lambda: self._rehearsed(standing, manifest))

    def _wanted(self, manifest: Manifest, planned: Planned) -> list[RawRule] | None:
        """What must be held; None where a role is bound of which nothing is known."""
        if manifest.ref.resource.plural in _ROLES:
            return role_wants(manifest.document, self._live(manifest))
        kind, name = self._role_ref(manifest)
        place = role_place(kind, manifest.ref.namespace, name)
        future, present = planned.get(place), self._rbac.role_rules(kind, manifest.ref.namespace, name)
        if future is None and present is None:
            return None
        return [*(future or ()), *(present or ())]

    def _live(self, manifest: Manifest) -> Mapping[str, Any]:
        """What is there and will be written over, as far as it decides anything; nothing where it is left alone."""
        ref = manifest.ref
        if manifest.strategy.type == "CreateOnly":
            return {}
        return self._rbac.read(Place(ref.resource.kind, ref.namespace, ref.name)) or {}

    def _role_ref(self, manifest: Manifest) -> tuple[str, str]:
        """Kind and name of what a binding binds."""
        said = manifest.document.get("roleRef")
        ref = {**(self._live(manifest).get("roleRef") or {}), **(said if isinstance(said, Mapping) else {})}
        return str(ref.get("kind", "")), str(ref.get("name", ""))

    def _privilege(self, manifest: Manifest) -> Action:
        """What makes holding the rules unnecessary."""
        ref = manifest.ref
        if ref.resource.plural in _ROLES:
            return Action("escalate", API_GROUP, ref.resource.plural, ref.namespace, ref.name)
        kind, name = self._role_ref(manifest)
        return Action("bind", API_GROUP, "clusterroles" if kind == "ClusterRole" else "roles", ref.namespace, name)

    async def _rehearsed(self, standing: Standing, manifest: Manifest) -> str:
        tried, problem = 0, ""
        while not tried or (problem and await standing.again(tried)):
            tried += 1
            problem = await self._rehearse(standing, manifest)
        return problem

    async def _rehearse(self, standing: Standing, manifest: Manifest) -> str:
        client, ref = self._client.as_user(standing.who.name), manifest.ref
        document = as_new(manifest.document)
        try:
            if "patch" in verbs(manifest, self._every_verb):
                await client.apply(ref.resource, document, manager=AGENT, force=True, dry_run=True)
            else:
                await client.create(ref.resource, document, ref.namespace, dry_run=True)
        except AlreadyExists:
            pass
        except Forbidden as error:
            if error.details.get("kind") == "serviceaccounts":
                return self._without_impersonation(standing)
            if standing.followed:
                return f"the cluster refuses it to {standing.who.name}: {shortened(error.message)}"
            return f"permission escalation: {shortened(error.message)}"
        except StatusError as error:
            # A namespace that is yet to come, a role that the same work brings, an invalid object: no word about permissions.
            if error.code >= 500 or error.code == 429:
                raise
            if not standing.followed and not (await standing.may(self._privilege(manifest))).allowed:
                raise Undecided(shortened(error.message)) from error
        return ""

    def _without_impersonation(self, standing: Standing) -> str:
        """The refusal was the agent's own: it may not act as the executor."""
        if not self._warned:
            self._warned = True
            log.warning(
                "may not impersonate executors: roles and bindings are checked without a rehearsal", executor=standing.who.name
            )
        if not standing.followed:
            raise Undecided(f"the work agent may neither follow RBAC nor impersonate {standing.who.name}")
        return ""
