"""The kind of role mapping to use on this hub if no option sets it, by the authentication mode of its EKS cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.aws.errors import AccessDenied, NotFound
from muster.registration.drivers.awsirsa.options import HubSide, MappingChoice
from muster.registration.drivers.awsirsa.records import Mapping

if TYPE_CHECKING:
    from muster.aws.interfaces import Eks


async def chosen_mapping(side: HubSide, eks: Eks) -> Mapping:
    """The configured mapping, or the one that the authentication mode allows. Raises AwsError."""
    if side.mapping is not MappingChoice.AUTO:
        return Mapping(side.mapping.value)
    try:
        mode = (await eks.describe_cluster(side.hub.name)).authentication_mode
    except (NotFound, AccessDenied):
        # Not on EKS, or an identity that could not create access entries either.
        mode = "CONFIG_MAP"
    return Mapping.AWS_AUTH if "CONFIG_MAP" in mode else Mapping.ACCESS_ENTRY
