"""How a process starts an operator: each operator's `controller` module has `launch`, which makes it from this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from muster.operator.names import OPERATOR_NAMESPACE, image
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import PODS
from muster.runtime.client.errors import KubeError

CONTAINER: Final = "registration-operator"


@dataclass(frozen=True)
class Launch:
    image: str
    """What is deployed where a spec does not name another."""
    namespace: str = OPERATOR_NAMESPACE
    """Where the operator itself is."""
    sync_labels: bool = False
    """Whether labels of the object go to all that is made for it."""


class Operator(Protocol):
    @property
    def ready(self) -> bool:
        """Whether it knows what there is."""

    async def run(self) -> None:
        """Until cancelled."""


async def own_image(client: KubeClient, environ: Mapping[str, str]) -> str:
    """The image of the pod this runs in, so that a new operator brings new components; elsewhere, that of this version."""
    name, namespace = environ.get("POD_NAME", ""), environ.get("POD_NAMESPACE", "")
    if not name or not namespace:
        return image()
    try:
        pod = await client.get(PODS, name, namespace)
    except KubeError:
        return image()
    containers = pod["spec"]["containers"]
    return str(next((one["image"] for one in containers if one["name"] == CONTAINER), containers[0]["image"]))
