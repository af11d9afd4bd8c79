"""The options of both operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from muster.operator.hosted import connect_by_kubeconfig
from muster.operator.names import OPERATOR_NAMESPACE, image
from muster.runtime.client import KubeClient

REMOVAL_TIMEOUT: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class OperatorOptions:
    image: str = field(default_factory=image)
    """The image of components if a spec does not set one."""
    namespace: str = OPERATOR_NAMESPACE
    """The namespace of the operator and of the pull secret."""
    sync_labels: bool = False
    """Whether labels of the object are added to all its objects."""
    removal_timeout: timedelta = REMOVAL_TIMEOUT
    """How long a removal waits for others: agents that clean up, a managed cluster that is unreachable."""
    connect: Callable[[bytes], KubeClient] = connect_by_kubeconfig
    """Connects to the cluster of a hosted object."""
