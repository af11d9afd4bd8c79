import json

from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.json import dumps, dumps_in_steps, encode_json

texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-(2**53), 2**53) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def test_json_is_compact_sorted_and_safe_in_html() -> None:
    assert encode_json({"b": "<a&b>", "a": [1, "é"]}) == '{"a":[1,"é"],"b":"\\u003ca\\u0026b\\u003e"}'


@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_means_the_same(value: dict[str, object]) -> None:
    assert json.loads(dumps(value)) == value
    assert json.loads(encode_json(value)) == value
    assert dumps_in_steps(value) == dumps(value)


def test_whole_floats_have_no_fraction_and_no_exponent() -> None:
    assert dumps({"a": 1e3, "b": [1e20, 1.5, 1e21]}) == b'{"a":1000,"b":[100000000000000000000,1.5,1e+21]}'
    assert encode_json([1e3, 1e20, -0.0]) == "[1000,100000000000000000000,0]"
    assert encode_json([1e21, 1e-6, -9.5e-6, 1e-7]) == "[1e+21,0.000001,-0.0000095,1e-7]"


def test_what_is_written_in_steps_is_the_same() -> None:
    for count in (63, 64, 65, 3_999, 4_000, 4_001, 8_000):
        items = [{"a": number, "b": "x"} for number in range(count)]
        value: dict[str, object] = {
            "list": items,
            "map": {f"k{item['a']}": item for item in items},
            "deep": [{"list": items}],
            "no": [],
        }
        assert dumps_in_steps(value) == dumps(value)
        value["map"] = 1.0
        assert dumps_in_steps(value) == dumps(value)
