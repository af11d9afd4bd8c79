"""The options of the hub's command line for this driver, parsed once; unusable values are reported before the hub starts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import re2

from muster.api.operator.v1 import AwsIrsaHubDriver
from muster.aws.arns import BadArn, EksCluster, parse_cluster_arn
from muster.registration.drivers.awsirsa.names import HUB_ARN, IDENTITY, MAPPING, PATTERNS, TAGS
from muster.registration.drivers.errors import DriverConfigError, Unfit
from muster.registration.drivers.flags import AWS
from muster.registration.drivers.profile import DriverOptions, last

MOST_TAGS: Final = 40
"""IAM allows 50 tags on a role, and some are ours."""


class MappingChoice(Enum):
    AUTO = "auto"
    AWS_AUTH = "aws-auth"
    ACCESS_ENTRY = "access-entry"


class IdentityChoice(Enum):
    """Whose AWS identity creates a cluster's role: the administrator's, the hub's, or the administrator's if it has the
    permissions.
    """

    AUTO = "auto"
    ADMINISTRATOR = "administrator"
    HUB = "hub"


@dataclass(frozen=True)
class HubSide:
    hub: EksCluster
    patterns: tuple[Any, ...]
    """Compiled patterns; a cluster whose whole ARN matches one is accepted."""
    tags: dict[str, str]
    mapping: MappingChoice
    identity: IdentityChoice


def hub_side(options: DriverOptions) -> HubSide:
    """Raises DriverConfigError."""
    arn = last(options, HUB_ARN)
    if not arn:
        raise DriverConfigError(AWS, HUB_ARN, "missing: arn:aws:eks:REGION:ACCOUNT:cluster/NAME of this hub")
    try:
        hub = parse_cluster_arn(arn)
    except BadArn as error:
        raise DriverConfigError(AWS, HUB_ARN, str(error)) from None
    return HubSide(
        hub,
        tuple(_pattern(text) for text in options.get(PATTERNS, ()) if text),
        _tags(options),
        _choice(MappingChoice, MAPPING, options),
        _choice(IdentityChoice, IDENTITY, options),
    )


def configured_side(own: AwsIrsaHubDriver) -> HubSide:
    """The options as the ClusterManager has them. Raises Unfit if they are not valid."""
    options = {HUB_ARN: (own.hub_cluster_arn,), TAGS: own.tags, MAPPING: (own.mapping,), IDENTITY: (own.identity,)}
    try:
        return hub_side(options)
    except DriverConfigError as error:
        raise Unfit(str(error)) from None


def _choice(kind: Any, option: str, options: DriverOptions) -> Any:
    given = last(options, option) or "auto"
    known = [one.value for one in kind]
    if given not in known:
        raise DriverConfigError(AWS, option, f"{given!r} is none of {', '.join(known)}")
    return kind(given)


def _pattern(text: str) -> Any:
    settings = re2.Options()
    settings.log_errors = False
    try:
        return re2.compile(text, settings)
    except re2.error as error:
        raise DriverConfigError(AWS, PATTERNS, f"{text!r} is not a pattern of RE2: {error}") from None


def _tags(options: DriverOptions) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in options.get(TAGS, ()):
        key, assigned, value = text.partition("=")
        if not assigned or not 1 <= len(key) <= 128 or len(value) > 256 or key.lower().startswith("aws:"):
            raise DriverConfigError(AWS, TAGS, f"{text!r}: expected KEY=VALUE (1–128 and 0–256 characters; not aws:…)")
        tags[key] = value
    if len(tags) > MOST_TAGS:
        raise DriverConfigError(AWS, TAGS, f"{len(tags)} tags; IAM allows {MOST_TAGS} in addition to ours")
    return tags
