"""Options on writes: dry run, field validation, field managers and warnings."""

from tests.differential.dsl import case, configmap, delete, deployment, get, merge, post, put, setup, strategic, watch

UNKNOWN = {**configmap("a"), "frob": 1, "metadata": {"name": "a", "nope": True}}
DUPLICATE = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'
BOTH = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"a"},"data":{"k":"1","k":"2"},"x":1,"y":{"z":1}}'
J = {"content_type": "application/json"}

CASES = [
    case("dry-run create", post("configmaps", configmap("a", {"k": "v"}), query={"dryRun": "All"}), get("configmaps/a")),
    case("dry-run create with a generated name", post("configmaps", {"metadata": {"generateName": "g-"}}, query={"dryRun": "All"})),
    case(
        "dry-run update and patch",
        setup(post("configmaps", configmap("a", {"k": "1"}))),
        put("configmaps/a", configmap("a", {"k": "2"}), query={"dryRun": "All"}),
        merge("configmaps/a", {"data": {"k": "3"}}, query={"dryRun": "All"}),
        get("configmaps/a"),
    ),
    case(
        "dry-run sees conflicts and faults",
        setup(post("configmaps", configmap("a"))),
        post("configmaps", configmap("a"), query={"dryRun": "All"}),
        post("configmaps", configmap("B"), query={"dryRun": "All"}),
    ),
    case(
        "dry-run values other than All",
        post("configmaps", configmap("a"), query={"dryRun": "Some"}),
        put("configmaps/a", configmap("a"), query={"dryRun": "Some"}),
        merge("configmaps/a", {}, query={"dryRun": "Some"}),
        delete("configmaps/a", query={"dryRun": "Some"}),
        post("configmaps", configmap("a"), query={"dryRun": ""}),
    ),
    case("unknown fields are warned about", post("configmaps", UNKNOWN)),
    case("unknown fields ignored on request", post("configmaps", UNKNOWN, query={"fieldValidation": "Ignore"})),
    case("unknown fields refused on request", post("configmaps", UNKNOWN, query={"fieldValidation": "Strict"})),
    case(
        "duplicate fields",
        post("configmaps", DUPLICATE, query={"fieldValidation": "Strict"}, **J),
        post("configmaps", DUPLICATE, **J),
    ),
    case(
        "unknown and duplicate fields together",
        post("configmaps", BOTH, query={"fieldValidation": "Strict"}, **J),
        post("configmaps", BOTH, query={"fieldValidation": "Warn"}, **J),
    ),
    case(
        "duplicate fields in yaml",
        post(
            "configmaps",
            "metadata:\n  name: a\ndata:\n  k: a\n  k: b\n",
            content_type="application/yaml",
            query={"fieldValidation": "Strict"},
            differs={"parser-messages": ["body.message"]},
        ),
    ),
    case(
        "nested unknown fields in a deployment",
        post(
            "apps/v1:deployments",
            {
                **deployment("w"),
                "spec": {
                    **deployment("w")["spec"],
                    "frob": {"a": 1},
                    "template": {
                        "metadata": {"labels": {"app": "w"}},
                        "spec": {"containers": [{"name": "m", "image": "i", "imagee": "x"}]},
                    },
                },
            },
            query={"fieldValidation": "Strict"},
        ),
    ),
    case(
        "unknown validation level",
        post("configmaps", configmap("a"), query={"fieldValidation": "Maybe"}),
        merge("configmaps/a", {}, query={"fieldValidation": "Maybe"}),
        put("configmaps/a", configmap("a"), query={"fieldValidation": "Maybe"}),
    ),
    case(
        "unknown fields in patches",
        setup(post("configmaps", configmap("a"))),
        merge("configmaps/a", {"frob": 1}, query={"fieldValidation": "Strict"}),
        merge("configmaps/a", {"frob": 1}),
        strategic("configmaps/a", {"frob": 1}, query={"fieldValidation": "Strict"}),
    ),
    case(
        "field names are case sensitive",
        post("configmaps", {"Metadata": {"name": "x"}, "metadata": {"name": "a"}, "Data": {"k": "v"}}),
    ),
    case(
        "a manager name that is too long",
        post("configmaps", configmap("a"), query={"fieldManager": "x" * 129}),
        put("configmaps/a", configmap("a"), query={"fieldManager": "x" * 129}),
    ),
    case("unknown query parameters are ignored", post("configmaps", configmap("a"), query={"frob": "1"})),
    case(
        "booleans in queries",
        setup(post("configmaps", configmap("a"))),
        watch("configmaps", query={"watch": "maybe", "fieldSelector": "metadata.name=a"}, take=1),
        get("configmaps", query={"allowWatchBookmarks": "x"}),
    ),
]
