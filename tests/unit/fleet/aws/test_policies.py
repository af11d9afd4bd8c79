"""Policies: which documents are none, and what those that are say of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.fleet.aws.errors import MalformedPolicy
from muster.fleet.aws.policy.document import identity_policy, trust_policy
from muster.fleet.aws.policy.evaluation import PolicyRequest, Verdict, evaluate
from muster.fleet.aws.policy.patterns import arn_matches, matches

ROLE = "arn:aws:iam::111111111111:role/ocm-hub-1"


def document(*statements: Mapping[str, Any], version: str = "2012-10-17") -> str:
    return json.dumps({"Version": version, "Statement": list(statements)})


def allow(**more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "iam:*", "Resource": "*", **more}


def says(*statements: Mapping[str, Any], action: str = "iam:GetRole", resource: str = ROLE, **values: Any) -> Verdict:
    known = {name.lower(): ([value] if isinstance(value, str) else value) for name, value in values.items()}
    return evaluate([identity_policy(document(*statements))], PolicyRequest(action, resource, known))


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        (allow(), True),
        (allow(Action="*"), True),
        (allow(Action="IAM:getrole"), True),
        (allow(Action="iam:Get*"), True),
        (allow(Action="iam:GetRol?"), True),
        (allow(Action="iam:GetRol"), False),
        (allow(Action=["sts:*", "iam:GetRole"]), True),
        (allow(Action="sts:*"), False),
        ({"Effect": "Allow", "NotAction": "sts:*", "Resource": "*"}, True),
        ({"Effect": "Allow", "NotAction": ["iam:Get*"], "Resource": "*"}, False),
        (allow(Resource=ROLE), True),
        (allow(Resource="arn:aws:iam::111111111111:role/ocm-hub-*"), True),
        (allow(Resource="arn:aws:iam::111111111111:role/ocm-managed-*"), False),
        (allow(Resource="arn:aws:iam::*:role/*"), True),
        (allow(Resource="arn:*:*:*:*:*"), True),
        (allow(Resource="arn:aws:iam::222222222222:role/ocm-hub-*"), False),
        ({"Effect": "Allow", "Action": "iam:*", "NotResource": ROLE}, False),
        ({"Effect": "Allow", "Action": "iam:*", "NotResource": "arn:aws:iam::111111111111:role/x"}, True),
        ({**allow(), "Effect": "Deny"}, False),
    ],
)
def test_statements_cover_actions_and_resources(statement: dict[str, Any], allowed: bool) -> None:
    assert (says(statement) is Verdict.ALLOWED) is allowed


def test_resources_are_compared_with_their_case() -> None:
    assert says(allow(Resource=ROLE.replace("ocm", "OCM"))) is Verdict.SILENT


def test_a_denial_wins_wherever_it_stands() -> None:
    deny = {"Effect": "Deny", "Action": "iam:GetRole", "Resource": ROLE}
    assert says(allow(), deny) is Verdict.DENIED
    assert says(deny, allow()) is Verdict.DENIED
    assert says(allow(), {**deny, "Resource": ROLE + "0"}) is Verdict.ALLOWED


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "holds"),
    [
        ("StringEquals", "a", "a", True),
        ("StringEquals", ["b", "a"], "a", True),
        ("StringEquals", "a", "A", False),
        ("StringEquals", "a*", "ab", False),
        ("StringEquals", "a", None, False),
        ("StringEqualsIgnoreCase", "a", "A", True),
        ("StringNotEquals", "a", "b", True),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringNotEquals", "a", None, True),
        ("StringLike", "a*", "abc", True),
        ("StringLike", "a?c", "abc", True),
        ("StringLike", "a?c", "ac", False),
        ("StringNotLike", "a*", "abc", False),
        ("StringNotLike", "a*", None, True),
        ("StringEqualsIfExists", "a", None, True),
        ("StringEqualsIfExists", "a", "b", False),
        ("ArnEquals", "arn:aws:iam::*:role/x", "arn:aws:iam::111111111111:role/x", True),
        ("ArnLike", "arn:aws:iam::1*:role/*", "arn:aws:iam::111111111111:role/x", True),
        ("ArnLike", "arn:*", "arn:aws:iam::111111111111:role/x", False),
        ("ArnNotLike", "arn:aws:iam::*:role/x", "arn:aws:iam::111111111111:role/y", True),
        ("Bool", "true", "true", True),
        ("Bool", True, "true", True),
        ("Bool", "true", "false", False),
        ("Bool", "true", None, False),
        ("Null", "true", None, True),
        ("Null", "true", "x", False),
        ("Null", "false", "x", True),
        ("NumericLessThan", 5, "4", True),
        ("NumericLessThan", "5", "5", False),
        ("NumericEquals", "5", "x", False),
        ("DateGreaterThan", "2026-01-01T00:00:00Z", "2026-06-01T00:00:00+00:00", True),
        ("IpAddress", "10.0.0.0/8", "10.1.2.3", True),
        ("NotIpAddress", "10.0.0.0/8", "10.1.2.3", False),
        ("ForAnyValue:StringEquals", ["a", "b"], ["b", "c"], True),
        ("ForAnyValue:StringEquals", ["a"], ["b", "c"], False),
        ("ForAnyValue:StringEquals", ["a"], None, False),
        ("ForAllValues:StringEquals", ["a", "b"], ["a"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
        ("ForAllValues:StringEquals", ["a"], None, True),
        ("ForAnyValue:StringNotEquals", ["a"], ["a", "b"], True),
        ("ForAllValues:StringNotEquals", ["a"], ["a", "b"], False),
    ],
)
def test_conditions(operator: str, wanted: Any, value: Any, holds: bool) -> None:
    statement = allow(Condition={operator: {"aws:RequestTag/Team": wanted}})
    given_values = {} if value is None else {"aws:requesttag/team": value}
    assert (says(statement, **given_values) is Verdict.ALLOWED) is holds


def test_all_conditions_have_to_hold() -> None:
    both = allow(Condition={"StringEquals": {"aws:a": "1", "aws:b": "2"}, "Null": {"aws:c": "true"}})
    assert says(both, **{"aws:a": "1", "aws:b": "2"}) is Verdict.ALLOWED
    assert says(both, **{"aws:a": "1", "aws:b": "3"}) is Verdict.SILENT
    assert says(both, **{"aws:a": "1", "aws:b": "2", "aws:c": "x"}) is Verdict.SILENT


def test_variables_stand_for_what_is_proved() -> None:
    mine = allow(Resource="arn:aws:iam::111111111111:role/ocm-hub-${aws:PrincipalTag/n}")
    assert says(mine, **{"aws:principaltag/n": "1"}) is Verdict.ALLOWED
    assert says(mine, **{"aws:principaltag/n": "2"}) is Verdict.SILENT
    assert says(mine) is Verdict.SILENT
    assert says(mine, **{"aws:principaltag/n": "*"}) is Verdict.SILENT
    old = document(mine, version="2008-10-17")
    request = PolicyRequest("iam:GetRole", ROLE, {"aws:principaltag/n": ["1"]})
    assert evaluate([identity_policy(old)], request) is Verdict.SILENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"x"',
        "{}",
        '{"Version": "2012-10-17"}',
        '{"Version": "2012-10-17", "Statement": []}',
        '{"Version": "2012-10-17", "Statement": ["x"]}',
        '{"Version": "2020-01-01", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}',
        '{"Version": "2012-10-17", "Extra": 1, "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}',
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Effect": "Deny", "Action": "*", "Resource": "*"}]}',
        document(allow(Effect="allow")),
        document(allow(Action=[])),
        document(allow(Action="GetRole")),
        document(allow(Action=["iam:GetRole", 1])),
        document({"Effect": "Allow", "Resource": "*"}),
        document({**allow(), "NotAction": "x:y"}),
        document({"Effect": "Allow", "Action": "*"}),
        document(allow(Resource="role/x")),
        document(allow(Resource="arn:aws:iam")),
        document(allow(Principal="*")),
        document(allow(NotPrincipal="*")),
        document(allow(Unknown="x")),
        document(allow(Sid="a b")),
        document(allow(Sid="a"), allow(Sid="a")),
        document(allow(Condition={"StringSortOf": {"aws:a": "b"}})),
        document(allow(Condition={"ForSomeValues:StringEquals": {"aws:a": "b"}})),
        document(allow(Condition={"NullIfExists": {"aws:a": "true"}})),
        document(allow(Condition={"StringEquals": {"plain": "b"}})),
        document(allow(Condition={"StringEquals": "b"})),
        document(allow(Condition={"StringEquals": {"aws:a": {"x": "y"}}})),
        document(allow(Resource="arn:aws:iam::1:role/${*}")),
        "[" * 100_000,
    ],
)
def test_what_is_no_identity_policy(text: str) -> None:
    with pytest.raises(MalformedPolicy):
        identity_policy(text)


TRUSTING = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}


@pytest.mark.parametrize(
    "statement",
    [
        {**TRUSTING, "Resource": "*"},
        {**TRUSTING, "Action": "iam:GetRole"},
        {**TRUSTING, "Action": "*"},
        {**TRUSTING, "Principal": {}},
        {**TRUSTING, "Principal": {"CanonicalUser": "x"}},
        {**TRUSTING, "Principal": ["*"]},
        {"Effect": "Allow", "Action": "sts:AssumeRole"},
        {"Effect": "Deny", "NotPrincipal": {"AWS": "*"}, "Action": "sts:AssumeRole"},
    ],
)
def test_what_is_no_trust_policy(statement: dict[str, Any]) -> None:
    with pytest.raises(MalformedPolicy):
        trust_policy(document(statement))


def test_one_statement_needs_no_list() -> None:
    text = json.dumps({"Statement": allow()})
    assert evaluate([identity_policy(text)], PolicyRequest("iam:GetRole", ROLE, {})) is Verdict.ALLOWED


def test_a_wildcard_of_an_account_stays_there() -> None:
    assert not arn_matches("arn:aws:iam::1*:role/x", "arn:aws:iam::1:evil:role/x")
    assert not matches("a", "a\n")
    assert matches("a*", "a\nb")


effects = st.sampled_from(["Allow", "Deny"])
actions = st.lists(st.sampled_from(["iam:GetRole", "iam:*", "*", "sts:AssumeRole", "iam:Delete*"]), min_size=1, max_size=3)
resources = st.lists(
    st.sampled_from(["*", ROLE, "arn:aws:iam::111111111111:role/ocm-*", "arn:aws:iam::2:role/x"]), min_size=1, max_size=2
)
conditions = st.sampled_from(
    [{}, {"StringEquals": {"aws:a": "1"}}, {"StringNotEquals": {"aws:a": "1"}}, {"Null": {"aws:a": "true"}}]
)
statements = st.builds(
    lambda effect, action, resource, condition, negate: {
        "Effect": effect,
        ("NotAction" if negate else "Action"): action,
        "Resource": resource,
        **({"Condition": condition} if condition else {}),
    },
    effects,
    actions,
    resources,
    conditions,
    st.booleans(),
)
requests = st.builds(
    PolicyRequest,
    st.sampled_from(["iam:GetRole", "iam:DeleteRole", "sts:AssumeRole"]),
    st.sampled_from([ROLE, "arn:aws:iam::2:role/x"]),
    st.sampled_from([{}, {"aws:a": ("1",)}, {"aws:a": ("2",)}]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(statements, min_size=1, max_size=5), requests, st.randoms())
def test_the_order_of_statements_does_not_matter(listed: list[dict[str, Any]], request: PolicyRequest, random: Any) -> None:
    shuffled = list(listed)
    random.shuffle(shuffled)
    verdict = evaluate([identity_policy(document(*listed))], request)
    assert evaluate([identity_policy(document(*shuffled))], request) is verdict
    apart = [identity_policy(document(one)) for one in shuffled]
    assert evaluate(apart, request) is verdict


@settings(max_examples=60, deadline=None)
@given(st.lists(statements, max_size=4), statements, requests)
def test_a_denial_never_allows_and_is_never_outvoted(
    listed: list[dict[str, Any]], one: dict[str, Any], request: PolicyRequest
) -> None:
    before = Verdict.SILENT if not listed else evaluate([identity_policy(document(*listed))], request)
    after = evaluate([identity_policy(document(*listed, {**one, "Effect": "Deny"}))], request)
    assert after in (before, Verdict.DENIED)
    assert before is not Verdict.DENIED or after is Verdict.DENIED


@settings(max_examples=60, deadline=None)
@given(st.lists(statements, max_size=4), statements, requests)
def test_what_allows_never_takes_away(listed: list[dict[str, Any]], one: dict[str, Any], request: PolicyRequest) -> None:
    before = Verdict.SILENT if not listed else evaluate([identity_policy(document(*listed))], request)
    after = evaluate([identity_policy(document(*listed, {**one, "Effect": "Allow"}))], request)
    assert (after is Verdict.DENIED) == (before is Verdict.DENIED)
    assert before is not Verdict.ALLOWED or after is Verdict.ALLOWED
