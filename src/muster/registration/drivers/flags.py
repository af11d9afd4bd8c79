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
AWS_ALIAS: Final = "aws-irsa"
"""As people say it."""
GRPC: Final = "grpc"

DEFAULT: Final = CSR
"""How clusters register unless somebody says otherwise."""
TOKEN: Final = "token"
ADDON_DRIVERS: Final = (CSR, TOKEN)
"""How agents of addons prove themselves to a hub's API server, the default first."""


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
    choices: tuple[str, ...] = ()
    content: bool = False
    """Whether the value is a file whose content is meant."""
    approves: str = ""
    """What it lists, if that is whose clusters are let in by themselves; it takes the driver, and ManagedClusterAutoApproval."""


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
    Flag(
        AWS,
        "aws-mapping",
        "How EKS learns whom a cluster's role is here (awsirsa).  [default: auto]",
        choices=("auto", "aws-auth", "access-entry"),
    ),
    Flag(
        AWS,
        "aws-identity",
        "Whose AWS identity makes clusters' roles (awsirsa).  [default: auto]",
        choices=("auto", "administrator", "hub"),
    ),
    Flag(GRPC, "auto-approved-grpc-users", "As for csr (grpc).", commas=True),
    Flag(GRPC, "grpc-ca-file", "Certificate of the authority that signs agents' certificates (grpc)."),
    Flag(GRPC, "grpc-key-file", "Private key of that authority (grpc)."),
    Flag(GRPC, "grpc-signing-duration", "How long signed certificates are valid at most (grpc).  [default: 720h]"),
    Flag(
        GRPC,
        "grpc-server-account",
        "User as whom the gRPC server makes requests (grpc).  "
        "[default: system:serviceaccount:open-cluster-management-hub:grpc-server-sa]",
    ),
)
"""Of `muster hub`."""

AGENT_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "Of the hub on EKS (awsirsa)."),
    Flag(AWS, "managed-cluster-arn", "Of this cluster on EKS (awsirsa)."),
    Flag(AWS, "managed-cluster-role-suffix", "By which both clusters' roles belong together (awsirsa)."),
    Flag(GRPC, "grpc-bootstrap-config", "File to introduce the cluster with (grpc)."),
    Flag(GRPC, "grpc-config", "Where others find our way to the hub, in --hub-kubeconfig-dir (grpc)."),
)
"""Of `muster agent`."""

INIT_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "For awsirsa: of this hub.", ("--hub-cluster-arn", "--eks-hub-cluster-arn")),
    Flag(AWS, "aws-resource-tags", "For awsirsa: key=value,…", commas=True),
    Flag(
        AWS,
        "aws-mapping",
        "For awsirsa: how EKS learns whom a cluster's role is on the hub.  [default: auto]",
        choices=("auto", "aws-auth", "access-entry"),
    ),
    Flag(
        AWS,
        "aws-identity",
        "For awsirsa: whose AWS identity makes clusters' roles.  [default: auto]",
        choices=("auto", "administrator", "hub"),
    ),
    Flag(
        CSR,
        "auto-approved-csr-identities",
        "Users whose clusters get in.",
        commas=True,
        approves="list of users for csr to auto approve",
    ),
    # A pattern may have a comma in it.
    Flag(AWS, "auto-approved-arn-patterns", "Clusters that get in (repeatable).", approves="list of patterns for aws eks arn"),
    Flag(
        GRPC,
        "auto-approved-grpc-identities",
        "Users whose clusters get in.",
        commas=True,
        approves="list of users or identities for grpc to auto approve",
    ),
    Flag(GRPC, "grpc-server", "Address of the hub's gRPC server."),
    Flag(GRPC, "grpc-endpoint-type", "How it is reached.  [default: hostname]", choices=("hostname", "loadBalancer", "route")),
)
"""Of `clusteradm init`."""

JOIN_FLAGS: Final = (
    Flag(AWS, "hub-cluster-arn", "For awsirsa.", ("--hub-cluster-arn", "--eks-hub-cluster-arn")),
    Flag(AWS, "managed-cluster-arn", "For awsirsa.", ("--managed-cluster-arn", "--eks-managed-cluster-arn")),
    Flag(GRPC, "grpc-server", "For grpc: host and port."),
    Flag(GRPC, "grpc-ca", "For grpc: authority of that server, in PEM.", ("--grpc-ca-file",), content=True),
    Flag(GRPC, "grpc-ca-hash", "For grpc: sha256:… of the key of that authority.", commas=True),
)
"""Of `clusteradm join`."""
