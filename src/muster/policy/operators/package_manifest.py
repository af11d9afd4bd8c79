"""The PackageManifest: a catalog's data about a package. It supplies defaults for the Subscription, and reports deprecations and
newer channels."""

from __future__ import annotations

import re
from typing import Final

from muster.api.meta import Condition
from muster.machinery.objects import Object
from muster.policy.operators import conditions
from muster.policy.operators.kinds import name_of, namespace_of, objects_at, text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Report

SUGGESTED_NAMESPACE: Final = "operatorframework.io/suggested-namespace"
NOT_DEPRECATED: Final = conditions.condition(
    conditions.DEPRECATIONS,
    "True",
    "Recommended",
    "The requested package, channel, and bundle are all at the recommended versions",
)
_CHANNEL: Final = re.compile(r"([a-zA-Z-]*)(\d+)\.(\d+)(\.x)?", re.ASCII)
_UNDETERMINED: Final = "the subscription defaults could not be determined because "


class DefaultsUnknown(Exception):
    """The package does not supply a value that the policy lacks. `may_come`: the package does not exist yet."""

    def __init__(self, problem: str, *, may_come: bool = False) -> None:
        super().__init__(problem)
        self.may_come = may_come


def needs_defaults(subscription: Object) -> bool:
    fields = ("channel", "source", "sourceNamespace")
    return not namespace_of(subscription) or not all(text_at(subscription, "spec", field) for field in fields)


def with_defaults(subscription: Object, manifest: Object, known_namespace: str) -> Object:
    """Missing values come from the package; the namespace from the known Subscription, if any. Raises DefaultsUnknown."""
    spec = dict(subscription["spec"])
    source, namespace = text_at(manifest, "status", "catalogSource"), text_at(manifest, "status", "catalogSourceNamespace")
    if not source or not namespace:
        raise DefaultsUnknown(_UNDETERMINED + "the PackageManifest didn't specify a catalog")
    if spec["source"] not in ("", source) or spec["sourceNamespace"] not in ("", namespace):
        raise DefaultsUnknown(
            _UNDETERMINED
            + "the catalog specified in the policy does not match what was found in the PackageManifest on the cluster"
        )
    if not spec.get("channel"):
        spec["channel"] = _default_channel(manifest)
    spec |= {"source": source, "sourceNamespace": namespace}
    metadata = dict(subscription["metadata"])
    if not metadata["namespace"]:
        metadata["namespace"] = known_namespace or _suggested_namespace(manifest, spec["channel"])
    return {**subscription, "metadata": metadata, "spec": spec}


def with_fields_of(subscription: Object, existing: Object) -> Object:
    """Without a package, missing values come from the existing Subscription."""
    spec = dict(subscription["spec"])
    for field in ("channel", "source", "sourceNamespace"):
        spec[field] = spec.get(field) or text_at(existing, "spec", field)
    return {**subscription, "spec": {field: value for field, value in spec.items() if field != "channel" or value}}


def missing_package() -> DefaultsUnknown:
    return DefaultsUnknown(_UNDETERMINED + "the PackageManifest was not found", may_come=True)


def _default_channel(manifest: Object) -> str:
    channel = text_at(manifest, "status", "defaultChannel")
    if not channel:
        raise DefaultsUnknown("the default channel could not be determined because the PackageManifest didn't specify one")
    return channel


def _channels(manifest: Object) -> list[Object]:
    return objects_at(manifest, "status", "channels")


def _suggested_namespace(manifest: Object, channel: str) -> str:
    found = next((one for one in _channels(manifest) if one.get("name") == channel), None)
    return text_at(found, "currentCSVDesc", "annotations", SUGGESTED_NAMESPACE)


def deprecation(manifest: Object, subscription: Object, csv: Object | None) -> Report | None:
    """Of the package, else of the channel, else of the installed bundle; None while no bundle is installed, as it may be
    deprecated."""
    if isinstance(status := value_at(manifest, "status", "deprecation"), dict):
        return Report(_deprecated(text_at(manifest, "status", "packageName"), "Package", status))
    selected = text_at(subscription, "spec", "channel") or text_at(manifest, "status", "defaultChannel")
    for channel in (one for one in _channels(manifest) if one.get("name") == selected):
        if isinstance(status := channel.get("deprecation"), dict):
            return Report(_deprecated(selected, "Channel", status))
        if csv is None:
            return None
        for entry in objects_at(channel, "entries"):
            if entry.get("name") == name_of(csv) and isinstance(status := entry.get("deprecation"), dict):
                return Report(_deprecated(text_at(entry, "name"), "Bundle", status))
    return Report(NOT_DEPRECATED)


def _deprecated(name: str, kind: str, deprecation: Object) -> Condition:
    message = f"the requested {name} {kind} was deprecated. {text_at(deprecation, 'message')}"
    return conditions.condition(conditions.DEPRECATIONS, "False", f"{kind}Deprecated", message)


def minor_channels(policy: ResolvedPolicy, manifest: Object | None, subscription: Object | None) -> Report:
    """Whether there are channels of a later minor version, for policies with automatic upgrades."""
    if not policy.is_musthave or not policy.upgrades_automatically or manifest is None or subscription is None:
        return _minor("True", "Skipped", "skipping check for minor channel upgrades")
    selected = text_at(subscription, "spec", "channel") or text_at(manifest, "status", "defaultChannel")
    newer = newer_channels([text_at(one, "name") for one in _channels(manifest)], selected)
    if not newer:
        return _minor("True", "Recommended", "the subscription is on the recommended channel")
    counts = policy.spec.compliance_config.minor_channel_upgrade_available == "NonCompliant"
    message = f"a newer version of the operator is available in channel(s): {', '.join(newer)}"
    return _minor("False" if counts else "True", "UpgradeAvailable", message)


def _minor(status: conditions.Status, reason: str, message: str) -> Report:
    return Report(conditions.condition(conditions.MINOR_CHANNEL, status, reason, message))


def newer_channels(channels: list[str], selected: str) -> list[str]:
    """Channels with the same name pattern as the selected one (`stable-v1.2`, `release-2.3.x`) and a higher minor version."""
    own = _CHANNEL.fullmatch(selected)
    if own is None:
        return []
    prefix, major, minor, suffix = own.groups()
    found = ((name, match) for name in channels if (match := _CHANNEL.fullmatch(name)))
    return sorted(
        name for name, match in found if (match[1], match[2], match[4]) == (prefix, major, suffix) and int(match[3]) > int(minor)
    )
