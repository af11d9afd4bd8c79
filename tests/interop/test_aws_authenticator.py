"""aws-iam-authenticator, by which EKS judges tokens, before a real kube-apiserver: whom ours lets in it lets in, and nobody else.

Both judges have one AWS and one `aws-auth`, that of the same cluster. The authenticator knows the security token service by the
name that AWS gives it, and finds our local AWS there by a proxy, as does `muster aws-token`; so the tokens are those of a real EKS.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import itertools
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.aws.arns import parse_cluster_arn
from muster.aws.interfaces import AwsCredentials
from muster.aws.role_names import RoleNames
from muster.aws.token_validation import TokenRefused
from muster.aws.tokens import make_token
from muster.fleet.aws import FaultKind, StsRefused, Unmapped
from muster.machinery.authentication import UserInfo
from muster.registration.drivers.awsirsa.awsauth import Mapped, edited
from tests.support import peers
from tests.support.administrator import wait_for
from tests.support.aws_thread import AwsThread
from tests.support.client import Client
from tests.support.https_server import Answer, HttpsServer
from tests.support.local_aws import REGION, Botocore, credentials_in, make_hub_role
from tests.support.planes import KubeOptions, KubePlane
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, Agent, Hub, Spoke
from tests.support.token_attacks import ATTACKS, OTHER_REGIONS_STS, STRICTER, STS, Signer, token_of

pytestmark = pytest.mark.timeout(180)

HUB, MANAGED = "111111111111", "222222222222"
PAIR = RoleNames(
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{HUB}:cluster/hub-0"),
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{MANAGED}:cluster/managed-0"),
)
JOINING = RoleNames(PAIR.hub, parse_cluster_arn(f"arn:aws:eks:{REGION}:{MANAGED}:cluster/managed-9"))
USER, GROUP = "open-cluster-management:managed-0", "system:open-cluster-management:managed-0"
ENTRY = Mapped(PAIR.hub_role_arn, USER, (GROUP,))
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
HEALTH_PORT = 21363
EXAMPLES = 200
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass
class Judges:
    aws: AwsThread
    plane: KubePlane
    authenticator: Server
    pod: dict[str, str]
    """The variables of the agent's pod: it knows AWS by the names that AWS has, and the way there."""
    counted: Iterator[int] = field(default_factory=itertools.count)

    # What they say

    def theirs(self, token: str) -> dict[str, Any] | None:
        """Whom the real API server takes a token's holder for, by the authenticator's word; None: nobody."""
        client = Client(self.plane.url, ca=self.plane.ca, token=token)
        answer = client.post(WHO, {})
        client.close()
        assert answer.status in (201, 401), answer.text
        return dict(answer.json["status"]["userInfo"]) if answer.status == 201 else None

    def ours(self, token: str) -> UserInfo | None:
        try:
            return self.aws.run(self.aws.aws.user_of(str(PAIR.hub), token))
        except (TokenRefused, StsRefused, Unmapped):
            return None

    def names(self, token: str) -> tuple[str, str]:
        """By which both know a token's holder; empty: nobody."""
        theirs, ours = self.theirs(token), self.ours(token)
        return (theirs["username"] if theirs else "", ours.name if ours else "")

    def statuses(self, body: Any) -> tuple[int, int]:
        """With which both answer what an API server sends them."""
        theirs, ours = (webhook.post("", body).status for webhook in self.webhooks)
        return theirs, ours

    @functools.cached_property
    def webhooks(self) -> tuple[Client, Client]:
        """Theirs, by its own word of where it is, and ours."""
        written = yaml.safe_load(self.authenticator.log.with_name("webhook.kubeconfig").read_text())
        cluster = written["clusters"][0]["cluster"]
        authority = self.authenticator.log.with_name("authority.crt")
        authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        ours = Client(self.aws.aws.webhook_url(str(PAIR.hub)), ca=self.aws.ca_file)
        return Client(cluster["server"], ca=authority), ours

    # Tokens

    def session(self) -> AwsCredentials:
        """The agent as its role in the hub's account."""

        async def found() -> AwsCredentials:
            token = await asyncio.to_thread(Path(self.pod["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text)
            wanted = {"RoleArn": PAIR.managed_role_arn, "RoleSessionName": "agent", "WebIdentityToken": token}
            own = await Botocore(self.aws.aws, None).sts("assume_role_with_web_identity", **wanted)
            credentials = (await Botocore(self.aws.aws, credentials_in(own)).assume(PAIR.hub_role_arn)).credentials
            assert credentials is not None
            return credentials

        return self.aws.run(found())

    @functools.cached_property
    def signer(self) -> Signer:
        return Signer(self.session(), f"https://{STS}")

    def token(self, credentials: AwsCredentials | None = None) -> str:
        """Another one each time: the API server believes for some seconds what it was told of a token."""
        signed = datetime.now(UTC) - timedelta(seconds=next(self.counted) % 600)
        return make_token(credentials or self.session(), REGION, "hub-0", signed).text

    def administrator(self) -> AwsCredentials:
        return self.aws.run(self.aws.aws.administrator(HUB))

    # aws-auth

    def write(self, roles: str) -> None:
        """What `aws-auth` says from now on, to both: the administrator is called by the number of the change until both know it."""
        revision = f"revision-{next(self.counted)}"
        person = self.aws.run(self._person())
        data = {"mapRoles": roles, "mapUsers": f"- {{userarn: '{person}', username: {revision}}}\n"}
        admin = self.plane.client()
        if admin.patch(f"{CONFIG_MAPS}/aws-auth", {"data": data}).status == 404:
            admin.post(CONFIG_MAPS, {"metadata": {"name": "aws-auth"}, "data": data}).expect(201)
        admin.close()
        wait_for(
            lambda: self.names(self.token(self.administrator())) == (revision, revision),
            f"both to know {revision}",
            servers=[self.authenticator],
        )

    async def _person(self) -> str:
        found = await Botocore(self.aws.aws, await self.aws.aws.administrator(HUB)).sts("get_caller_identity")
        return str(found["Arn"])


@contextlib.contextmanager
def authenticator(directory: Path, plane: KubePlane, aws: AwsThread) -> Iterator[Server]:
    """It needs the API server only for `aws-auth`, and tries until that is there. It would say how it is on all of the machine's
    addresses, on a port that nothing changes, and goes on where it cannot: somebody listens there already."""
    directory.mkdir()
    (port,) = free_ports(1)
    command: list[str | Path] = [
        peers.need("aws-iam-authenticator"),
        "server",
        "--cluster-id=hub-0",
        "--backend-mode=EKSConfigMap",
        f"--kubeconfig={plane.kubeconfig}",
        f"--state-dir={directory}",
        f"--generate-kubeconfig={directory / 'webhook.kubeconfig'}",
        f"--port={port}",
    ]
    environment = {**aws.by_names(aws.aws.environ(REGION)), "SSL_CERT_FILE": str(aws.ca_file), "KUBECONFIG": ""}
    server = Server("aws-iam-authenticator", command, directory / "log", environment)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", HEALTH_PORT)))
        server.start()
        stack.callback(server.stop, kill=True)
        server.wait_until((directory / "webhook.kubeconfig").exists, 60)
        yield server


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    directory = tmp_path_factory.mktemp("authenticator")
    with contextlib.ExitStack() as stack:
        aws = stack.enter_context(AwsThread(directory / "aws"))
        flags = [f"--authentication-token-webhook-config-file={directory / 'state/webhook.kubeconfig'}"]
        flags += ["--authentication-token-webhook-cache-ttl=0s", "--authentication-token-webhook-version=v1beta1"]
        plane = KubePlane(directory / "plane", KubeOptions(fsync=False, apiserver_flags=flags))
        server = stack.enter_context(authenticator(directory / "state", plane, aws))
        stack.callback(plane.stop, kill=True)
        plane.start()
        for cluster in (PAIR.hub, PAIR.managed, JOINING.managed):
            aws.register(cluster, plane.cluster, "CONFIG_MAP")
        admin = plane.client()
        admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "klusterlet-registration-sa"}}).expect(201)
        pod = aws.by_names(aws.agent_pod(PAIR, admin, "default"))
        aws.run(make_hub_role(aws.aws, PAIR))
        stack.enter_context(aws.following_aws_auth(PAIR.hub, plane.kubeconfig))
        judges = Judges(aws, plane, server, pod)
        judges.write(edited("", [ENTRY]))
        yield judges


def test_our_agents_token_is_admitted(judges: Judges) -> None:
    """As `muster aws-token` prints it in the agent's pod, by the entry that our hub writes into `aws-auth`."""
    line: list[str | Path] = [MUSTER, "aws-token", "--region", REGION, "--cluster-name", "hub-0", "--role-arn", PAIR.hub_role_arn]
    environment = {"PATH": os.environ["PATH"], **judges.pod}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    token = json.loads(done.stdout)["status"]["token"]
    theirs, ours = judges.theirs(token), judges.ours(token)
    assert theirs is not None, judges.authenticator.log.read_text()[-3000:]
    assert (theirs["username"], theirs["groups"]) == (USER, [GROUP, "system:authenticated"])
    assert ours is not None
    assert ours.document() == {**theirs, "groups": [GROUP]}


def test_our_agent_registers_with_a_hub_that_knows_it_by_the_authenticator(judges: Judges, tmp_path: Path) -> None:
    """All programs are ours but the judge and the API server, and none is told where AWS is."""
    drivers = ("--enabled-registration-drivers=aws-irsa", f"--hub-cluster-arn={PAIR.hub}", "--aws-identity=hub")
    hub = Hub(judges.plane.cluster, tmp_path / "hub", drivers)
    hub.install(*drivers)
    hub.process.environment |= judges.aws.by_names(judges.aws.hub_pod(PAIR.hub, hub.admin))
    arns = [f"--hub-cluster-arn={JOINING.hub}", f"--managed-cluster-arn={JOINING.managed}"]
    spoke = Spoke(judges.plane.cluster, tmp_path / "spoke")
    agent = Agent(spoke, hub, "nine", hub.trusted_kubeconfig(), ["--registration-auth=aws-irsa", *arns])
    agent.process.environment |= judges.aws.by_names(judges.aws.agent_pod(JOINING, hub.admin, agent.namespace))
    agent.process.environment["PATH"] = os.pathsep.join((str(MUSTER.parent), os.environ["PATH"]))
    try:
        hub.start()
        agent.start()
        hub.accept("nine", lease=2)
        hub.wait_available("nine", timeout=60)
        hub.wait_renewed("nine", times=2)
        hub.delete("nine")
        hub.wait_gone("nine", timeout=60)
    finally:
        agent.stop()
        hub.stop()


def test_a_token_that_ours_refuses_is_refused(judges: Judges) -> None:
    signer = judges.signer
    good = token_of(signer.url())
    assert judges.names(good) == (USER, USER)
    before = len(judges.aws.proxy.asked)
    verdicts = {name: judges.names(attack.token(signer)) for name, attack in ATTACKS.items()}
    assert verdicts == dict.fromkeys(ATTACKS, ("", ""))
    assert set(judges.aws.proxy.asked[before:]) <= {f"{STS}:443", f"{OTHER_REGIONS_STS}:443"}, "whatever a token says"
    assert judges.names(good) == (USER, USER)


def test_where_ours_is_stricter_nothing_is_gained(judges: Judges) -> None:
    verdicts = {name: judges.names(attack.token(judges.signer)) for name, attack in STRICTER.items()}
    assert verdicts == dict.fromkeys(STRICTER, (USER, ""))


def test_neither_asks_a_host_that_plays_sts(judges: Judges) -> None:
    identity = {"Account": HUB, "Arn": f"arn:aws:sts::{HUB}:assumed-role/{PAIR.hub_role}/x", "UserId": "AROA:x"}
    with HttpsServer(lambda _: Answer({"GetCallerIdentityResponse": {"GetCallerIdentityResult": identity}})) as impostor:
        token = make_token(AwsCredentials("AKIAEVIL", "evil"), REGION, "hub-0", datetime.now(UTC), impostor.url).text
        assert judges.names(token) == ("", "")
        assert impostor.received == []


def test_a_session_that_has_ended_is_nobodys_to_both(judges: Judges) -> None:
    judges.aws.aws.behaviour.longest_session = 2
    try:
        token = judges.token()
    finally:
        judges.aws.aws.behaviour.longest_session = None
    wait_for(lambda: judges.statuses(review(token)) == (403, 403), "the session to end")
    assert judges.names(judges.token()) == (USER, USER)


def test_reviews_are_answered_alike(judges: Judges) -> None:
    """A refusal is told from a security token service that has no time: then the API server asks again."""
    good = token_of(judges.signer.url())
    assert judges.statuses(review(good)) == (200, 200)
    assert judges.statuses(review(ATTACKS["for another hub"].token(judges.signer))) == (403, 403)
    assert judges.statuses(b"{") == (400, 400)
    judges.aws.aws.behaviour.fail("sts:GetCallerIdentity", FaultKind.THROTTLED, times=2)
    assert judges.statuses(review(good)) == (429, 429)
    assert judges.statuses(review(good)) == (200, 200)


def review(token: str) -> dict[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview", "spec": {"token": token}}


def test_roles_a_step_before_are_nobody_to_both(judges: Judges) -> None:
    async def managed() -> AwsCredentials:
        token = await asyncio.to_thread(Path(judges.pod["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text)
        wanted = {"RoleArn": PAIR.managed_role_arn, "RoleSessionName": "agent", "WebIdentityToken": token}
        return credentials_in(await Botocore(judges.aws.aws, None).sts("assume_role_with_web_identity", **wanted))

    assert judges.names(judges.token(judges.aws.run(managed()))) == ("", "")
    assert judges.names(judges.token(judges.aws.run(judges.aws.aws.administrator("333333333333")))) == ("", "")


SNIPPETS = ("&", "=", ";", "/", "?", "#", "@", ":", "%", "%20", "+", "\\", "\n", "Action", "X-Amz-Expires=60", "&X-Amz-Expires=60")


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, int, str]]:
    """Where something is cut out of a URL, how much of it, and what comes in its place."""
    inserted = st.sampled_from(SNIPPETS) | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=3)
    edit = st.tuples(st.floats(0, 1), st.integers(0, 4), inserted)
    return draw(st.lists(edit, min_size=1, max_size=2))


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits())
def test_what_ours_takes_of_a_changed_token_theirs_takes(judges: Judges, changes: list[tuple[float, int, str]]) -> None:
    url = judges.signer.url()
    for place, length, inserted in changes:
        at = int(place * len(url))
        url = url[:at] + inserted + url[at + length :]
    theirs, ours = judges.statuses(review(token_of(url)))
    assert theirs == ours or (theirs, ours) == (200, 403), url


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_a_token_that_is_written_otherwise_is_the_same_to_both(judges: Judges, random: Random) -> None:
    """In another order, with letters escaped that need not be, or names in other letters: some of it is a good token still."""
    place, _, query = judges.signer.url().partition("?")
    parts = query.split("&")
    random.shuffle(parts)
    for _ in range(random.randrange(3)):
        at = random.randrange(len(parts))
        name, _, value = parts[at].partition("=")
        letter = random.randrange(len(name))
        escaped = f"{name[:letter]}%{ord(name[letter]):02{random.choice('xX')}}{name[letter + 1 :]}={value}"
        needless = f"{name}=%{ord(value[0]):02X}{value[1:]}"
        parts[at] = random.choice((escaped, needless, f"{name.swapcase()}={value}", f"&{parts[at]}"))
    url = f"{place}?{'&'.join(parts)}"
    theirs, ours = judges.statuses(review(token_of(url)))
    assert theirs == ours, url


OTHERS = """# nodes
- groups: [system:bootstrappers, system:nodes]
  rolearn: arn:aws:iam::111111111111:role/nodes
  username: system:node:{{EC2PrivateDNSName}}
"""
ROLE = PAIR.hub_role_arn
MAPPINGS = {
    "as our hub writes it": (edited("", [ENTRY]), USER),
    "among others' entries": (edited(OTHERS, [ENTRY]), USER),
    "in brackets": (edited("[{rolearn: x, username: y}]", [ENTRY]), USER),
    "taken out again": (edited(edited(OTHERS, [ENTRY]), [], [ROLE]), ""),
    "nothing": ("", ""),
    "in other letters": (f"- {{rolearn: '{ROLE.upper()}', username: jo}}\n", "jo"),
    "twice: the last counts": (f"- {{rolearn: '{ROLE}', username: a}}\n- {{rolearn: '{ROLE}', username: b}}\n", "b"),
    "beside one without a role": (f"- {{username: a}}\n- {{rolearn: '{ROLE}', username: b}}\n", "b"),
    "beside what is no entry": (f"- {{rolearn: '{ROLE}', username: a}}\n- nonsense\n", "a"),
    "beside a truth value": (f"- {{rolearn: '{ROLE}', username: a}}\n- {{rolearn: no, username: no}}\n", "a"),
    "fields in other letters": (f"- {{roleARN: '{ROLE}', Username: a}}\n", "a"),
    "fields in two kinds of letters": (f"- {{rolearn: '{ROLE}', username: a, userName: b, RoleArn: x}}\n", "a"),
    "one of two spellings has no name": (f"- {{rolearn: '{ROLE}', Username: a, username: 7}}\n", "a"),
    "not a list": (f"rolearn: '{ROLE}'\nusername: a\n", ""),
    "not YAML": (f"- {{rolearn: '{ROLE}', username: a\n", ""),
    "a group that is no list": (f"- {{rolearn: '{ROLE}', username: a, groups: b}}\n", "a"),
    "a role and SSO": (f"- {{rolearn: '{ROLE}', username: a, sso: {{permissionSetName: b, accountID: '1'}}}}\n", ""),
    "a role and SSO that is no mapping": (f"- {{rolearn: '{ROLE}', username: a, sso: no}}\n", ""),
    "a role and an empty SSO": (f"- {{rolearn: '{ROLE}', username: a, sso: null}}\n", "a"),
    "a field twice": (f"- {{rolearn: '{ROLE}', username: a, username: b}}\n", "b"),
    "a session's name": (f"- {{rolearn: '{ROLE}', username: 'x:{{{{SessionName}}}}'}}\n", "x:test"),
    "an account": (f"- {{rolearn: '{ROLE}', username: 'x:{{{{AccountID}}}}'}}\n", f"x:{HUB}"),
    "another role": ("- {rolearn: arn:aws:iam::111111111111:role/other, username: a}\n", ""),
    "the session's own name": (f"- {{rolearn: 'arn:aws:sts::{HUB}:assumed-role/{PAIR.hub_role}/test', username: a}}\n", ""),
}


def test_aws_auth_means_the_same_to_both(judges: Judges) -> None:
    """What breaks it locks nodes and administrators out; what ours takes for harmless has to be harmless there."""
    said: dict[str, tuple[str, str]] = {}
    session = judges.session()
    for name, (roles, _) in MAPPINGS.items():
        judges.write(roles)
        said[name] = judges.names(judges.token(session))
    judges.write(edited("", [ENTRY]))
    assert said == {name: (user, user) for name, (_, user) in MAPPINGS.items()}


FIELDS = st.sampled_from(("rolearn", "username", "groups", "roleARN", "Username", "GROUPS", "sso", "other"))
TEXTS = (ROLE, ROLE.upper(), "arn:aws:iam::111111111111:role/other", "jo", "x:{{AccountID}}", "", "no")
VALUES = st.sampled_from((*TEXTS, 7, True, None, ["a", "b"], ["a", 7]))
ENTRIES = st.dictionaries(FIELDS, VALUES, max_size=5) | st.fixed_dictionaries({"rolearn": st.just(ROLE), "username": VALUES})
LISTED = st.lists(ENTRIES | VALUES, max_size=3)


@settings(max_examples=EXAMPLES // 4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LISTED, st.booleans(), st.sampled_from(("", "# ours\n", "\n---\n", " - x\n", "}", "\t")))
def test_whatever_aws_auth_says_both_read_it_alike(judges: Judges, listed: list[Any], flow: bool, noise: str) -> None:
    """But for a user without a name: theirs lets it in, as one whom nothing can be bound to but groups, and ours does not."""
    text = yaml.safe_dump(listed, default_flow_style=flow) + noise
    judges.write(text)
    token = judges.token(judges.signer.credentials)
    theirs, ours = judges.theirs(token), judges.ours(token)
    if theirs is None or "username" not in theirs:
        assert ours is None, text
    else:
        assert ours is not None, text
        assert (ours.name, [*ours.groups, "system:authenticated"]) == (theirs["username"], theirs["groups"]), text
