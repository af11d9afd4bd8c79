from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.jsonpath import JSONPathError, Limit, compile_path, compile_template, relaxed

PODS: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.1", "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
            "status": {"capacity": {"cpu": "4"}, "ready": True, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]},
        },
        {
            "kind": "None",
            "metadata": {"name": "127.0.0.2", "labels": {"kubernetes.io/hostname": "127.0.0.2"}},
            "status": {
                "capacity": {"cpu": "8"},
                "ready": False,
                "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}],
            },
        },
    ],
    "users": [{"name": "myself", "user": {}}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}}],
    "numbers": [1, 2, 3, 4, 5],
    "mixed": {"half": 1.5, "whole": 7, "yes": True, "none": None, "list": [1, "a"], "map": {"b": 1, "a": "<"}},
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        ("{@.kind}", "List"),
        ("{$.kind}", "List"),
        ("kind is {.kind}", "kind is List"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.items[*]['metadata.name']}", "127.0.0.1 127.0.0.2"),
        ("{.items[*]['metadata.name','status.capacity']}", '127.0.0.1 127.0.0.2 {"cpu":"4"} {"cpu":"8"}'),
        ("{.items[0:1].metadata.name}", "127.0.0.1"),
        ("{.items[-1].metadata.name}", "127.0.0.2"),
        ("{.items[-1:].metadata.name}", "127.0.0.2"),
        ("{.numbers[1:4]}", "2 3 4"),
        ("{.numbers[:2]}", "1 2"),
        ("{.numbers[3:]}", "4 5"),
        ("{.numbers[0:5:2]}", "1 3 5"),
        ("{.numbers[1,3]}", "2 4"),
        ("{.numbers[:]}", "1 2 3 4 5"),
        ("{.numbers[2:2]}", ""),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        ("{.users[?(@.name!='e2e')].name}", "myself"),
        ("{.users[?(@.user.username)].name}", "e2e"),
        ("{.items[?(@.status.ready==true)].metadata.name}", "127.0.0.1"),
        ("{.items[*].status.addresses[?(@.type=='another')].address}", "127.0.0.3"),
        ("{.items[0].metadata.labels.kubernetes\\.io/hostname}", "127.0.0.1"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{..status.capacity.cpu}", "4 8"),
        ("{.items[*].status.capacity.*}", "4 8"),
        ("{.mixed.*}", '1.5 7 true null [1,"a"] {"a":"\\u003c","b":1}'),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.capacity.cpu}{"\\n"}{end}', "127.0.0.1\t4\n127.0.0.2\t8\n"),
        (
            "{range .items[*]}[{.metadata.name}:{range .status.addresses[*]} {.address}{end}]{end}",
            "[127.0.0.1: 127.0.0.1][127.0.0.2: 127.0.0.2 127.0.0.3]",
        ),
        ("{range .absent[*]}x{end}after", "after"),
        ("{.absent.further}", ""),
        ("{'it''s'}", "s"),
        ('{"a\\"b"}', 'a"b'),
        ("{'\\u00e9\\x41'}", "éA"),
        ("{true}", "true"),
        ("{.}", None),
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(JSONPathError):
            compile_template(template).render(PODS, missing=False)
    else:
        assert compile_template(template).render(PODS) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.kind", "unclosed action"),
        ("{.a\n}", "unclosed action"),
        ("{.items[0}", "unterminated array"),
        ("{.items[x]}", "invalid array index x"),
        ("{.items[?(@.a==1}", "unterminated filter"),
        ("{.items[?(@.a==1)}", "unclosed array expect ]"),
        ("{'abc}", "unterminated quoted string"),
        ("{....}", "invalid multiple recursive descent"),
        ("{#}", "unrecognized character in action: U+0023 '#'"),
        ("{foo}", "unrecognized identifier foo"),
        ("{end}", "not in range, nothing to end"),
        ("{1.2.3}", "cannot parse number 1.2.3"),
        ("{'\\q'}", "unquote string '\\q' error invalid syntax"),
    ],
)
def test_a_broken_template_is_refused_when_compiled(template: str, message: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        compile_template(template)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{.absent}", "absent is not found"),
        ("{.items[5]}", "array index out of bounds: index 5, length 2"),
        ("{.items[1:5]}", "array index out of bounds: index 4, length 2"),
        ("{.items[-3]}", "array index out of bounds: index -1, length 2"),
        ("{.numbers[3:1]}", "starting index 3 is greater than ending index 1"),
        ("{.numbers[0:2:0]}", "step must be > 0"),
        ("{.kind[0]}", "string is not array or slice"),
        ("{.kind[?(@.a)]}", "List is not array or slice and cannot be filtered"),
        ('{.numbers[?(@ > "a")]}', "incompatible types for comparison"),
        ("{.users[?(@.user==1)]}", "invalid type for comparison"),
        ("{.users[?(@.name=<1)]}", "unrecognized filter operator =<"),
        ("{.users[?(@.*==1)]}", "can only compare one element at a time"),
    ],
)
def test_data_that_does_not_fit_is_an_error_when_evaluated(template: str, message: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        compile_template(template).render(PODS, missing=False)
    assert str(caught.value) == message


def test_numbers_compare_in_filters() -> None:
    assert compile_template("{.numbers[?(@>3)]}").find(PODS) == [4, 5]
    assert compile_template("{.numbers[?(@<=2)]}").find(PODS) == [1, 2]


def test_a_columns_path_needs_no_braces_and_finds_values_as_they_are() -> None:
    assert compile_path(".mixed.list").find(PODS) == [[1, "a"]]
    assert compile_path(".mixed.none").find(PODS) == [None]
    assert compile_path(".absent.x").find(PODS) == []
    assert compile_path(".items[*].status.ready").find(PODS) == [True, False]
    with pytest.raises(JSONPathError, match="absent is not found"):
        compile_path(".absent").find(PODS, missing=False)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3), st.dictionaries(st.sampled_from("abc"), st.integers()))
def test_the_fast_way_for_plain_paths_agrees_with_the_general_one(keys: list[str], leaf: dict[str, int]) -> None:
    document = {"a": {"b": leaf, "c": 1}, "b": leaf}
    plain, general = compile_path("." + ".".join(keys)), compile_template("{@}{." + ".".join(keys) + "}")
    assert plain.find(document) == general.find(document)[1:]


@pytest.mark.parametrize(("text", "template"), [("x.y", "{.x.y}"), (".x.y", "{.x.y}"), ("{x}", "{.x}"), ("{.x}", "{.x}"), ("", "")])
def test_lenient_spellings_become_templates(text: str, template: str) -> None:
    assert relaxed(text) == template


def test_a_path_with_unbalanced_braces_is_not_a_lenient_spelling() -> None:
    with pytest.raises(JSONPathError, match="unexpected path string"):
        relaxed("{.x")


def nested(depth: int) -> Any:
    document: Any = {"list": list(range(100))}
    for _ in range(depth):
        document = {"a": document, "b": [1, 2, 3]}
    return document


UNION = "['a','a','a','a','a','a','a','a','a','a']"
GREEDY = (
    UNION * 12,
    "..a" * 12,
    UNION * 5 + ".b[*]",
    UNION * 4 + "..b[0:3]",
    ".a" + ("}{range " + UNION) * 9 + "}{.b" + "}{end" * 9,
    UNION * 5 + "[" + ",".join(["'x'"] * 20_000) + "]",
    UNION * 5 + ".b[?(@ > 0)]",
)


@pytest.mark.parametrize("path", GREEDY)
def test_a_path_that_selects_without_end_is_an_error(path: str) -> None:
    with pytest.raises(JSONPathError, match="it selects too much"):
        compile_path(path).find(nested(20))


def test_paths_that_share_a_limit_use_it_up_together() -> None:
    limit, path = Limit(150), compile_path(".list[*]")
    assert len(next(path.results(nested(0), limit=limit))) == 100
    with pytest.raises(JSONPathError, match="it selects too much"):
        next(path.results(nested(0), limit=limit))
