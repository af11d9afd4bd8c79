"""How a container of the wrong sort is named after a strategic patch."""

import pytest

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode.from_unstructured import from_unstructured_problem

DEPLOYMENT = next(row.schema for row in builtin_resources() if (row.kind, row.version) == ("Deployment", "v1"))


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ([], "cannot restore struct from: slice"),
        ({"spec": {"containers": {"name": "x"}}}, "cannot restore slice from map"),
        ({"metadata": {"labels": ["a"]}}, "cannot restore map from slice"),
        ({"spec": {"containers": [{"env": {"A": "1"}}]}}, "cannot restore slice from map"),
        ({"spec": {"containers": None}}, ""),
        ({"spec": {"containers": [{"name": "x"}]}}, ""),
    ],
)
def test_the_first_container_of_the_wrong_sort_is_told(template: object, problem: str) -> None:
    assert from_unstructured_problem({"spec": {"template": template}}, DEPLOYMENT) == problem


def test_wrong_scalars_are_left_to_others() -> None:
    assert from_unstructured_problem({"spec": {"replicas": "three"}}, DEPLOYMENT) == ""
