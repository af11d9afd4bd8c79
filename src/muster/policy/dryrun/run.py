"""A dry run: the policy is evaluated once, as by a controller, and its reports are returned instead of sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.api.policy.v1 import ConfigurationPolicy, ConfigurationPolicyStatus
from muster.api.resource import known_fields
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.policy.configuration.encryption import EncryptionError, decryption, is_encrypted
from muster.policy.configuration.evaluation import evaluate
from muster.policy.configuration.interfaces import Cluster, EvaluationOptions, TemplateResolver
from muster.policy.configuration.messages import policy_message
from muster.policy.configuration.status import next_status
from muster.policy.names import ENCRYPTION_KEY_SECRET, HUB_DELIMITERS, STANDALONE_DISABLED
from muster.policy.resolver.interfaces import Encryption
from muster.runtime.cache import Selection
from muster.runtime.client.builtin import SECRETS


class DryRunError(Exception):
    """The policy could not be evaluated."""


@dataclass(frozen=True)
class DryRun:
    status: ConfigurationPolicyStatus
    messages: tuple[str, ...]
    """Messages for the policy's owner, in order."""

    @property
    def document(self) -> Object:
        """The status as Go writes it, including empty fields of the details."""
        written: Object = known_fields(self.status)
        for details in written.get("compliancyDetails") or ():
            details.setdefault("Validity", {})
        return written


async def dry_run(
    policy: Object,
    cluster: Cluster,
    resolver: TemplateResolver,
    *,
    full_diffs: bool = False,
    clock: Clock = SYSTEM,
) -> DryRun:
    """`policy` comes from `read_policy`. Raises DryRunError."""
    if HUB_DELIMITERS[0] in str(policy.get("spec")):
        raise DryRunError(STANDALONE_DISABLED)
    typed = ConfigurationPolicy.decode(policy)
    encryption = await _encryption(typed, cluster)
    options = EvaluationOptions(full_diffs=full_diffs, watching=False, encryption=encryption)
    evaluation = await evaluate(policy, cluster, resolver, options, ConfigurationPolicyStatus())
    if evaluation.errors:
        raise DryRunError(aggregated(evaluation.errors))
    update = next_status(typed, evaluation, clock.now(), lambda status: policy_message(policy, status))
    return DryRun(update.status, tuple(one.message for one in update.announcements))


async def _encryption(policy: ConfigurationPolicy, cluster: Cluster) -> Encryption | None:
    if not is_encrypted(policy):
        return None
    found = await cluster.source.read(Selection(SECRETS, policy.metadata.namespace, ENCRYPTION_KEY_SECRET))
    try:
        return decryption(policy, found[0] if found else None)
    except EncryptionError as error:
        raise DryRunError(str(error)) from error


def aggregated(errors: Sequence[Exception]) -> str:
    """Like apimachinery's Aggregate: one error's text, or each text once."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
