"""The annotations of a ManagedCluster about AWS: its ARN, and the suffix that pairs its role with the hub's.

There are three annotations. Our agents write all three, upstream's two of them, an administrator perhaps one; any of them is
accepted. The client that creates the cluster writes them, so they are not trusted: a value that does not parse, or contradicts
another one or the hub's own ARN, is a `BadClaim` before any request to AWS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.api.agents import AWS_ARN_ANNOTATION, AWS_ARN_ANNOTATIONS, AWS_ROLE_ANNOTATION, EKS_ARN_ANNOTATION
from muster.aws.arns import BadArn, EksCluster, parse_cluster_arn
from muster.aws.role_names import RoleNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster.api.cluster.v1 import ManagedCluster

SHOWN: Final = 200


class BadClaim(Exception):
    """What is wrong with the annotations, and which one to correct."""


def reports_arn(cluster: ManagedCluster) -> str:
    """The cluster's ARN as it is written, from whichever annotation has it; empty if none has."""
    annotations = cluster.metadata.annotations
    return next((annotations[name] for name in AWS_ARN_ANNOTATIONS if annotations.get(name)), "")


def pair_of(cluster: ManagedCluster, hub: EksCluster) -> RoleNames:
    """The role names of the cluster. Raises BadClaim."""
    annotations = cluster.metadata.annotations
    reported = {name: annotations[name] for name in AWS_ARN_ANNOTATIONS if name in annotations}
    if not reported:
        raise BadClaim(
            f"annotation {EKS_ARN_ANNOTATION} is missing: the cluster's agent writes it when it introduces the cluster; for one "
            f"that was there before, clusteradm accept --clusters {cluster.metadata.name} --managed-cluster-arn ARN"
        )
    if len(set(reported.values())) > 1:
        raise BadClaim(
            "annotations contradict each other: " + ", ".join(f"{name}={arn[:SHOWN]!r}" for name, arn in reported.items())
        )
    [(name, arn), *_] = reported.items()
    try:
        pair = RoleNames(hub, parse_cluster_arn(arn))
    except BadArn as error:
        raise BadClaim(f"annotation {name}: {error}") from None
    if pair.managed.partition != hub.partition:
        raise BadClaim(
            f"annotation {name}: a cluster of partition {pair.managed.partition} cannot register with a hub of {hub.partition}"
        )
    reported_suffix = annotations.get(AWS_ROLE_ANNOTATION, pair.suffix)
    if reported_suffix != pair.suffix:
        raise BadClaim(
            f"annotation {AWS_ROLE_ANNOTATION}: {reported_suffix[:SHOWN]!r} is not what {arn} and this hub, {hub}, have in common "
            f"({pair.suffix}): the cluster was told to join another hub"
        )
    return pair


def marked(pair: RoleNames) -> Mapping[str, str]:
    """All three annotations of a managed cluster."""
    arn = str(pair.managed)
    return {EKS_ARN_ANNOTATION: arn, AWS_ARN_ANNOTATION: arn, AWS_ROLE_ANNOTATION: pair.suffix}
