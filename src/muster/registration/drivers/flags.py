"""Flags by which users speak to particular drivers, as tables: command lines are made of these, whatever the drivers are.

Upstream has flags of its own for each of its drivers, and people know them. A flag says to its driver what `--driver-option
DRIVER.OPTION=VALUE` would, so that drivers need no flags, and drivers of other distributions miss none. A driver may be spoken of
here that is not installed: what is said to it is then heard by nobody.

Read for every `--help`, so nothing is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CSR: Final = "csr"
AWS: Final = "awsirsa"
GRPC: Final = "grpc"

DEFAULT: Final = CSR
"""How clusters register unless somebody says otherwise."""


@dataclass(frozen=True)
class Flag:
    """Repeatable; what is said several times is several values of the option."""

    driver: str
    option: str
    help: str
    spellings: tuple[str, ...] = ()
    """Instead of `--<option>`."""
    commas: bool = False
    """Whether commas part several values."""


HUB_FLAGS: Final = (
    Flag(
        CSR,
        "auto-approved-csr-users",
        "Users whose first request is approved unasked (with ManagedClusterAutoApproval).",
        ("--auto-approved-csr-users", "--cluster-auto-approval-users"),
        commas=True,
    ),
    Flag(AWS, "hub-cluster-arn", "Of the hub on EKS (awsirsa)."),
    Flag(AWS, "auto-approved-arn-patterns", "Clusters accepted unasked: a pattern (awsirsa)."),
    Flag(AWS, "aws-resource-tags", "key=value, for what is made on AWS (awsirsa)."),
    Flag(GRPC, "auto-approved-grpc-users", "As for csr (grpc).", commas=True),
)
"""Of `muster hub`."""

AGENT_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "Of the hub on EKS (awsirsa)."),
    Flag(AWS, "managed-cluster-arn", "Of this cluster on EKS (awsirsa)."),
    Flag(AWS, "managed-cluster-role-suffix", "By which both clusters' roles belong together (awsirsa)."),
)
"""Of `muster agent`."""
