"""Flags of particular drivers, as tables: the command lines are made from these and know no driver.

Upstream has its own flags for each of its drivers, and users know them. A flag sets the same option as `--driver-option
DRIVER.OPTION=VALUE`, so that drivers need no flags, and drivers of other distributions miss none. A driver in these tables need not
be installed; its options are then ignored.

Read for every `--help`, so nothing is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CSR: Final = "csr"
AWS: Final = "awsirsa"
AWS_ALIAS: Final = "aws-irsa"
"""The spelling that users type."""
GRPC: Final = "grpc"

DEFAULT: Final = CSR
"""The registration driver by default."""
TOKEN: Final = "token"
ADDON_DRIVERS: Final = (CSR, TOKEN)
"""How agents of addons authenticate to a hub's API server, the default first."""


@dataclass(frozen=True)
class Flag:
    """A repeatable flag; each use adds a value to the option."""

    driver: str
    option: str
    help: str
    spellings: tuple[str, ...] = ()
    """Spellings in place of `--<option>`."""
    commas: bool = False
    """Whether commas separate values."""
    choices: tuple[str, ...] = ()
    content: bool = False
    """Whether the value is a file whose content is the option's value."""
    approves: str = ""
    """What the flag lists, if it enables automatic acceptance; it requires the driver and the feature gate
    ManagedClusterAutoApproval.
    """


HUB_FLAGS: Final = (
    Flag(
        CSR,
        "auto-approved-csr-users",
        "Users whose registration requests are approved automatically (needs the ManagedClusterAutoApproval gate).",
        ("--auto-approved-csr-users", "--cluster-auto-approval-users"),
        commas=True,
    ),
    Flag(AWS, "hub-cluster-arn", "ARN of the hub's EKS cluster (awsirsa)."),
    Flag(AWS, "auto-approved-arn-patterns", "Pattern of EKS cluster ARNs that are accepted automatically (awsirsa). Repeatable."),
    Flag(AWS, "aws-resource-tags", "Tags (key=value) of the resources created on AWS (awsirsa)."),
    Flag(
        AWS,
        "aws-mapping",
        "Mapping of clusters' IAM roles to users of the hub on EKS (awsirsa).  [default: auto]",
        choices=("auto", "aws-auth", "access-entry"),
    ),
    Flag(
        AWS,
        "aws-identity",
        "AWS identity that creates the clusters' IAM roles (awsirsa).  [default: auto]",
        choices=("auto", "administrator", "hub"),
    ),
    Flag(
        GRPC,
        "auto-approved-grpc-users",
        "Users whose registration requests over gRPC are approved automatically (grpc).",
        commas=True,
    ),
    Flag(GRPC, "grpc-ca-file", "CA certificate that signs the agents' certificates (grpc)."),
    Flag(GRPC, "grpc-key-file", "Private key of that CA certificate (grpc)."),
    Flag(GRPC, "grpc-signing-duration", "Maximum lifetime of signed certificates (grpc).  [default: 720h]"),
    Flag(
        GRPC,
        "grpc-server-account",
        "User as which the gRPC server makes requests (grpc).  "
        "[default: system:serviceaccount:open-cluster-management-hub:grpc-server-sa]",
    ),
)
"""Flags of `muster hub`."""

AGENT_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "ARN of the hub's EKS cluster (awsirsa)."),
    Flag(AWS, "managed-cluster-arn", "ARN of this cluster on EKS (awsirsa)."),
    Flag(AWS, "managed-cluster-role-suffix", "Common suffix of the IAM roles of the hub and this cluster (awsirsa)."),
    Flag(GRPC, "grpc-bootstrap-config", "Bootstrap configuration file for the hub's gRPC server (grpc)."),
    Flag(GRPC, "grpc-config", "File in --hub-kubeconfig-dir to which the gRPC configuration is written for other agents (grpc)."),
)
"""Flags of `muster agent`."""

INIT_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "ARN of the hub's EKS cluster (awsirsa).", ("--hub-cluster-arn", "--eks-hub-cluster-arn")),
    Flag(AWS, "aws-resource-tags", "Tags (key=value,…) of the resources created on AWS (awsirsa).", commas=True),
    Flag(
        AWS,
        "aws-mapping",
        "Mapping of clusters' IAM roles to users of the hub on EKS (awsirsa).  [default: auto]",
        choices=("auto", "aws-auth", "access-entry"),
    ),
    Flag(
        AWS,
        "aws-identity",
        "AWS identity that creates the clusters' IAM roles (awsirsa).  [default: auto]",
        choices=("auto", "administrator", "hub"),
    ),
    Flag(
        CSR,
        "auto-approved-csr-identities",
        "Users whose clusters are accepted automatically (csr).",
        commas=True,
        approves="list of users for csr to auto approve",
    ),
    # No separator, because a pattern may contain a comma.
    Flag(
        AWS,
        "auto-approved-arn-patterns",
        "Pattern of EKS cluster ARNs that are accepted automatically (awsirsa). Repeatable.",
        approves="list of patterns for aws eks arn",
    ),
    Flag(
        GRPC,
        "auto-approved-grpc-identities",
        "Users whose clusters are accepted automatically (grpc).",
        commas=True,
        approves="list of users or identities for grpc to auto approve",
    ),
    Flag(GRPC, "grpc-server", "Address of the hub's gRPC server (grpc)."),
    Flag(
        GRPC,
        "grpc-endpoint-type",
        "Kind of endpoint that exposes the gRPC server (grpc).  [default: hostname]",
        choices=("hostname", "loadBalancer", "route"),
    ),
)
"""Flags of `clusteradm init`."""

JOIN_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "ARN of the hub's EKS cluster (awsirsa).", ("--hub-cluster-arn", "--eks-hub-cluster-arn")),
    Flag(
        AWS, "managed-cluster-arn", "ARN of this cluster on EKS (awsirsa).", ("--managed-cluster-arn", "--eks-managed-cluster-arn")
    ),
    Flag(GRPC, "grpc-server", "Host and port of the hub's gRPC server (grpc)."),
    Flag(GRPC, "grpc-ca", "Path to the CA certificate of the gRPC server (grpc).", ("--grpc-ca-file",), content=True),
    Flag(GRPC, "grpc-ca-hash", "Hashes (sha256:…) of the public key of that CA (grpc).", commas=True),
)
"""Flags of `clusteradm join`."""
