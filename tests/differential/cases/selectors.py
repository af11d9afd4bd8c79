"""Label and field selectors: grammar, meaning and errors."""

from tests.differential.cases.lists import names
from tests.differential.dsl import Request, case, get, post, secret, setup

LABELS = {"a": {"tier": "web", "n": "1"}, "b": {"tier": "db", "n": "5"}, "c": {"tier": "web", "n": "x"}, "e": {"other": ""}}
FOUR = [setup(post("secrets", secret(name, labels=labels))) for name, labels in LABELS.items()]


def by(**query: str) -> Request:
    return get("secrets", query=query, pick=names)


GOOD = (
    "tier=web",
    "tier==web",
    "tier!=web",
    "tier in (web,db)",
    "tier in (web)",
    "tier notin (web)",
    "tier",
    "!tier",
    "n>3",
    "n<3",
    "tier=web,n=1",
    "tier,!other",
    "other=",
    "other",
    "",
    " tier = web ",
    "tier in ( web , db )",
    "tier notin (web,db)",
    "tier=web,tier=db",
)
BAD = (
    "tier=web=db",
    "tier in web",
    "tier in (web",
    "=web",
    "tier>x",
    "tier in ()",
    "bad key",
    "!tier=web",
    "tier==",
    "tier=a b",
    "tier!web",
    ",tier",
    "tier,",
    "-x=1",
    "tier=-",
)
FIELDS = (
    "metadata.name=a",
    "metadata.name==a",
    "metadata.name!=a",
    "metadata.name=a,metadata.namespace=${ns}",
    "metadata.namespace=other",
    "type=Opaque",
    "type!=Opaque",
    "metadata.name=a,metadata.name=b",
    "",
    "=",
    "metadata.name=a,!=",
)
BAD_FIELDS = ("data.k=1", "metadata.labels=a", "metadata.name", "metadata.name>a", "metadata.name in (a)", "=a", "spec.x=1")

CASES = [
    case("label selectors select", *FOUR, *(by(labelSelector=text) for text in GOOD)),
    case("broken label selectors are explained", *(by(labelSelector=text) for text in BAD)),
    case("field selectors select", *FOUR, *(by(fieldSelector=text) for text in FIELDS)),
    case("broken field selectors are explained", *(by(fieldSelector=text) for text in BAD_FIELDS)),
    case("label and field selectors together", *FOUR, by(labelSelector="tier=web", fieldSelector="metadata.name=c")),
    case(
        "field selectors of other kinds",
        get("configmaps", query={"fieldSelector": "type=x"}),
        get("pods", query={"fieldSelector": "status.phase=Running,spec.nodeName=n"}),
        get("pods", query={"fieldSelector": "status.nope=x"}),
        get("events", query={"fieldSelector": "involvedObject.name=x,type=Warning,reason=y"}),
        get("services", query={"fieldSelector": "spec.type=ClusterIP"}),
        get("/api/v1/namespaces", query={"fieldSelector": "metadata.name=${ns},status.phase=Active"}, pick=names),
        get("/api/v1/nodes", query={"fieldSelector": "spec.unschedulable=false"}),
        get("batch/v1:jobs", query={"fieldSelector": "status.successful=1"}),
        get("apps/v1:replicasets", query={"fieldSelector": "status.replicas=1"}),
        get("/apis/certificates.k8s.io/v1/certificatesigningrequests", query={"fieldSelector": "spec.signerName=x.io/y"}),
        get("apps/v1:deployments", query={"fieldSelector": "spec.replicas=1"}),
    ),
]
