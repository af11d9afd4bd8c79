"""Service `kubernetes`, ranges of cluster IPs and their addresses."""

from typing import Any

from tests.differential.dsl import Request, case, delete, get, merge, post, setup

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
KUBERNETES = "/api/v1/namespaces/default/services/kubernetes"


TAKEN = (
    "details.causes.0.message",
    'Invalid value: ["198.51.100.5"]: failed to allocate IP 198.51.100.5: provided IP is already allocated',
)


def service(name: str, until: tuple[str, Any] | None = None, **spec: Any) -> Request:
    """`until`: a range that is ready is known to the allocator a moment later."""
    return post("services", {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}, until=until)


def cidr(*cidrs: str) -> Request:
    return post(CIDRS, {"metadata": {"name": "${slug}"}, "spec": {"cidrs": list(cidrs)}})


def address(ip: str, **parent: str) -> Request:
    return post(ADDRESSES, {"metadata": {"name": ip}, "spec": {"parentRef": parent}})


def at_home(body: Any) -> Any:
    """Service kubernetes without where it is and who wrote it."""
    spec = {**body["spec"], "ports": [{**port, "targetPort": "<port>"} for port in body["spec"]["ports"]]}
    return {"labels": body["metadata"].get("labels"), "spec": spec, "status": body["status"]}


def ready(body: Any) -> Any:
    return {"finalizers": body["metadata"].get("finalizers"), "conditions": body["status"]["conditions"]}


CASES = [
    case("service kubernetes is there from the beginning", get(KUBERNETES, pick=at_home)),
    case(
        "the default range is there from the beginning",
        get(CIDRS + "/kubernetes", present="metadata.finalizers", pick=lambda b: {**ready(b), "ranges": len(b["spec"]["cidrs"])}),
    ),
    case(
        "a cluster IP is an address with a parent",
        service("web"),
        setup(get("services/web", save={"ip": "spec.clusterIP"})),
        get(ADDRESSES + "/${ip}", until=("spec.parentRef.name", "web"), pick=lambda b: {**b["metadata"], **b["spec"], "name": ""}),
        setup(delete("services/web")),
        get(ADDRESSES + "/${ip}", until=("code", 404), pick=lambda b: b["reason"]),
    ),
    case(
        "a cluster IP that is taken or lies elsewhere",
        setup(service("web")),
        setup(get("services/web", save={"ip": "spec.clusterIP"})),
        service("same", clusterIP="${ip}"),
        service("elsewhere", clusterIP="192.0.2.9"),
        service("nowhere", clusterIP="10.300.0.1"),
    ),
    case(
        "a cluster IP that somebody else has",
        setup(address("198.51.100.5", group="a.io", resource="gateways", name="g")),
        setup(cidr("198.51.100.0/29")),
        get(CIDRS + "/${slug}", until=("status.conditions.type=Ready.status", "True"), pick=ready),
        service("theirs", until=TAKEN, clusterIP="198.51.100.5"),
        service("first", clusterIP="198.51.100.0"),
        cleanup=[ADDRESSES + "/198.51.100.5", CIDRS + "/${slug}"],
    ),
    case(
        "a range is ready, and waits for its addresses when it is deleted",
        setup(cidr("203.0.113.0/28")),
        get(CIDRS + "/${slug}", until=("status.conditions.type=Ready.status", "True"), pick=ready),
        setup(service("web", until=("spec.clusterIP", "203.0.113.5"), clusterIP="203.0.113.5")),
        get(ADDRESSES + "/203.0.113.5", until=("spec.parentRef.name", "web"), pick=lambda b: b["spec"]),
        delete(CIDRS + "/${slug}"),
        get(CIDRS + "/${slug}", until=("status.conditions.type=Ready.status", "False"), pick=ready),
        setup(delete("services/web")),
        get(CIDRS + "/${slug}", until=("code", 404), pick=lambda b: b["reason"]),
    ),
    case(
        "ranges that are none",
        cidr(),
        cidr("10.1.0.0/16", "10.2.0.0/16"),
        cidr("10.1.0.0/16", "2001:db8::/64", "10.2.0.0/16"),
        cidr("10.1.0.0/33"),
        cidr("10.1.0.1/16"),
        cidr("010.1.0.0/16"),
        cidr("10.1.0.0"),
    ),
    case(
        "a range stays what it is",
        setup(cidr("198.18.0.0/24")),
        merge(CIDRS + "/${slug}", {"spec": {"cidrs": ["198.18.1.0/24"]}}),
        merge(CIDRS + "/${slug}", {"spec": {"cidrs": []}}),
        merge(CIDRS + "/${slug}", {"spec": {"cidrs": ["198.18.0.0/24", "198.18.1.0/24"]}}),
        merge(CIDRS + "/${slug}", {"spec": {"cidrs": ["198.18.0.0/24", "2001:db8::/64"]}}, pick=lambda b: b.get("spec", b)),
        merge(CIDRS + "/${slug}/status", {"metadata": {"labels": {"a": "b"}}}, pick=lambda b: b["metadata"].get("labels")),
        cleanup=[CIDRS + "/${slug}"],
    ),
    case(
        "addresses that are none",
        address("10.1.0.300", resource="services", name="a"),
        address("010.1.0.3", resource="services", name="a"),
        address("192.0.2.1"),
        post(ADDRESSES, {"metadata": {"name": "192.0.2.1"}}),
        address("192.0.2.1", resource="a/b", name="a%b", namespace="..", group="A"),
        address("192.0.2.1", name="a"),
    ),
    case(
        "an address keeps its parent",
        address("192.0.2.2", resource="services", name="a"),
        merge(ADDRESSES + "/192.0.2.2", {"spec": {"parentRef": {"name": "b"}}}),
        merge(ADDRESSES + "/192.0.2.2", {"metadata": {"labels": {"a": "b"}}}, pick=lambda b: b["metadata"]["labels"]),
        cleanup=[ADDRESSES + "/192.0.2.2"],
    ),
]
