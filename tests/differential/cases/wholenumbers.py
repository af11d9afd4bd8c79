"""Numbers of custom resources: whole floats, and those that 64 bits do not hold, however they are sent."""

import json
from typing import Any

from tests.differential.cases.customresources import N, obj, things
from tests.differential.dsl import Case, Step, apply, case, get, json_patch, merge, post, strategic

THINGS = "${slug}.io/v1:things"
LEASES = "coordination.k8s.io/v1:leases"
SCHEMA = obj(
    {
        "plain": N,
        "int32": {"type": "integer", "format": "int32"},
        "int64": {"type": "integer", "format": "int64"},
        "number": {"type": "number"},
        "list": {"type": "array", "items": N},
        "either": {"x-kubernetes-int-or-string": True},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": obj({"deep": {"type": "array", "items": obj({"n": N})}}),
    }
)
NUMBERS = ("1e3", "1000.0", "1.5", "-0.0", "1e16", "1e18", "9223372036854775807", "1e400")
LARGE = ("9223372036854775808", "1e19", "2147483648", "1e20", "1e21")


def spec_of(body: Any) -> Any:
    """The numbers as they were written: 1000 and 1000.0 are equal once they are read."""
    return json.dumps(body["spec"], sort_keys=True) if "spec" in body else body


def spec_or_code(body: Any) -> Any:
    """A refusal without its words: the real server quotes numbers as they were sent."""
    return spec_of(body) if "spec" in body else {"code": body["code"], "reason": body["reason"]}


def thing(name: str, field: str, number: str) -> str:
    head = '{"apiVersion":"${slug}.io/v1","kind":"Thing","metadata":{"name":"' + name
    return head + '"},"spec":{"' + field + '":' + number + "}}"


def lease(name: str, seconds: str) -> str:
    head = '{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"' + name
    return head + '"},"spec":{"leaseDurationSeconds":' + seconds + "}}"


def posted(field: str, *numbers: str) -> list[Step]:
    return [
        post(THINGS, thing(f"a{index}", field, number), pick=spec_of, content_type="application/json")
        for index, number in enumerate(numbers)
    ]


CASES: list[Case] = [
    *(things(f"numbers in {field}", SCHEMA, *posted(field, *NUMBERS, *LARGE)) for field in ("plain", "int32", "int64", "either")),
    case(
        "numbers in a built-in kind",
        *(
            post(LEASES, lease(f"a{index}", number), pick=spec_or_code, content_type="application/json")
            for index, number in enumerate(("1e3", "1000.0", "1.5", "2147483648", "60"))
        ),
        post(LEASES, lease("b", "1e3"), pick=spec_or_code, content_type="application/yaml"),
        merge(f"{LEASES}/a4", '{"spec":{"leaseDurationSeconds":1e3}}', pick=spec_or_code),
        strategic(f"{LEASES}/a4", '{"spec":{"leaseDurationSeconds":2e3}}', pick=spec_or_code),
        json_patch(f"{LEASES}/a4", '[{"op":"replace","path":"/spec/leaseDurationSeconds","value":3e3}]', pick=spec_or_code),
        apply(f"{LEASES}/a4", lease("a4", "4e3"), force=True, pick=spec_or_code),
    ),
    things("numbers that need not be whole", SCHEMA, *posted("number", *NUMBERS, *LARGE[1:])),
    things("numbers in lists", SCHEMA, *posted("list", "[1e3, 2.0, 3]", "[1.5]"), get(f"{THINGS}/a0", pick=spec_of)),
    things(
        "numbers below other fields",
        SCHEMA,
        *posted("nested", '{"deep":[{"n":1e3}]}'),
        post(THINGS, thing("b", "any", '{"a":[1e3,{"b":2.0}],"c":1.5}'), pick=spec_of, content_type="application/json"),
        get(f"{THINGS}/b", pick=spec_of),
    ),
    things(
        "numbers by every kind of patch",
        SCHEMA,
        *posted("plain", "1"),
        merge(f"{THINGS}/a0", '{"spec":{"plain":1e3}}', pick=spec_of),
        json_patch(f"{THINGS}/a0", '[{"op":"replace","path":"/spec/plain","value":2e3}]', pick=spec_of),
        json_patch(f"{THINGS}/a0", '[{"op":"test","path":"/spec/plain","value":2000}]', pick=spec_of),
        apply(f"{THINGS}/a0", thing("a0", "plain", "3e3"), force=True, pick=spec_of),
        apply(f"{THINGS}/a0", thing("a0", "plain", "3000"), manager="two", pick=spec_of),
        get(f"{THINGS}/a0", pick=spec_of),
    ),
    things(
        "numbers by YAML and by dry run",
        SCHEMA,
        post(THINGS, thing("a", "plain", "1e3"), pick=spec_of, content_type="application/yaml"),
        post(THINGS, thing("b", "plain", "1e3"), query={"dryRun": "All"}, pick=spec_of, content_type="application/json"),
        get(f"{THINGS}/a", pick=spec_of),
    ),
    things(
        "numbers that defaults bring",
        obj({"given": {"type": "integer", "default": 1e3}, "number": {"type": "number", "default": 2.0}}),
        post(
            THINGS,
            '{"apiVersion":"${slug}.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{}}',
            pick=spec_of,
            content_type="application/json",
        ),
        get(f"{THINGS}/a", pick=spec_of),
    ),
]
