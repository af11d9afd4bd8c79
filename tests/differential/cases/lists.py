"""Lists: revisions, limits, pages and their errors."""

from typing import Any

from tests.differential.dsl import case, configmap, get, post, setup

FIVE = [setup(post("configmaps", configmap(f"n{i}", {"i": str(i)}, labels={"mine": "yes"}))) for i in range(5)]
MINE = {"labelSelector": "mine=yes"}


def names(body: Any) -> Any:
    return [item["metadata"]["name"] for item in body["items"]] if "items" in body else body


CASES = [
    case("a list has an envelope and ordered items", *FIVE, get("configmaps", query=MINE)),
    case("an empty list has an empty items field", get("secrets"), get("apps/v1:deployments")),
    case("a list in a namespace that does not exist is empty", get("/api/v1/namespaces/d-absent/configmaps")),
    case(
        "pages follow one another",
        *FIVE,
        get("configmaps", query={"limit": 2}, save={"next": "metadata.continue"}),
        get("configmaps", query={"limit": 2, "continue": "${next}"}, save={"more": "metadata.continue"}),
        get("configmaps", query={"limit": 2, "continue": "${more}"}),
    ),
    case(
        "later pages show the state of the first",
        *FIVE,
        get("configmaps", query={"limit": 2}, save={"next": "metadata.continue"}, pick=names),
        setup(post("configmaps", configmap("n9"))),
        get("configmaps", query={"continue": "${next}"}, pick=names),
    ),
    case(
        "the remaining count is told without selectors only",
        *FIVE,
        get("configmaps", query={"limit": 1}, pick=lambda b: b["metadata"]),
        get("configmaps", query={"limit": 1, **MINE}, pick=lambda b: b["metadata"]),
    ),
    case("a limit larger than the list", *FIVE, get("configmaps", query={"limit": 500}, pick=lambda b: b["metadata"])),
    case(
        "limits that make no sense",
        get("configmaps", query={"limit": -1}, pick=names),
        get("configmaps", query={"limit": "x"}),
        get("configmaps", query={"limit": ""}, pick=names),
    ),
    case("limit is ignored for any revision", *FIVE, get("configmaps", query={"limit": 1, "resourceVersion": "0"}, pick=names)),
    case(
        "bad continue tokens",
        get("configmaps", query={"continue": "%%"}),
        get("configmaps", query={"continue": "abc", "limit": 1}),
        get("configmaps", query={"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "limit": 1}),
    ),
    case(
        "continue with a revision",
        *FIVE,
        get("configmaps", query={"limit": 2}, save={"next": "metadata.continue"}, pick=names),
        get("configmaps", query={"limit": 2, "continue": "${next}", "resourceVersion": "1"}),
    ),
    case(
        "a list at an exact revision",
        *FIVE,
        get("configmaps", query=MINE, save={"rv": "metadata.resourceVersion"}, pick=names),
        setup(post("configmaps", configmap("later", labels={"mine": "yes"}))),
        get("configmaps", query={**MINE, "resourceVersion": "${rv}", "resourceVersionMatch": "Exact"}, pick=names),
        get("configmaps", query={**MINE, "resourceVersion": "${rv}", "resourceVersionMatch": "NotOlderThan"}, pick=names),
        get("configmaps", query={**MINE, "resourceVersion": "${rv}"}, pick=names),
    ),
    case(
        "revision matches that make no sense",
        get("configmaps", query={"resourceVersionMatch": "Exact"}),
        get("configmaps", query={"resourceVersionMatch": "Exact", "resourceVersion": "0"}),
        get("configmaps", query={"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}),
        get("configmaps", query={"sendInitialEvents": "true"}),
    ),
    case(
        "a revision that is no number",
        get("configmaps", query={"resourceVersion": "abc"}),
        get("configmaps", query={"resourceVersion": "-1"}),
    ),
    case(
        "a revision from the future",
        get("configmaps", query={"resourceVersion": "99999999999"}),
        setup(post("configmaps", configmap("a"))),
        get("configmaps/a", query={"resourceVersion": "99999999999"}),
    ),
    case(
        "one object at any revision",
        setup(post("configmaps", configmap("a"))),
        get("configmaps/a", query={"resourceVersion": "0"}),
        get("configmaps/a", query={"resourceVersion": "x"}),
    ),
    case(
        "lists across namespaces name the namespace",
        *FIVE,
        get("/api/v1/configmaps", query={"labelSelector": "mine=yes", "fieldSelector": "metadata.namespace=${ns}"}, pick=names),
    ),
    case("items of a typed list have no kind", *FIVE, get("configmaps", query=MINE, pick=lambda b: sorted(b["items"][0]))),
    case(
        "timeoutSeconds on a list",
        get("configmaps", query={"timeoutSeconds": "5"}, pick=names),
        get("configmaps", query={"timeoutSeconds": "x"}),
    ),
]
