"""Logs and terminals of pods that no kubelet runs: what the server says by itself."""

from tests.differential.dsl import case, get, post, setup

ONE = setup(post("pods", {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "example/c:1"}]}}))
TWO = setup(
    post(
        "pods",
        {
            "metadata": {"name": "two"},
            "spec": {
                "initContainers": [{"name": "i", "image": "example/i:1"}],
                "containers": [{"name": "a", "image": "example/a:1"}, {"name": "b", "image": "example/b:1"}],
            },
        },
    )
)
FAR = setup(
    post(
        "pods", {"metadata": {"name": "stray"}, "spec": {"nodeName": "far", "containers": [{"name": "c", "image": "example/c:1"}]}}
    )
)

CASES = [
    case("the log of a pod without a node is empty", ONE, get("pods/one/log"), get("pods/one/log?follow=true&container=c")),
    case(
        "the container of a log must be named and exist",
        TWO,
        get("pods/two/log"),
        get("pods/two/log?container=b"),
        get("pods/two/log?container=i"),
        get("pods/two/log?container=z"),
        get("pods/absent/log"),
    ),
    case(
        "options of a log are checked",
        ONE,
        get("pods/one/log?tailLines=-1"),
        get("pods/one/log?limitBytes=0"),
        get("pods/one/log?sinceSeconds=0"),
        get("pods/one/log?sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z"),
        get("pods/one/log?tailLines=many"),
        get("pods/absent/log?tailLines=-1"),
    ),
    case("the log of a pod on a node nobody knows", FAR, get("pods/stray/log"), get("pods/stray/log?container=z")),
    case("logs are for those who may read them", ONE, get("pods/one/log", user="mallory"), post("pods/one/log", {})),
    case("terminals of a pod without a node", ONE, post("pods/one/exec?command=ls&stdout=true", {}), get("pods/one/portforward")),
]
