"""Writes the status of ConfigurationPolicies, and reports changes to their owners and as Events.

The order is: the owner's event, the status, the policy's own event. The policy framework reads the first; until the status is
written, it is sent again. A concurrent write to the policy does not invalidate an evaluation, so the status is written anyway,
but not to another policy of the same name.

Readers of messages may lack access to the hub's Secrets. If hub templates have read any, a custom message is rendered from the
policy with unresolved hub templates, and a custom message that contains hub templates itself is withheld. Custom messages are
rendered in a thread, since they may take as long as any template.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from muster.api.policy.v1 import ConfigurationPolicy, ConfigurationPolicyStatus
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.configuration.followers import KIND, followed_objects
from muster.policy.configuration.interfaces import Evaluation
from muster.policy.configuration.messages import custom_template, default_message, policy_message
from muster.policy.configuration.status import Compose, StatusUpdate, next_status
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import HUB_DELIMITERS
from muster.policy.reporter import COMPLIANT, NON_COMPLIANT, PolicyReporter
from muster.policy.resolver.template_runner import run_in_thread
from muster.runtime.cache import FollowedSelections, MutationCache
from muster.runtime.client import Conflict, KubeClient, KubeError, NotFound, patch_object

log = get_logger("muster.policy.configuration.status_writer")

STATUS_ATTEMPTS: Final = 3
_WITHHELD: Final = "the custom message is withheld because its hub templates may have read Secrets"


class StatusWriter:
    def __init__(
        self,
        client: KubeClient,
        cache: Callable[[str], MutationCache[ConfigurationPolicy]],
        selections: FollowedSelections,
        reporter: PolicyReporter,
        metrics: PolicyMetrics,
        *,
        denylist: frozenset[str] = frozenset(),
        clock: Clock = SYSTEM,
    ) -> None:
        """`cache` returns the cache of a namespace's policies, which records writes. `denylist` are functions that custom
        messages may not call."""
        self._client = client
        self._cache = cache
        self._selections = selections
        self._reporter = reporter
        self._metrics = metrics
        self._denylist = denylist
        self._clock = clock

    async def report(
        self,
        policy: ConfigurationPolicy,
        resolved: Object,
        evaluation: Evaluation,
        *,
        watching: bool = True,
        sensitive: bool = False,
    ) -> ConfigurationPolicy:
        """Report the result of an evaluation, and return the updated policy. `resolved` is the policy with its hub templates
        resolved, `sensitive` whether those have read Secrets. Raises KubeError, after which it has to be reported again."""
        key, document = ObjectKey(policy.metadata.namespace, policy.metadata.name), policy.document()
        compose = await self._composer(key, document, resolved, watching=watching, sensitive=sensitive)
        next_one = partial(next_status, policy, evaluation, self._clock.now(), compose, at_intervals=not watching)
        update = next_one() if compose is default_message else await run_in_thread(next_one)
        status = update.status
        if update.details_changed and evaluation.for_policy:
            self._reporter.record_info(document, default_message(status), violation=status.compliant != COMPLIANT)
        for announcement in update.announcements:
            await self._reporter.report_compliance(document, announcement.compliant, announcement.message)
        await self._write(policy, update)
        if update.announcements:
            messages = [one.conditions[0].message for one in status.compliancy_details if one.conditions]
            self._reporter.record_update(document, status.compliant, "; ".join(messages))
        self._metrics.set_compliance(KIND, key.namespace, key.name, policy.spec.severity, status.compliant)
        if evaluation.invalid:
            self._metrics.count_user_error(_owner(policy), key.name, "invalid-template")
        return msgspec.structs.replace(policy, status=status)

    async def _composer(self, key: ObjectKey, document: Object, resolved: Object, *, watching: bool, sensitive: bool) -> Compose:
        if not any(custom_template(resolved, state) for state in (COMPLIANT, NON_COMPLIANT)):
            return default_message
        objects = {}
        if watching:
            try:
                objects = dict(await followed_objects(self._selections, key))
            except KubeError as error:
                log.debug("objects not in the message", kind=KIND, namespace=key.namespace, name=key.name, error=str(error))

        def compose(status: ConfigurationPolicyStatus) -> str:
            if not sensitive:
                return policy_message(resolved, status, objects, self._denylist)
            if HUB_DELIMITERS[0] in custom_template(document, status.compliant):
                return f"{default_message(status)} ({_WITHHELD})"
            return policy_message(document, status, objects, self._denylist)

        return compose

    async def _write(self, policy: ConfigurationPolicy, update: StatusUpdate) -> None:
        current = policy
        for attempt in range(STATUS_ATTEMPTS if update.worth_writing else 0):
            try:
                answer = await patch_object(
                    self._client, current, msgspec.structs.replace(current, status=update.status), status=True
                )
            except Conflict:
                if attempt + 1 == STATUS_ATTEMPTS:
                    self._metrics.count_system_error(_owner(policy), policy.metadata.name, "status-update-failed")
                    raise
            else:
                if answer is not None:
                    self._cache(policy.metadata.namespace).record_write(answer)
                return
            try:
                current = await self._client.get(ConfigurationPolicy, policy.metadata.name, policy.metadata.namespace)
            except NotFound:
                return
            if current.metadata.uid != policy.metadata.uid:
                return


def _owner(policy: ConfigurationPolicy) -> str:
    owners = policy.metadata.owner_references
    return owners[0].name if owners else ""
