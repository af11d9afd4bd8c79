import pytest

from muster.kube import names


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63])
def test_labels_are_lower_case_alphanumerics_with_inner_dashes(name: str) -> None:
    assert names.dns1123_label(name) == []


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("A", "a lowercase RFC 1123 label must consist of"),
        ("-a", "a lowercase RFC 1123 label must consist of"),
        ("a_b", "a lowercase RFC 1123 label must consist of"),
        ("", "a lowercase RFC 1123 label must consist of"),
        ("a.b", "must not contain dots"),
        ("a" * 64, "must be no more than 63 characters"),
        ("a\n", "a lowercase RFC 1123 label must consist of"),
    ],
)
def test_a_bad_label_is_told_why(name: str, start: str) -> None:
    (problem,) = names.dns1123_label(name)
    assert problem.startswith(start)


def test_messages_give_examples_and_the_pattern() -> None:
    assert names.dns1123_subdomain("A") == [
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
        "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]
    assert names.dns1035_label("1a")[0].endswith(
        "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "example.com/MyName", "1", "a" * 63, f"{'b' * 60}.io/x"])
def test_qualified_names_have_an_optional_domain(name: str) -> None:
    assert names.qualified_name(name) == []


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("A.b/c", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        (f"{'a' * 254}/b", ["prefix part must be no more than 253 bytes"]),
        ("-a", ["name part must consist of"]),
    ],
)
def test_a_bad_qualified_name_says_which_part(name: str, starts: list[str]) -> None:
    problems = names.qualified_name(name)
    assert len(problems) == len(starts)
    for problem, start in zip(problems, starts, strict=True):
        assert problem.startswith(start)


def test_label_values_may_be_empty_and_are_counted_in_bytes() -> None:
    assert names.label_value("") == []
    assert names.label_value("a" * 63) == []
    assert names.label_value("a" * 64) == ["must be no more than 63 bytes"]
    assert names.label_value("é" * 32)[0] == "must be no more than 63 bytes"


@pytest.mark.parametrize(
    ("key", "problem"),
    [("..", "must not be '..'"), (".", "must not be '.'"), ("..a", "must not start with '..'"), ("a/b", "a valid config key must")],
)
def test_config_keys_are_file_names(key: str, problem: str) -> None:
    assert names.config_key(key)[-1].startswith(problem)
    assert names.config_key("a.b_C-d") == []


def test_path_segments_must_survive_a_url() -> None:
    assert names.path_segment("a:b") == []
    assert names.path_segment("..") == ["may not be '..'"]
    assert names.path_segment("..", prefix=True) == []
    assert names.path_segment("a/b%c") == ["may not contain '/'", "may not contain '%'"]


def test_a_generate_name_may_end_in_a_dash() -> None:
    assert names.name_is_subdomain("a-", prefix=True) == []
    assert names.name_is_label("a-", prefix=True) == []
    assert names.name_is_dns1035_label("a-", prefix=True) == []
    assert names.name_is_subdomain("a-", prefix=False) != []
    assert names.name_is_subdomain("-", prefix=True) != []


def test_annotation_keys_ignore_case_and_their_total_size_is_limited() -> None:
    assert names.check_annotations({"Example.COM/a": "x"}, "metadata.annotations") == []
    (error,) = names.check_annotations({"a": "x" * 256 * 1024}, "metadata.annotations")
    assert str(error) == "metadata.annotations: Too long: may not be more than 262144 bytes"


def test_labels_are_checked_with_their_field() -> None:
    errors = names.check_labels({"a b": "c d"}, "metadata.labels")
    assert [error.value for error in errors] == ["a b", "c d"]
    assert {error.field for error in errors} == {"metadata.labels"}


def test_generated_names_keep_the_base_and_fit_a_label() -> None:
    made = names.generate_name("job-")
    assert made.startswith("job-")
    assert len(made) == 9
    assert not set(made[4:]) & set("aeiou013")
    assert len(names.generate_name("x" * 100)) == 63
    assert names.generate_name("a-", choose=lambda alphabet: alphabet[0]) == "a-bbbbb"
