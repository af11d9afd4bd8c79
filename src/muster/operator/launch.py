"""What an operator's process finds out before it starts: its container and its own image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.operator.names import CLUSTER_MANAGER, KLUSTERLET, image
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import PODS

CONTAINERS: Final = {CLUSTER_MANAGER: "registration-operator", KLUSTERLET: "klusterlet"}
"""The container by operator, with upstream's names: if one manifest is applied over the other, there is still one container."""


async def own_image(client: KubeClient, environ: Mapping[str, str]) -> str:
    """The image of this process's pod, so that a new operator installs new components; outside a pod, the image of this version."""
    name, namespace = environ.get("POD_NAME", ""), environ.get("POD_NAMESPACE", "")
    if not name or not namespace:
        return image()
    try:
        pod = await client.get(PODS, name, namespace)
    except KubeError:
        return image()
    containers = pod["spec"]["containers"]
    return str(
        next((container["image"] for container in containers if container["name"] in CONTAINERS.values()), containers[0]["image"])
    )
