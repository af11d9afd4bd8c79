"""What the audit log says of requests for clusters."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.apiserver.audit import Audit
from muster.gateway.audit import AuditedRequest
from muster.gateway.request_decision import Granted, Refused
from muster.http import Connection, Headers, Request, Response
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo

USER1 = UserInfo("user1", groups=("team",))
SECRET = RequestInfo(True, "/api/v1/namespaces/a/secrets/s", "get", "api", "", "v1", "a", "secrets", "", "s")
NOTES = "proxy.open-cluster-management.io"


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request("GET", "/some/path?watch=1", Headers(raw), Connection(("192.0.2.1", 7), "https"), received=0.0)


class Log:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.audit = Audit(path)

    def lines(self) -> list[dict[str, Any]]:
        self.audit.close()
        return [orjson.loads(line) for line in self._path.read_bytes().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "audit.log")


def test_a_finished_request_is_one_line_with_who_what_where_and_why(log: Log) -> None:
    audited = AuditedRequest(log.audit, request(user_agent="kubectl/v1.37", authorization="Bearer hidden"), "id-1", USER1)
    audited.set_cluster("foo", SECRET)
    audited.record_decision(Granted("RBAC: allowed", UserInfo("cluster:hub:user1"), {"verb": "foo/get"}))
    audited.ended(200, sent=12)
    audited.ended(500)
    (event,) = log.lines()
    assert event["kind"] == "Event"
    assert event["apiVersion"] == "audit.k8s.io/v1"
    assert event["stage"] == "ResponseComplete"
    assert event["cluster"] == "foo"
    assert event["verb"] == "get"
    assert event["user"] == {"username": "user1", "groups": ["team"]}
    assert event["objectRef"] == {
        "resource": "secrets",
        "namespace": "a",
        "name": "s",
        "apiGroup": "",
        "apiVersion": "v1",
        "subresource": "",
    }
    assert event["responseStatus"]["code"] == 200
    assert event["sourceIPs"] == ["192.0.2.1"]
    assert event["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "RBAC: allowed",
        f"{NOTES}/verb": "foo/get",
        f"{NOTES}/impersonated-user": "cluster:hub:user1",
        f"{NOTES}/bytes-sent": "12",
    }
    assert event["auditID"] == "id-1"
    assert "hidden" not in orjson.dumps(event).decode()


def test_a_refused_request_says_why(log: Log) -> None:
    audited = AuditedRequest(log.audit, request(), "id-1", USER1)
    audited.set_cluster("foo", SECRET)
    audited.record_decision(Refused(Response(403), "needs foo/get"))
    audited.ended(403)
    (event,) = log.lines()
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["annotations"]["authorization.k8s.io/reason"] == "needs foo/get"


def test_a_stream_is_in_the_log_when_it_begins_and_when_it_ends(log: Log) -> None:
    audited = AuditedRequest(log.audit, request(), "id-1")
    audited.authenticated(USER1)
    audited.set_cluster("foo", RequestInfo(True, "", "get", version="v1", resource="pods", subresource="exec", name="p"))
    audited.started(101)
    audited.ended(101, problem="ClusterBroken", sent=3, received=0)
    audited.started(200)
    first, last = log.lines()
    assert (first["stage"], last["stage"]) == ("ResponseStarted", "ResponseComplete")
    assert first["auditID"] == last["auditID"]
    assert last["annotations"][f"{NOTES}/problem"] == "ClusterBroken"
    assert last["annotations"][f"{NOTES}/bytes-received"] == "0"


def test_a_request_that_was_never_understood_is_in_the_log_too(log: Log) -> None:
    audited = AuditedRequest(log.audit, request(), "id-1")
    audited.client_hung_up()
    (event,) = log.lines()
    assert event["verb"] == "get"
    assert event["user"] == {}
    assert event["cluster"] == ""
    assert event["responseStatus"]["code"] == 499
    assert "objectRef" not in event


def test_an_id_that_the_client_chose_stands_beside_our_own(log: Log) -> None:
    for _ in range(2):
        AuditedRequest(log.audit, request(audit_id="chosen-1"), "chosen-1", USER1).ended(200)
    events = log.lines()
    assert [event["auditID"] for event in events] == ["chosen-1", "chosen-1"]
    assert len({event["annotations"][f"{NOTES}/request-id"] for event in events}) == 2


def test_without_a_log_nothing_is_written() -> None:
    AuditedRequest(None, request(), "id-1", USER1).ended(200)
