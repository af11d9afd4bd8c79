"""The public face of the package: what it exports, how a Template behaves, what errors carry, how functions plug in."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import muster.gotemplate as gotemplate
from muster.gotemplate import Call, ExecError, Func, GoError, ParseError, Template, TemplateError, parse
from muster.gotemplate.template import forget_programs
from muster.gotemplate.values import Int64, Map, Struct, int64s


def test_the_public_names_are_these() -> None:
    assert sorted(gotemplate.__all__) == [
        "Call", "ExecError", "Func", "GoError", "LimitError", "Limits", "ParseError", "Template", "TemplateError", "parse",
    ]  # fmt: skip


def test_the_package_needs_only_the_ground_floor_of_muster() -> None:
    program = "import sys, muster.gotemplate; print([m for m in sys.modules if m.startswith('muster.')])"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert all(name.startswith(("muster.gotemplate", "muster.machinery")) for name in eval(found))


def test_a_template_renders_data() -> None:
    assert Template("{{ range .names }}{{ . | upper }} {{ end }}").render({"names": ["a", "b"]}) == "A B "


def test_no_data_is_no_value() -> None:
    assert Template("{{ . }}").render() == "<no value>"


def test_render_bytes_keeps_bytes_that_are_not_utf8() -> None:
    assert Template('{{ trunc 1 "é" }}').render_bytes() == b"\xc3"


def test_halves_of_a_rune_join_to_the_rune() -> None:
    assert Template('{{ trunc 1 "é" }}{{ substr 1 2 "é" }}').render() == "é"
    assert Template('{{ printf "%s%s" (trunc 1 "é") (substr 1 2 "é") | upper }}').render() == "É"


def test_a_parse_error_has_line_and_message() -> None:
    with pytest.raises(ParseError) as failure:
        Template("a\n{{ nope }}", name="policy")
    error = failure.value
    assert (error.name, error.line, error.column) == ("policy", 2, None)
    assert error.message == 'function "nope" not defined'
    assert str(error) == 'template: policy:2: function "nope" not defined'


def test_an_execution_error_has_line_byte_column_node_and_cause() -> None:
    with pytest.raises(ExecError) as failure:
        Template('é\né {{ fail "stop" }}').render()
    error = failure.value
    assert (error.line, error.column, error.node) == (2, 6, 'fail "stop"')
    assert error.message == "error calling fail: stop"
    assert isinstance(error.__cause__, GoError)


def test_an_error_in_a_called_template_names_that_template() -> None:
    with pytest.raises(ExecError) as failure:
        Template('{{ define "T" }}{{ .x.y }}{{ end }}{{ template "T" . }}').render({"x": "s"})
    assert failure.value.name == "T"
    assert 'executing "T" at <.x.y>' in str(failure.value)


def test_parse_gives_the_trees_by_name() -> None:
    trees = parse('{{ define "A" }}x{{ end }}{{ .y | len }}')
    assert {name: str(tree) for name, tree in trees.items()} == {"A": "x", "tmpl": "{{.y | len}}"}


def test_delimiters_may_be_chosen() -> None:
    assert Template("<< 1 >> {{ 2 }}", delims=("<<", ">>")).render() == "1 {{ 2 }}"


def test_without_sprig_only_builtins_exist() -> None:
    with pytest.raises(ParseError, match=r'function "upper" not defined'):
        Template('{{ upper "a" }}', sprig=False)


@pytest.mark.parametrize(("option", "expected"), [("default", "<no value>"), ("zero", "<no value>")])
def test_a_missing_key_follows_the_option(option: Any, expected: str) -> None:
    assert Template("{{ .x }}", missing_key=option).render({}) == expected


def test_a_missing_key_can_be_an_error() -> None:
    with pytest.raises(ExecError, match='map has no entry for key "x"'):
        Template("{{ .x }}", missing_key="error").render({})


def test_equal_templates_share_one_program() -> None:
    forget_programs()
    first, second = Template("{{ .a }}{{ 1 }}"), Template("{{ .a }}{{ 1 }}")
    assert first._program is second._program
    assert Template("{{ .a }}{{ 1 }}", sprig=False)._program is not first._program


def test_renders_may_run_at_the_same_time() -> None:
    template = Template("{{ range $i, $e := .l }}{{ $x := $e }}{{ $x }}{{ end }}")

    def render(number: int) -> str:
        return template.render({"l": [number] * 50})

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(render, range(40))) == [str(number) * 50 for number in range(40)]


def test_text_in_a_template_never_becomes_python() -> None:
    hostile = 'a"""\'\'\'\\ __import__("os").system("x") {{ printf "%s" "__builtins__" }}{{ .__class__ }}'
    assert Template(hostile).render({}).endswith("__builtins__<no value>")


def test_attributes_of_python_objects_cannot_be_reached() -> None:
    class Secret:
        password = "x"

    with pytest.raises(ExecError, match="can't evaluate field password"):
        Template("{{ .password }}").render(Secret())


# Functions


def test_annotations_give_a_function_its_go_types() -> None:
    def shout(text: str, times: int) -> str:
        return text.upper() + "!" * times

    assert Template('{{ shout "a" 2 }}', funcs={"shout": shout}).render() == "A!!"
    with pytest.raises(ExecError, match="expected string; found 5"):
        Template("{{ shout 5 2 }}", funcs={"shout": shout}).render()
    with pytest.raises(ExecError, match="wrong number of args for shout: want 2 got 1"):
        Template('{{ shout "a" }}', funcs={"shout": shout}).render()


def test_a_functions_exception_becomes_error_calling() -> None:
    def broken() -> str:
        raise ValueError("no luck")

    with pytest.raises(ExecError, match="error calling broken: no luck"):
        Template("{{ broken }}", funcs={"broken": broken}).render()


def test_a_function_may_return_an_absent_map() -> None:
    def find(_name: str) -> dict[str, Any] | None:
        return None

    template = Template('{{ find "x" }} {{ (find "x").a.b }} {{ if find "x" }}yes{{ else }}no{{ end }}', funcs={"find": find})
    assert template.render() == "map[] <no value> no"


def test_own_functions_replace_those_of_sprig() -> None:
    assert Template('{{ upper "a" }}', funcs={"upper": lambda text: "mine"}).render() == "mine"


def test_a_function_named_break_is_no_keyword() -> None:
    assert Template("{{ break }}", funcs={"break": lambda: "b"}).render() == "b"


def test_late_functions_are_bound_for_each_render() -> None:
    lookup = Func(lambda name: "", ("string",), result="string", late=True)
    template = Template('{{ lookup "a" }}', funcs={"lookup": lookup})
    assert template.render(bind={"lookup": lambda name: f"<{name}>"}) == "<a>"
    assert template.render(bind={"lookup": lambda name: name * 3}) == "aaa"
    assert template.render() == ""


def test_values_may_be_called() -> None:
    assert Template("{{ call .f 2 3 }}").render({"f": lambda a, b: a * b}) == "6"
    with pytest.raises(ExecError, match=r"error calling call: wrong number of args for \.f: got 1 want 2"):
        Template("{{ call .f 2 }}").render({"f": lambda a, b: a * b})


def test_a_function_cannot_be_printed() -> None:
    with pytest.raises(ExecError, match=r"can't print \{\{\.f\}\} of type func"):
        Template("{{ .f }}").render({"f": len})


# Calls that wait


async def test_coroutines_are_awaited_once_per_distinct_call() -> None:
    asked: list[tuple[Any, ...]] = []

    async def lookup(kind: str, name: str) -> Any:
        asked.append((kind, name))
        return {"data": {"next": f"{name}-next", "kind": kind}}

    func = Func(lambda *args: None, ("string", "string"), late=True)
    text = '{{ $a := lookup "cm" "a" }}{{ (lookup "cm" $a.data.next).data.kind }}{{ lookup "cm" "a" | len }}'
    output, calls = await Template(text, funcs={"lookup": func}).render_async(bind={"lookup": lookup})
    assert output == "cm1"
    assert calls == [Call("lookup", ("cm", "a")), Call("lookup", ("cm", "a-next"))]
    assert sorted(asked) == [("cm", "a"), ("cm", "a-next")]


async def test_calls_of_a_branch_not_taken_are_no_dependencies() -> None:
    async def get(name: str) -> str:
        return name

    func = Func(lambda name: "", ("string",), result="string", late=True)
    template = Template('{{ if .x }}{{ get "a" }}{{ else }}{{ get "b" }}{{ end }}', funcs={"get": func})
    assert await template.render_async({"x": True}, bind={"get": get}) == ("a", [Call("get", ("a",))])


async def test_a_failing_coroutine_fails_the_render_where_it_is_called() -> None:
    async def get(name: str) -> str:
        raise GoError(f"no {name}")

    func = Func(lambda name: "", ("string",), result="string", late=True)
    template = Template('{{ if .x }}{{ get "a" }}{{ end }}', funcs={"get": func})
    with pytest.raises(ExecError, match='at <get "a">: error calling get: no a'):
        await template.render_async({"x": True}, bind={"get": get})
    assert (await template.render_async({"x": False}, bind={"get": get}))[0] == ""


def test_constant_calls_are_known_before_rendering() -> None:
    func = Func(lambda *args: "", ("string",), variadic=True, result="string", late=True)
    template = Template('{{ get "a" "b" }}{{ get .x }}{{ (get "c") | upper }}', funcs={"get": func})
    assert list(template.constant_calls(frozenset({"get"}))) == [Call("get", ("a", "b")), Call("get", ("c",))]


# Values


def test_integers_of_kubernetes_objects_are_int64() -> None:
    data = int64s({"spec": {"replicas": 3, "ports": [80]}, "ok": True})
    assert Template("{{ typeOf .spec.replicas }} {{ kindOf (index .spec.ports 0) }} {{ typeOf .ok }}").render(data) == (
        "int64 int64 bool"
    )


def test_a_struct_refuses_unknown_fields_and_a_typed_map_keeps_its_type() -> None:
    data = Struct({"Name": "c1", "Labels": Map({"env": "prod"}, "map[string]string"), "N": Int64(1)})
    assert Template("{{ .Name }} {{ .Labels.env }} {{ .Labels.x }} {{ .N }}").render(data) == "c1 prod <no value> 1"
    with pytest.raises(ExecError, match=r"in type struct \{ Name string; Labels map\[string\]string; N int64 \}"):
        Template("{{ .Other }}").render(data)


@pytest.mark.parametrize("depth", [1, 14, 15, 16, 31, 40])
def test_ranges_nest_deeper_than_python_allows_loops(depth: int) -> None:
    head = "".join(f"{{{{ range $v{level} := list {level} }}}}" for level in range(depth))
    total = f"{{{{ $n := 0 }}}}{head}{{{{ $n = add $n $v{depth - 1} $v0 }}}}{'{{ end }}' * depth}{{{{ $n }}}}"
    assert Template(total).render() == str(depth - 1)


def test_break_and_continue_work_in_deep_ranges() -> None:
    depth = 17
    head = "{{ range until 2 }}" * depth
    body = f"{head}{{{{ if eq . 1 }}}}{{{{ break }}}}{{{{ end }}}}x{'{{ end }}' * depth}"
    assert Template(body).render() == "x" * 2 ** (depth - 1)


def test_errors_are_one_family() -> None:
    assert issubclass(ParseError, TemplateError)
    assert issubclass(ExecError, TemplateError)
    assert issubclass(gotemplate.LimitError, ExecError)
