"""What is set for an operator, whichever it is."""

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
    """What is deployed where a spec does not name another."""
    namespace: str = OPERATOR_NAMESPACE
    """Where the operator is, and the pull secret."""
    sync_labels: bool = False
    """Whether labels of the object go to all that is made for it."""
    removal_timeout: timedelta = REMOVAL_TIMEOUT
    """How long a removal waits for what others have to do: agents that clean up, a managed cluster that is away."""
    connect: Callable[[bytes], KubeClient] = connect_by_kubeconfig
    """To the cluster of a hosted object."""
