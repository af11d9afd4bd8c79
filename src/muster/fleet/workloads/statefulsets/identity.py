"""The identity of a StatefulSet's pod: its ordinal, its names, and its claims."""

from __future__ import annotations

import re
from typing import Final

from muster.fleet.workloads.podcontrol import pod_from_template
from muster.fleet.workloads.revisions import HASH_LABEL
from muster.machinery.objects import Object
from muster.runtime.client.builtin import STATEFUL_SETS

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-([0-9]{1,10})")


def ordinal_of(pod: Object, found: Object) -> int:
    """-1 for a pod that is not the set's, whatever its labels."""
    named = _NAME.fullmatch(pod["metadata"]["name"])
    return int(named[2]) if named is not None and named[1] == found["metadata"]["name"] else -1


def first_ordinal(found: Object) -> int:
    return int((found["spec"].get("ordinals") or {}).get("start", 0))


def ordinals(found: Object) -> range:
    start = first_ordinal(found)
    return range(start, start + int(found["spec"].get("replicas", 1)))


def new_pod(found: Object, template: Object, ordinal: int, revision: str) -> Object:
    pod = pod_from_template(found, STATEFUL_SETS, template)
    metadata, name = pod["metadata"], f"{found['metadata']['name']}-{ordinal}"
    metadata["name"] = name
    metadata["labels"] = {**metadata.get("labels", {}), **identity_labels(name, ordinal), HASH_LABEL: revision}
    claims = {each["metadata"]["name"]: {"claimName": claim_name(found, each, ordinal)} for each in claim_templates(found)}
    volumes = [{"name": volume, "persistentVolumeClaim": source} for volume, source in claims.items()]
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
    spec = {**pod["spec"], "hostname": name, "volumes": [*volumes, *others]}
    if found["spec"].get("serviceName"):
        spec["subdomain"] = found["spec"]["serviceName"]
    return {**pod, "spec": {field: value for field, value in spec.items() if field != "volumes" or value}}


def identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def claim_templates(found: Object) -> list[Object]:
    return list(found["spec"].get("volumeClaimTemplates") or ())


def claim_name(found: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{found['metadata']['name']}-{ordinal}"


def claims_of(found: Object, ordinal: int) -> list[Object]:
    """The claims of the pod with this ordinal."""
    chosen = (found["spec"].get("selector") or {}).get("matchLabels") or {}
    made = []
    for template in claim_templates(found):
        metadata = template["metadata"]
        labels = {**(metadata.get("labels") or {}), **chosen}
        kept = {field: value for field, value in template.items() if field != "status"}
        named = {**metadata, "name": claim_name(found, template, ordinal), "namespace": found["metadata"]["namespace"]}
        made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **kept, "metadata": {**named, "labels": labels}})
    return made
