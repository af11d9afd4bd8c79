"""The progress of an addon's works as conditions: applied or not, rollout of configurations, and completion of hooks.

Everything is computed from the stored works. Their status is written by agents: a condition is used only for its generation, and
missing or invalid ones are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.addon.framework.configuration import config_hashes
from muster.addon.framework.manifests import ManifestKey, manifest_key
from muster.addon.framework.status_draft import HOSTING_MANIFEST_APPLIED, MANIFEST_APPLIED, StatusDraft
from muster.addon.framework.works import manifests_of, work_hashes
from muster.api.addon.v1alpha1 import PROGRESSING, AddOnConfig
from muster.api.meta import Condition, condition_of
from muster.api.work.v1 import APPLIED, AVAILABLE, ManifestWork
from muster.work.names import WITHHELD

COMPLETED: Final = "completed with no errors."


@dataclass(frozen=True)
class Deployed:
    """The works of one site after a reconcile has written them."""

    works: tuple[ManifestWork, ...] = ()
    error: str = ""
    """Why some could not be written, or rendered."""
    nothing_to_deploy: bool = False


def set_applied(draft: StatusDraft, kind: str, deployed: Deployed, warnings: Sequence[str] = ()) -> None:
    if deployed.error:
        draft.set(kind, False, "ManifestWorkApplyFailed", deployed.error)
        return
    states = [_current(work, APPLIED) for work in deployed.works]
    if any(word is not None and word.status == "False" for word in states):
        draft.set(kind, False, "AddonManifestAppliedFailed", "failed to apply the manifests of addon")
    elif all(word is not None and word.status == "True" for word in states) and (states or deployed.nothing_to_deploy):
        message = "; ".join(("manifests of addon are applied successfully", *warnings))
        draft.set(kind, True, "AddonManifestApplied", message)
    elif (before := draft.condition(kind)) is not None and before.status == "False":
        # About works without a report so far.
        draft.drop(kind)


def set_progress(
    draft: StatusDraft,
    unsupported: AddOnConfig | None,
    works: Sequence[ManifestWork],
    *,
    hosted: bool,
    nothing_to_deploy: bool = False,
) -> None:
    """Set the rollout of the configurations, and at its end, that they are applied."""
    waiting = _waiting_for(draft, hosted=hosted)
    if unsupported is not None:
        kind = f"{unsupported.group}/{unsupported.resource}"
        message = f"Configuration with gvr {kind} is not supported for this addon"
        draft.set(PROGRESSING, False, "ConfigurationUnsupported", message)
    elif waiting:
        draft.set(PROGRESSING, False, f"WaitingFor{waiting}", f"Waiting for ManagedClusterAddOn {waiting} condition")
    elif step := "" if nothing_to_deploy and not works else _progressing(draft, works):
        draft.set(PROGRESSING, True, "Progressing", f"progressing... {step}")
    elif failed := _failed(works):
        draft.set(PROGRESSING, False, "Failed", failed)
    elif not all(_is_ready(work) for work in works):
        draft.set(PROGRESSING, True, "Progressing", "progressing... work is not ready")
    else:
        draft.set(PROGRESSING, False, "Completed", COMPLETED)
        references = draft.status.config_references
        draft.put(
            config_references=tuple(
                msgspec.structs.replace(reference, last_applied_config=reference.desired_config) for reference in references
            )
        )


def _waiting_for(draft: StatusDraft, *, hosted: bool) -> str:
    if draft.condition(MANIFEST_APPLIED) is None:
        return MANIFEST_APPLIED
    return HOSTING_MANIFEST_APPLIED if hosted and draft.condition(HOSTING_MANIFEST_APPLIED) is None else ""


def _progressing(draft: StatusDraft, works: Sequence[ManifestWork]) -> str:
    if not works:
        return "no addon works"
    wanted = config_hashes(draft.status.config_references)
    if not all(wanted.values()) or any(work_hashes(work) != wanted for work in works):
        return "mca and work configs mismatch"
    return ""


def _failed(works: Sequence[ManifestWork]) -> str:
    """The manifests that a cluster could not apply. Those that only wait for others of their work have not failed."""
    for work in works:
        word = _current(work, APPLIED)
        if word is None or word.status != "False":
            continue
        parts = [condition_of(manifest.conditions, APPLIED) for manifest in work.status.resource_status.manifests]
        failed = [part for part in parts if part is not None and part.status == "False"]
        if not failed or any(part.reason != WITHHELD for part in failed):
            return f"failed to apply manifestWork {work.metadata.name}: {word.message}"
    return ""


def _is_ready(work: ManifestWork) -> bool:
    states = [_current(work, kind) for kind in (AVAILABLE, APPLIED)]
    return all(word is not None and word.status == "True" for word in states)


def _current(work: ManifestWork, kind: str) -> Condition | None:
    """A condition of the work's current generation."""
    word = condition_of(work.status.conditions, kind)
    return word if word is not None and word.observed_generation == work.metadata.generation else None


def is_hook_complete(work: ManifestWork) -> bool:
    """Whether every Job and Pod of a hook has succeeded."""
    available = _current(work, AVAILABLE)
    if available is None or available.status != "True":
        return False
    reported: dict[ManifestKey, dict[str, str | None]] = {}
    for one in work.status.resource_status.manifests:
        meta = one.resource_meta
        values = {value.name: value.field_value.string for value in one.status_feedback.values}
        reported[ManifestKey(meta.group, meta.kind, meta.namespace, meta.name)] = values
    for manifest in manifests_of(work):
        key = manifest_key(manifest)
        values = reported.get(key, {})
        if not (values.get("JobComplete") == "True" if key.kind == "Job" else values.get("PodPhase") == "Succeeded"):
            return False
    return True
