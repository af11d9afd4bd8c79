"""Which way EKS learns whom a role is on this hub, where nobody has said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.aws.errors import AccessDenied, NotFound
from muster.registration.drivers.awsirsa.options import HubSide, MappingChoice
from muster.registration.drivers.awsirsa.records import Mapping

if TYPE_CHECKING:
    from muster.aws.interfaces import Eks


async def chosen_mapping(side: HubSide, eks: Eks) -> Mapping:
    """Raises AwsError."""
    if side.mapping is not MappingChoice.AUTO:
        return Mapping(side.mapping.value)
    try:
        mode = (await eks.describe_cluster(side.hub.name)).authentication_mode
    except (NotFound, AccessDenied):
        # No EKS, or an identity that could make no access entries either.
        mode = "CONFIG_MAP"
    return Mapping.AWS_AUTH if "CONFIG_MAP" in mode else Mapping.ACCESS_ENTRY
