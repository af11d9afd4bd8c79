import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.selectors import (
    EVERYTHING,
    NOTHING,
    FieldTerm,
    Requirement,
    Selector,
    SelectorError,
    check_label_selector,
    from_label_selector_object,
    from_labels,
    parse_field_selector,
    parse_label_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {"a": "b"}, True),
        ("x=a", {"x": "a"}, True),
        ("x==a", {"x": "a"}, True),
        ("x=a", {"x": "b"}, False),
        ("x=a", {}, False),
        ("x=", {"x": ""}, True),
        ("x!=a", {}, True),
        ("x!=a", {"x": "a"}, False),
        ("x in (a,b)", {"x": "b"}, True),
        ("x in (a,b)", {}, False),
        ("x notin (a,b)", {}, True),
        ("x notin (a,b)", {"x": "a"}, False),
        ("x in ()", {"x": ""}, True),
        ("x in (,a)", {"x": ""}, True),
        ("x in (in,notin)", {"x": "in"}, True),
        ("x", {"x": ""}, True),
        ("!x", {}, True),
        ("!x", {"x": "1"}, False),
        ("x>3", {"x": "4"}, True),
        ("x>3", {"x": "3"}, False),
        ("x<3", {"x": "2"}, True),
        ("x<3", {"x": "two"}, False),
        ("x<3", {}, False),
        (" a = b , !c ,d notin ( e ) ", {"a": "b"}, True),
        ("a=b,c=d", {"a": "b"}, False),
    ],
)
def test_a_selector_picks_objects_by_their_labels(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_label_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=a||y=b", 'unable to parse requirement: values[0][x]: Invalid value: "a||y": a valid label must be'),
        ("x==a==b", "found '==', expected: ',' or 'end of string'"),
        ("!x=a", "found '=', expected: ',' or 'end of string'"),
        (
            "x<a",
            "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("x in a", "unable to parse requirement: found 'a' expected: '('"),
        ("x in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("x in (a,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("x y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
        ("x=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("x,", "found '', expected: identifier after ','"),
        ("a/b/c", 'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist of'),
    ],
)
def test_a_text_that_is_no_selector_is_refused_with_the_apis_words(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value).startswith(message)


def test_requirements_are_printed_sorted_by_key() -> None:
    assert str(parse_label_selector("z, !y ,x in (c,b,a),w!=1")) == "w!=1,x in (a,b,c),!y,z"


keys = st.sampled_from(["a", "b.c", "d/e"])
labels = st.dictionaries(keys, st.sampled_from(["", "1", "2", "10", "x"]))
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["=", "==", "!="]), st.tuples(st.sampled_from(["", "1", "x"]))),
    st.builds(
        Requirement,
        keys,
        st.sampled_from(["in", "notin"]),
        st.lists(st.sampled_from(["1", "2", "x"]), min_size=1, unique=True).map(tuple),
    ),
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"]), st.just(())),
    st.builds(Requirement, keys, st.sampled_from([">", "<"]), st.tuples(st.sampled_from(["1", "2", "5"]))),
)


def holds(requirement: Requirement, found: dict[str, str]) -> bool:
    """The meaning of each operator, spelled out."""
    value = found.get(requirement.key)
    match requirement.operator:
        case "=" | "==" | "in":
            return value is not None and value in requirement.values
        case "!=" | "notin":
            return value is None or value not in requirement.values
        case "exists":
            return value is not None
        case "!":
            return value is None
        case operator:
            if value is None or not value.isdigit():
                return False
            return int(value) > int(requirement.values[0]) if operator == ">" else int(value) < int(requirement.values[0])


@given(st.lists(requirements, max_size=4), labels)
def test_a_printed_selector_reads_back_and_means_the_conjunction(parts: list[Requirement], found: dict[str, str]) -> None:
    selector = parse_label_selector(",".join(map(str, parts)))
    assert str(parse_label_selector(str(selector))) == str(selector)
    assert selector.matches(found) == all(holds(part, found) for part in parts)


@given(st.lists(requirements, max_size=3), st.booleans(), labels)
def test_a_compiled_selector_picks_what_the_selector_picks(parts: list[Requirement], nothing: bool, found: dict[str, str]) -> None:
    selector = Selector(tuple(parts), nothing)
    assert selector.compiled()(found) == selector.matches(found)


@given(labels)
def test_a_selector_made_from_labels_matches_them(found: dict[str, str]) -> None:
    assert from_labels(found).matches({**found, "more": "1"})


def test_an_absent_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert from_label_selector_object(None) == NOTHING
    assert not NOTHING.matches({})
    assert from_label_selector_object({}) == EVERYTHING
    assert Selector().matches(None)


def test_a_label_selector_object_joins_labels_and_expressions() -> None:
    selector = from_label_selector_object(
        {
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["x", "y"]},
                {"key": "c", "operator": "DoesNotExist"},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "NotIn", "values": ["z"]},
            ],
        }
    )
    assert str(selector) == "a in (x,y),b=1,!c,d,e notin (z)"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"key": "a", "operator": "Near"}, '"Near" is not a valid label selector operator'),
        ({"key": "a", "operator": "In"}, "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, 'values: Invalid value: ["x"]: values set must be empty'),
    ],
)
def test_a_bad_expression_is_an_error(expression: dict[str, object], message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        from_label_selector_object({"matchExpressions": [expression]})
    assert str(caught.value).startswith(message)


def test_a_label_selector_inside_an_object_is_validated_field_by_field() -> None:
    errors = check_label_selector(
        {
            "matchLabels": {"a b": "ok"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "-", "operator": "Near"},
            ],
        },
        "spec.selector",
    )
    assert [(error.field, error.body.partition(": name part")[0]) for error in errors] == [
        ("spec.selector.matchLabels", 'Invalid value: "a b"'),
        ("spec.selector.matchExpressions[0].values", "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        (
            "spec.selector.matchExpressions[1].values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        ("spec.selector.matchExpressions[2].operator", 'Invalid value: "Near": not a valid selector operator'),
        ("spec.selector.matchExpressions[2].key", 'Invalid value: "-"'),
    ]


def test_field_selectors_are_terms_sorted_and_unescaped() -> None:
    assert parse_field_selector("b!=2,a=1,,c==x\\,y\\=\\\\") == (
        FieldTerm("a", "=", "1"),
        FieldTerm("b", "!=", "2"),
        FieldTerm("c", "=", "x,y=\\"),
    )
    assert parse_field_selector("") == ()


@given(st.lists(st.builds(FieldTerm, st.sampled_from(["a", "b.c"]), st.sampled_from(["=", "!="]), st.text("a,=\\b", max_size=6))))
def test_a_printed_field_selector_reads_back(terms: list[FieldTerm]) -> None:
    assert sorted(parse_field_selector(",".join(map(str, terms))), key=str) == sorted(terms, key=str)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_bad_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message
