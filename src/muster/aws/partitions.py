"""The parts of AWS that know nothing of each other: which regions belong to one, and where its services are.

What is asked for most is derived from a region's name, so that a region opened tomorrow works today.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Partition:
    name: str
    regions: str
    """How its regions' names begin, as a pattern."""
    suffix: str
    """Of the hosts of its services."""
    iam_region: str
    """IAM is one for all regions; requests to it are signed for this one."""
    dual_stack_suffix: str = ""
    """Of hosts that answer by IPv6 too."""


PARTITIONS: Final = (
    Partition("aws-cn", r"cn-", "amazonaws.com.cn", "cn-north-1", "api.amazonwebservices.com.cn"),
    Partition("aws-us-gov", r"us-gov-", "amazonaws.com", "us-gov-west-1", "api.aws"),
    Partition("aws-eusc", r"eusc-", "amazonaws.eu", "eusc-de-east-1", "api.amazonwebservices.eu"),
    Partition("aws-iso", r"us-iso-", "c2s.ic.gov", "us-iso-east-1", "api.aws.ic.gov"),
    Partition("aws-iso-b", r"us-isob-", "sc2s.sgov.gov", "us-isob-east-1", "api.aws.scloud"),
    Partition("aws-iso-e", r"eu-isoe-", "cloud.adc-e.uk", "eu-isoe-west-1", "api.cloud-aws.adc-e.uk"),
    Partition("aws-iso-f", r"us-isof-", "csp.hci.ic.gov", "us-isof-south-1", "api.aws.hci.ic.gov"),
    # Last: all that is none of the others'.
    Partition("aws", r"", "amazonaws.com", "us-east-1", "api.aws"),
)
REGION: Final = r"[a-z]{2,8}(?:-[a-z]+){1,3}-[0-9]{1,2}"
"""What a region is called, as a pattern."""


def of_region(region: str) -> Partition:
    return next(one for one in PARTITIONS if re.match(one.regions, region))


def named(name: str) -> Partition:
    """Raises KeyError."""
    return {one.name: one for one in PARTITIONS}[name]


def sts_host(region: str) -> str:
    return f"sts.{region}.{of_region(region).suffix}"


def is_sts_host(host: str, partition: str) -> bool:
    """Whether the security token service of this partition answers there: in a region, by FIPS or dual stack names too."""
    if host == "sts.amazonaws.com":
        return partition == "aws"
    own = named(partition)
    found = re.fullmatch(rf"sts(?:-fips)?\.({REGION})\.({re.escape(own.suffix)}|{re.escape(own.dual_stack_suffix)})", host)
    return found is not None and of_region(found[1]).name == partition
