"""Watches: which events come, in which order, and how a watch ends."""

from tests.differential.cases.negotiation import PARTIAL, TABLE
from tests.differential.dsl import case, configmap, delete, get, merge, post, put, setup, watch

A = setup(post("configmaps", configmap("a", {"k": "1"}, labels={"mine": "yes"}), save={"rv": "metadata.resourceVersion"}))
MINE = {"labelSelector": "mine=yes"}
FROM = {**MINE, "resourceVersion": "${rv}"}
SHORT = {"timeoutSeconds": "1"}

CASES = [
    case("a watch without a revision starts with the state", A, watch("configmaps", take=1, query=MINE)),
    case(
        "a watch with revision zero starts with the state", A, watch("configmaps", take=1, query={**MINE, "resourceVersion": "0"})
    ),
    case(
        "a watch tells every change once",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            setup(put("configmaps/a", configmap("a", {"k": "3"}, labels={"mine": "yes"}))),
            setup(post("configmaps", configmap("b", labels={"mine": "yes"}))),
            setup(delete("configmaps/a")),
            take=4,
            query=FROM,
        ),
    ),
    case(
        "a watch replays what happened since its revision",
        A,
        setup(merge("configmaps/a", {"data": {"k": "2"}})),
        setup(delete("configmaps/a")),
        setup(post("configmaps", configmap("a", labels={"mine": "yes"}))),
        watch("configmaps", take=3, query=FROM),
    ),
    case(
        "a write that changes nothing is no event",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "1"}})),
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=1,
            query=FROM,
        ),
    ),
    case(
        "entering and leaving a selector",
        A,
        watch(
            "configmaps",
            setup(post("configmaps", configmap("b"))),
            setup(merge("configmaps/b", {"metadata": {"labels": {"mine": "yes"}}})),
            setup(merge("configmaps/a", {"metadata": {"labels": {"mine": "no"}}, "data": {"k": "gone"}})),
            setup(merge("configmaps/b", {"data": {"x": "y"}})),
            take=3,
            query=FROM,
        ),
    ),
    case(
        "one object by name",
        A,
        watch(
            "configmaps",
            setup(post("configmaps", configmap("b"))),
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=1,
            query={"fieldSelector": "metadata.name=a", "resourceVersion": "${rv}"},
        ),
    ),
    case("watch on the path of an object is a get", A, get("configmaps/a", query={"watch": "true"})),
    case("a watch ends cleanly at its timeout", A, watch("configmaps", query={**FROM, **SHORT})),
    case("a watch with a value of one", A, watch("configmaps", take=1, query={**MINE, "watch": "1"})),
    case(
        "the initial state as a stream ends with a bookmark",
        A,
        watch(
            "configmaps",
            take=2,
            query={**MINE, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        ),
    ),
    case(
        "the initial state as a stream goes on with changes",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=3,
            query={
                **MINE,
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
                "resourceVersion": "0",
            },
        ),
    ),
    case(
        "the initial state without bookmarks",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=2,
            query={**MINE, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "false"},
        ),
    ),
    case(
        "no initial events from a revision",
        A,
        watch(
            "configmaps",
            setup(merge("configmaps/a", {"data": {"k": "2"}})),
            take=1,
            query={**FROM, "sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        ),
    ),
    case(
        "an empty initial stream is one bookmark",
        watch(
            "secrets",
            take=1,
            query={"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"},
        ),
    ),
    case(
        "initial events need their revision match",
        watch("configmaps", query={"sendInitialEvents": "true", **SHORT}),
        watch("configmaps", query={"resourceVersionMatch": "NotOlderThan", **SHORT}),
        watch("configmaps", query={"sendInitialEvents": "true", "resourceVersionMatch": "Exact", **SHORT}),
    ),
    case("a watch from a revision that is no number", watch("configmaps", query={"resourceVersion": "abc", **SHORT})),
    case(
        "a watch as tables",
        A,
        watch("configmaps", setup(merge("configmaps/a", {"data": {"k": "2"}})), take=2, accept=TABLE, query=MINE),
    ),
    case(
        "a watch of metadata",
        A,
        watch("configmaps", setup(merge("configmaps/a", {"data": {"k": "2"}})), take=2, accept=PARTIAL, query=MINE),
    ),
    case("a watch in a form nobody serves", watch("configmaps", accept="text/html", query=SHORT)),
    case("a watch by nobody", watch("configmaps", user="", query=SHORT)),
    case(
        "a watch with a broken selector",
        watch("configmaps", query={"labelSelector": "a=b=c", **SHORT}),
        watch("configmaps", query={"fieldSelector": "data.k=1", **SHORT}),
    ),
    case(
        "a deletion with finalizers is a change first",
        setup(post("configmaps", configmap("f", finalizers=["a.io/x"]), save={"rv": "metadata.resourceVersion"})),
        watch(
            "configmaps",
            setup(delete("configmaps/f")),
            setup(merge("configmaps/f", {"metadata": {"finalizers": None}})),
            take=2,
            query={"resourceVersion": "${rv}", "fieldSelector": "metadata.name=f"},
        ),
    ),
    case(
        "deletecollection tells each deletion",
        A,
        setup(post("configmaps", configmap("b", labels={"mine": "yes"}), save={"rv2": "metadata.resourceVersion"})),
        watch("configmaps", setup(delete("configmaps", query=MINE)), take=2, query={**MINE, "resourceVersion": "${rv2}"}),
    ),
]
