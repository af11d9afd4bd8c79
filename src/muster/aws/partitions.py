"""AWS partitions: their regions, and the hosts of their services.

Most values are derived from a region's name, so that new regions work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Partition:
    name: str
    regions: str
    """A pattern of its regions' names."""
    suffix: str
    """The domain of its services' hosts."""
    iam_region: str
    """IAM is global in a partition; its requests are signed for this region."""
    dual_stack_suffix: str = ""
    """The domain of hosts with IPv6."""


PARTITIONS: Final = (
    Partition("aws-cn", r"cn-", "amazonaws.com.cn", "cn-north-1", "api.amazonwebservices.com.cn"),
    Partition("aws-us-gov", r"us-gov-", "amazonaws.com", "us-gov-west-1", "api.aws"),
    Partition("aws-eusc", r"eusc-", "amazonaws.eu", "eusc-de-east-1", "api.amazonwebservices.eu"),
    Partition("aws-iso", r"us-iso-", "c2s.ic.gov", "us-iso-east-1", "api.aws.ic.gov"),
    Partition("aws-iso-b", r"us-isob-", "sc2s.sgov.gov", "us-isob-east-1", "api.aws.scloud"),
    Partition("aws-iso-e", r"eu-isoe-", "cloud.adc-e.uk", "eu-isoe-west-1", "api.cloud-aws.adc-e.uk"),
    Partition("aws-iso-f", r"us-isof-", "csp.hci.ic.gov", "us-isof-south-1", "api.aws.hci.ic.gov"),
    # Last: everything that matches no other partition.
    Partition("aws", r"", "amazonaws.com", "us-east-1", "api.aws"),
)
REGION: Final = r"[a-z]{2,8}(?:-[a-z]+){1,3}-[0-9]{1,2}"
"""A pattern of region names."""


def of_region(region: str) -> Partition:
    return next(one for one in PARTITIONS if re.match(one.regions, region))


def named(name: str) -> Partition:
    """Raises KeyError."""
    return {one.name: one for one in PARTITIONS}[name]


def sts_host(region: str) -> str:
    return f"sts.{region}.{of_region(region).suffix}"


def is_sts_host(host: str, partition: str) -> bool:
    """Whether it is a host of this partition's security token service: regional, FIPS or dual stack."""
    if host == "sts.amazonaws.com":
        return partition == "aws"
    own = named(partition)
    found = re.fullmatch(rf"sts(?:-fips)?\.({REGION})\.({re.escape(own.suffix)}|{re.escape(own.dual_stack_suffix)})", host)
    return found is not None and of_region(found[1]).name == partition
