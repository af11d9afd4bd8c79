"""Syntax checks of the JSONPaths and CEL expressions in manifest configurations.

Only the syntax is checked. The evaluation is up to the agent, which may be older or newer than the hub; but what no agent can parse
is refused here, so that its author gets the error at once. Existing configurations are not checked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from muster.api.work.v1 import ConditionRule, FeedbackRule, ManifestConfig
from muster.kube.jsonpath import JSONPathError, compile_path


def config_problem(
    configs: Sequence[ManifestConfig], spec: Mapping[str, Any], old: Mapping[str, Any], at: str = "spec"
) -> str | None:
    """The first invalid expression in `configs`, which `spec` has and `old` has not."""
    known = set(_written(old))
    news = ((index, config) for index, (config, raw) in enumerate(zip(configs, _written(spec), strict=True)) if raw not in known)
    found = next((problem for index, config in news for problem in _problems(config, index)), None)
    return None if found is None else f"{at}.{found}"


def _written(spec: Mapping[str, Any]) -> list[bytes]:
    listed = spec.get("manifestConfigs")
    return [orjson.dumps(config, option=orjson.OPT_SORT_KEYS) for config in (listed if isinstance(listed, list) else ())]


def _problems(config: ManifestConfig, index: int) -> Iterator[str]:
    at = f"manifestConfigs[{index}]"
    for number, rule in enumerate(config.feedback_rules):
        yield from _feedback(rule, f"{at}.feedbackRules[{number}]")
    for number, condition in enumerate(config.condition_rules):
        yield from _condition(condition, f"{at}.conditionRules[{number}]")
    strategy = config.update_strategy.server_side_apply if config.update_strategy else None
    for number, ignored in enumerate(strategy.ignore_fields if strategy else ()):
        for path_number, path in enumerate(ignored.json_paths):
            yield from _path(path, f"{at}.updateStrategy.serverSideApply.ignoreFields[{number}].jsonPaths[{path_number}]")


def _feedback(rule: FeedbackRule, at: str) -> Iterator[str]:
    for number, path in enumerate(rule.json_paths):
        yield from _path(path.path, f"{at}.jsonPaths[{number}].path")


def _condition(rule: ConditionRule, at: str) -> Iterator[str]:
    if rule.type == "CEL":
        for number, expression in enumerate(rule.cel_expressions):
            yield from _expression(expression, f"{at}.celExpressions[{number}]")
    if rule.message_expression:
        yield from _expression(rule.message_expression, f"{at}.messageExpression")


def _path(path: str, at: str) -> Iterator[str]:
    try:
        compile_path(path)
    except JSONPathError as error:
        yield f"{at}: {path!r} is no JSONPath: {error}"


def _expression(text: str, at: str) -> Iterator[str]:
    from muster.cel import CompileError
    from muster.cel.syntax.parser import parse

    try:
        parse(text, {})
    except CompileError as error:
        yield f"{at}: {text!r} is no CEL expression: {str(error).splitlines()[0]}"
