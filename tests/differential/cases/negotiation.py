"""Content negotiation: what may be asked for and what may be sent."""

from tests.differential.dsl import Request, case, configmap, deployment, get, post, setup

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ONE = setup(post("configmaps", configmap("a", {"k": "v"}, labels={"x": "y"})))
OURS = {"labelSelector": "x=y"}

CASES = [
    case("no preference means json", ONE, get("configmaps/a", accept="*/*"), get("configmaps/a", accept=None)),
    case(
        "yaml on request",
        ONE,
        get("configmaps/a", accept="application/yaml"),
        get("configmaps", accept="application/yaml", query=OURS),
    ),
    case(
        "media types nobody serves are 406",
        ONE,
        get("configmaps/a", accept="text/html"),
        get("configmaps/a", accept="application/*"),
        get("configmaps/a", accept="image/png,text/plain"),
    ),
    case(
        "the first acceptable type wins",
        ONE,
        get("configmaps/a", accept="text/html,application/json"),
        get("configmaps/a", accept="application/json;q=0.1,application/yaml;q=0.9"),
        get("configmaps/a", accept="text/html, */*"),
    ),
    case(
        "protobuf with json as second choice still names the object",
        ONE,
        get(
            "configmaps/a",
            accept=f"{PROTOBUF},application/json",
            pick=lambda body: isinstance(body, str),
            differs={"protobuf-answers": ["headers.content-type", "body"]},
        ),
    ),
    case(
        "protobuf alone",
        ONE,
        get(
            "configmaps/a",
            accept=PROTOBUF,
            pick=lambda body: isinstance(body, str),
            differs={"protobuf-answers": ["headers.content-type", "status", "body"]},
        ),
    ),
    case("a table of one object", ONE, get("configmaps/a", accept=TABLE)),
    case("a table of a list", ONE, get("configmaps", accept=TABLE, query=OURS)),
    case(
        "a table with whole objects or none",
        ONE,
        get("configmaps", accept=TABLE, query={**OURS, "includeObject": "Object"}),
        get("configmaps", accept=TABLE, query={**OURS, "includeObject": "None"}),
        get("configmaps", accept=TABLE, query={**OURS, "includeObject": "Nonsense"}),
    ),
    case("an empty table", get("configmaps", accept=TABLE, query=OURS)),
    case(
        "a table of deployments", setup(post("apps/v1:deployments", deployment("web", 2))), get("apps/v1:deployments", accept=TABLE)
    ),
    case("a table falls back when it is only one choice", ONE, get("configmaps/a", accept=f"{TABLE},application/json")),
    case(
        "unknown transformations are 406",
        ONE,
        get("configmaps/a", accept="application/json;as=Chart;v=v1;g=meta.k8s.io"),
        get("configmaps/a", accept="application/json;as=Table;v=v9;g=meta.k8s.io"),
        get("configmaps/a", accept="application/json;as=Table;v=v1;g=other.io"),
    ),
    case(
        "unknown transformations with json as second choice",
        ONE,
        get("configmaps/a", accept="application/json;as=Chart;v=v1;g=meta.k8s.io,application/json"),
    ),
    case("metadata only", ONE, get("configmaps/a", accept=PARTIAL), get("configmaps", accept=PARTIAL_LIST, query=OURS)),
    case(
        "metadata of a list asked in the single form",
        ONE,
        get("configmaps", accept=PARTIAL),
        get("configmaps/a", accept=PARTIAL_LIST),
    ),
    case(
        "a table of a create-only review is 406",
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
            accept=TABLE,
        ),
    ),
    case(
        "an error is a status whatever form was asked for",
        get("configmaps/missing", accept=TABLE),
        get("configmaps/missing", accept=PARTIAL),
    ),
    case("an error as yaml", get("configmaps/missing", accept="application/yaml")),
    case(
        "bodies in unknown formats are 415",
        post("configmaps", "x", content_type="text/plain"),
        post("configmaps", "<a/>", content_type="application/xml"),
        post("configmaps", b"\xa0", content_type="application/cbor"),
    ),
    case(
        "a body without a content type is json",
        Request("POST", "configmaps", '{"metadata":{"name":"a"}}', content_type=None),
        Request("POST", "configmaps", '{"metadata":{"name":"b"}}', content_type=""),
    ),
    case(
        "a yaml body",
        post(
            "configmaps",
            'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n  a: "1"\n',
            content_type="application/yaml",
        ),
    ),
    case("content-type parameters are ignored", post("configmaps", configmap("p"), content_type="application/json; charset=utf-8")),
    case("pretty printing does not change the content", ONE, get("configmaps/a", query={"pretty": "true"})),
    case("kubectl's user agent and a table watch header", ONE, get("configmaps/a", headers={"User-Agent": "kubectl/v1.35.0"})),
]
