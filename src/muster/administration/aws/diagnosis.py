"""The AWS checks of `doctor` on the hub: of the hub as a whole, and of one cluster that registers with AWS identities.

The access of a cluster is a chain: its annotations → the record of what was created for it → its role with its trust policy, tags
and policies → the mapping of that role on the hub. Each link is checked with the caller's own AWS identity, if that is of the hub's
account; unreadable ones are reported, and are no problem. Nothing is changed: the hub corrects AWS itself at its next check, and
each finding says how to trigger that at once.
"""

from __future__ import annotations

from typing import Final

from muster.administration.aws import prerequisites
from muster.administration.aws.cleanup import unclaimed
from muster.administration.aws.view import HubOnAws
from muster.administration.errors import AdministrationError
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.aws import policies
from muster.aws.errors import AwsError, NotFound
from muster.aws.interfaces import AccessEntry, Aws, RoleDescription
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG, RoleNames
from muster.registration.drivers.awsirsa import PROFILE, access_entries
from muster.registration.drivers.awsirsa.aws_auth_map import mapped
from muster.registration.drivers.awsirsa.awsauth import NAME, NAMESPACE, Unreadable, mapped_roles, role_of
from muster.registration.drivers.awsirsa.claims import BadClaim, pair_of
from muster.registration.drivers.awsirsa.names import ROLE_ARN
from muster.registration.drivers.awsirsa.options import IdentityChoice, MappingChoice
from muster.registration.drivers.awsirsa.records import Mapping, Phase, Record
from muster.registration.hub.install import ACCOUNT
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import KubeError
from muster.runtime.client import NotFound as NotThere
from muster.runtime.client.builtin import SERVICE_ACCOUNTS

IDENTITY: Final = "AWS identity"
ROLE: Final = "AWS role"
MAPPING: Final = "AWS mapping"
CREATOR: Final = "hub's AWS role"
LEFT: Final = "left on AWS"
AUTH_MAP: Final = f"ConfigMap {NAMESPACE}/{NAME}"
CLEANUP: Final = "run aws cleanup"


# One cluster


async def aws_identity(diagnosis: Diagnosis) -> Findings:
    """Check everything by which the hub authenticates the role of a cluster's agents."""
    cluster, view = diagnosis.cluster, diagnosis.aws
    if cluster is None or not PROFILE.marks(cluster):
        return
    if view is None:
        text = "the cluster registers by AWS, but no ClusterManager enables the driver on the hub"
        yield Finding(PROBLEM, IDENTITY, text, "run init --registration-drivers csr,awsirsa --hub-cluster-arn ARN")
        return
    try:
        pair = pair_of(cluster, view.side.hub)
    except BadClaim as error:
        yield Finding(PROBLEM, IDENTITY, str(error), "correct the ManagedCluster's annotations, or delete it and join again")
        return
    if not cluster.spec.hub_accepts_client:
        return
    record = (await view.records()).get(pair.hub_role)
    if problem := _off_record(view, diagnosis, pair, record):
        yield problem
        return
    assert record is not None, "else nothing is on record, which is a problem"
    async for finding in _role(view, diagnosis, pair):
        yield finding
    async for finding in _mapping(view, diagnosis, record):
        yield finding


def _off_record(view: HubOnAws, diagnosis: Diagnosis, pair: RoleNames, record: Record | None) -> Finding | None:
    name, account = diagnosis.name, view.side.hub.account
    if record is None:
        text = f"nothing is on record for it: role {pair.hub_role_arn} was not made"
        return Finding(PROBLEM, IDENTITY, text, f"run accept --clusters {name} with an AWS identity of account {account}")
    if record.cluster != name:
        text = f"role {record.role} is on record as that of cluster {record.cluster}"
        return Finding(PROBLEM, IDENTITY, text, "one of the two has a wrong ARN: delete that one")
    if record.phase is not Phase.GRANTED:
        text = f"ConfigMap {view.namespace}/{record.role} says {record.phase.value}: the identity is not complete yet"
        return Finding(PROBLEM, IDENTITY, text, "the ManagedCluster's condition names the step; it is retried")
    return None


def _at_once(cluster: str) -> str:
    """How to have the hub check all of it at once."""
    deny = f'kubectl patch managedcluster {cluster} --type merge -p \'{{"spec":{{"hubAcceptsClient":false}}}}\''
    return f"the hub looks every 12 hours, and sets it right where it may; at once: {deny}, then accept --clusters {cluster}"


async def _role(view: HubOnAws, diagnosis: Diagnosis, pair: RoleNames) -> Findings:
    if view.aws is None:
        yield _unseen(view, ROLE, f"role {pair.hub_role_arn}, whom it trusts and what it may")
        return
    try:
        wrong = await _wrong_with_role(view.aws, pair, diagnosis.name)
    except NotFound:
        yield Finding(PROBLEM, ROLE, f"{pair.hub_role_arn} is not there", _at_once(diagnosis.name))
    except AwsError as error:
        yield Finding(NOTE, ROLE, f"cannot be read: {error}", "use an AWS identity that may read roles")
    else:
        for text in wrong:
            yield Finding(PROBLEM, ROLE, f"{pair.hub_role_arn} {text}", _at_once(diagnosis.name))
        if not wrong:
            yield Finding(OK, ROLE, f"{pair.hub_role_arn} trusts the cluster's role and no other")


async def _wrong_with_role(aws: Aws, pair: RoleNames, cluster: str) -> list[str]:
    """What is wrong with the role. Raises NotFound and AwsError."""
    found = await aws.get_role(pair.hub_role)
    wrong = []
    if found.trust != policies.hub_trust(pair):
        wrong.append(_wrong_trust(found, pair))
    wanted = {HUB_ARN_TAG: str(pair.hub), CLUSTER_TAG: cluster}
    tags = {key: found.tags.get(key, "") for key in wanted}
    wrong += [f"is tagged {key}={tags[key]}, expected {value}" for key, value in wanted.items() if tags[key] != value]
    try:
        access = await aws.get_role_policy(pair.hub_role, policies.ACCESS_POLICY)
    except NotFound:
        access = {}
    if access != policies.hub_access(pair.hub):
        wrong.append(f"has not the policy {policies.ACCESS_POLICY} that it should have")
    return wrong


def _wrong_trust(found: RoleDescription, pair: RoleNames) -> str:
    named = [one.get("Principal") for one in found.trust.get("Statement") or () if isinstance(one, dict)]
    principals = [str(one.get("AWS")) for one in named if isinstance(one, dict)]
    if any(principal.startswith("AROA") for principal in principals):
        return f"trusts {', '.join(principals)}: {pair.managed_role_arn} was deleted and made anew since"
    return f"does not trust {pair.managed_role_arn} with its four tags, or not it alone"


async def _mapping(view: HubOnAws, diagnosis: Diagnosis, record: Record) -> Findings:
    described = await view.described()
    mode = described.authentication_mode if described is not None else ""
    if mode == "API" and record.mapping is Mapping.AWS_AUTH:
        text = f"the cluster is mapped by {AUTH_MAP}, which EKS does not read: the hub's authentication mode is {mode}"
        yield Finding(PROBLEM, MAPPING, text, "run init with --aws-mapping access-entry")
    elif mode == "CONFIG_MAP" and record.mapping is Mapping.ACCESS_ENTRY:
        text = f"the cluster is mapped by an access entry, and the hub's authentication mode is {mode}"
        yield Finding(PROBLEM, MAPPING, text, "run init with --aws-mapping aws-auth")
    elif record.other is not None:
        text = f"{record.role_arn} is known by {record.mapping.value}, and may be known by {record.other.value} too"
        yield Finding(NOTE, MAPPING, text, f"the hub removes it where it may; else {CLEANUP}")
    elif record.mapping is Mapping.AWS_AUTH:
        yield await _auth_entry(view, record)
    elif view.aws is None:
        yield _unseen(view, MAPPING, f"the access entry of {record.role_arn}")
    else:
        yield await _access_entry(view, view.aws, diagnosis, record)


async def _auth_entry(view: HubOnAws, record: Record) -> Finding:
    text = await view.aws_auth()
    if text is None:
        return _no_map()
    try:
        entries = [mapped_role for mapped_role in mapped_roles(text) if role_of(mapped_role) == record.role_arn.lower()]
    except Unreadable as error:
        return _unreadable(error)
    if not entries:
        remedy = "the hub's controller puts it back: does it run? see get hub-info"
        return Finding(PROBLEM, MAPPING, f"{AUTH_MAP} has no entry for {record.role_arn}", remedy)
    if len(entries) > 1 or not mapped(record).matches(entries[0]):
        remedy = "it was changed, and the hub's controller has not corrected it: does it run? see get hub-info"
        return Finding(PROBLEM, MAPPING, f"{AUTH_MAP}: the entry for {record.role_arn} is not the hub's", remedy)
    return Finding(OK, MAPPING, f"{AUTH_MAP} knows {record.role_arn} as {mapped(record).username}")


async def _access_entry(view: HubOnAws, aws: Aws, diagnosis: Diagnosis, record: Record) -> Finding:
    wanted = access_entries.entry_of(record, {})
    try:
        found = await aws.describe_access_entry(view.side.hub.name, record.role_arn)
    except NotFound:
        return Finding(PROBLEM, MAPPING, f"there is no access entry for {record.role_arn}", _at_once(diagnosis.name))
    except AwsError as error:
        return Finding(NOTE, MAPPING, f"cannot be read: {error}", "use an AWS identity that may read access entries")
    if _described(found) != _described(wanted):
        text = f"the access entry of {record.role_arn} says {_described(found)}, expected {_described(wanted)}"
        return Finding(PROBLEM, MAPPING, text, _at_once(diagnosis.name))
    return Finding(OK, MAPPING, f"an access entry knows {record.role_arn} as {found.username}")


def _described(entry: AccessEntry) -> str:
    return f"user {entry.username}, groups {', '.join(entry.groups)}"


# The hub


async def diagnose_hub(view: HubOnAws) -> list[Finding]:
    """Check what concerns all clusters that register with AWS identities, and what is left of former ones."""
    findings: list[Finding] = []
    for subject, step in ((IDENTITY, _caller), (CREATOR, _creator), (MAPPING, _auth_map), (LEFT, _records), (LEFT, _unclaimed)):
        try:
            findings += [one async for one in step(view)]
        except (AwsError, KubeError) as error:
            findings.append(Finding(NOTE, subject, f"cannot be read: {error}", "run doctor with permission to read it"))
    return findings


async def _caller(view: HubOnAws) -> Findings:
    if view.aws is None:
        yield _unseen(view, IDENTITY, "roles and access entries of the hub's account")
    else:
        yield Finding(OK, IDENTITY, f"AWS is read as {view.caller}")


async def _creator(view: HubOnAws) -> Findings:
    """Check the role with which the hub's controllers call AWS."""
    hub, described = view.side.hub, await view.described()
    issuer = described.issuer if described is not None else ""
    try:
        wanted = prerequisites.hub_role(hub, issuer or "ISSUER", view.namespace)
    except AdministrationError as error:
        yield Finding(PROBLEM, CREATOR, error.message, error.remedy)
        return
    if view.side.identity is IdentityChoice.ADMINISTRATOR:
        return
    async for finding in _creators_account(view, wanted.arn):
        yield finding
    if view.aws is None:
        return
    remedy = f"run aws prerequisites hub --hub-cluster-arn {hub} --oidc-provider {issuer or 'ISSUER'} --apply"
    try:
        found = await view.aws.get_role(wanted.name)
    except NotFound:
        text = f"{wanted.arn} is not there: the hub can make no roles"
        yield Finding(
            PROBLEM,
            CREATOR,
            text,
            f"{remedy}; or have the administrator who accepts clusters create them: init --aws-identity administrator",
        )
        return
    if issuer and found.trust != wanted.trust:
        yield Finding(PROBLEM, CREATOR, f"{wanted.arn} does not trust the hub's account, or trusts others too", remedy)
        return
    try:
        access = await view.aws.get_role_policy(wanted.name, policies.ACCESS_POLICY)
    except NotFound:
        access = wanted.access  # Its permissions are in other policies, which are not checked.
    if access not in [policies.creator_access(hub, entries=entries) for entries in (True, False)]:
        text = f"{wanted.arn}: policy {policies.ACCESS_POLICY} is not what aws prerequisites hub prints: is something missing?"
        yield Finding(NOTE, CREATOR, text, remedy)
    yield Finding(OK, CREATOR, f"{wanted.arn} is there" + (", and trusts the hub's controllers" if issuer else ""))


async def _creators_account(view: HubOnAws, role_arn: str) -> Findings:
    try:
        found = await view.client.get(SERVICE_ACCOUNTS, ACCOUNT, view.namespace)
    except NotThere:
        return
    annotated = (found["metadata"].get("annotations") or {}).get(ROLE_ARN, "")
    if annotated != role_arn:
        text = f"ServiceAccount {view.namespace}/{ACCOUNT}: annotation {ROLE_ARN} is {annotated!r}, expected {role_arn!r}"
        yield Finding(PROBLEM, CREATOR, text, "the operator writes it: does it run? see get hub-info")


async def _auth_map(view: HubOnAws) -> Findings:
    records = (await view.records()).values()
    if view.side.mapping is MappingChoice.ACCESS_ENTRY and not any(record.mapping is Mapping.AWS_AUTH for record in records):
        return
    text = await view.aws_auth()
    described = await view.described()
    if text is None and described is not None and described.authentication_mode == "API":
        return
    if text is None:
        yield _no_map()
        return
    try:
        entries = mapped_roles(text)
    except Unreadable as error:
        yield _unreadable(error)
    else:
        yield Finding(OK, MAPPING, f"{AUTH_MAP} can be read: {len(entries)} entries")


async def _records(view: HubOnAws) -> Findings:
    """Check records of deleted clusters, and of those that could not be revoked."""
    clusters = {one["metadata"]["name"]: one["metadata"]["uid"] for one in (await view.client.list(MANAGED_CLUSTERS)).items}
    for record in (await view.records()).values():
        where = f"ConfigMap {view.namespace}/{record.role}"
        if record.phase is Phase.LEFT:
            text = f"{where}: the hub could not remove role {record.role_arn} of cluster {record.cluster}"
            yield Finding(PROBLEM, LEFT, text, f"{CLEANUP} with an AWS identity of account {view.side.hub.account}")
        elif clusters.get(record.cluster) != record.uid:
            text = f"{where}: cluster {record.cluster} is gone, and its role {record.role_arn} is not removed yet"
            yield Finding(PROBLEM, LEFT, text, f"the hub's controller does that: does it run? If it cannot, {CLEANUP}")


async def _unclaimed(view: HubOnAws) -> Findings:
    if view.aws is None:
        return
    on_record = await view.records()
    for one in await unclaimed(view.client, view.aws, view.side.hub, view.namespace):
        if one.role not in on_record:
            whose = f", made for cluster {one.cluster}" if one.cluster else ""
            yield Finding(PROBLEM, LEFT, f"role {one.arn}{whose} is this hub's, and no cluster claims it", CLEANUP)


# Shared


def _unseen(view: HubOnAws, subject: str, what: str) -> Finding:
    remedy = f"use an AWS identity of account {view.side.hub.account} that may read them (AWS_PROFILE, or keys)"
    return Finding(NOTE, subject, f"not checked: {what}: {view.unseen}", remedy)


def _no_map() -> Finding:
    return Finding(PROBLEM, MAPPING, f"{AUTH_MAP} is missing", f"kubectl create configmap {NAME} -n {NAMESPACE}")


def _unreadable(error: Unreadable) -> Finding:
    remedy = f"kubectl edit configmap {NAME} -n {NAMESPACE}: until then no cluster is mapped, and EKS may refuse all of them"
    return Finding(PROBLEM, MAPPING, f"{AUTH_MAP}: {error}", remedy)
