"""The commands of the aws CLI in the manual, held against AWS's own description of its services."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import ParamValidator

DOCS = Path(__file__).parents[2] / "docs"
SESSION = botocore.session.get_session()
# The CLI calls it otherwise than the service, where --endpoint-url would be near.
_RENAMED = {"notification-endpoint": "endpoint"}
_GLOBAL = ("region", "profile", "output", "query", "endpoint-url")


def commands() -> list[tuple[str, str]]:
    found = []
    for page in sorted(DOCS.glob("*.md")):
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [(page.name, line) for line in lines if line.startswith("aws ")]
    return found


def options_of(words: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            values = options.setdefault(_RENAMED.get(word[2:], word[2:]), [])
        else:
            values.append(word)
    return options


def shorthand(text: str) -> Any:
    """``A=1,B={C=2}`` as the CLI reads it."""
    if not text.startswith("{") and "=" not in text:
        return text
    inner = text[1:-1] if text.startswith("{") else text
    parts = re.findall(r"([A-Za-z]+)=(\{.*?\}|[^,{}]*)(?:,|$)", inner)
    return {name: shorthand(value) if value.startswith("{") else value for name, value in parts}


def as_parameter(values: list[str], shape: Any) -> Any:
    """The values of an option as botocore takes them."""
    if shape.type_name == "list":
        return [as_parameter([value], shape.member) for value in values]
    [value] = values
    if shape.type_name in ("structure", "map"):
        found = json.loads(value) if value.startswith('{"') else shorthand(value)
        if shape.type_name == "map":
            return found
        return {name: _scalar(item, shape.members[name]) for name, item in found.items()}
    return _scalar(value, shape)


def _scalar(value: Any, shape: Any) -> Any:
    if isinstance(value, dict):
        return {name: _scalar(item, shape.members[name]) for name, item in value.items()}
    return int(value) if shape.type_name in ("integer", "long") and isinstance(value, str) else value


def check(command: str) -> None:
    _, service, operation, *words = shlex.split(command)
    model = SESSION.get_service_model(service)
    names = {xform_name(name).replace("_", "-"): name for name in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    members = {xform_name(name).replace("_", "-"): name for name in shape.members}
    parameters = {
        members[option]: as_parameter(values, shape.members[members[option]])
        for option, values in options_of(words).items()
        if option not in _GLOBAL
    }
    report = ParamValidator().validate(parameters, shape)
    assert not report.has_errors(), report.generate_report()


def test_rules_of_eventbridge_and_mappings_of_lambda_are_among_them() -> None:
    written = " ".join(command for _, command in commands())
    for operation in ("put-rule", "put-targets", "create-event-source-mapping", "sns subscribe"):
        assert operation in written


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_is_one_that_aws_knows(page: str, command: str) -> None:
    check(command)


@pytest.mark.parametrize(
    "command",
    [
        "aws events put-rule --nome x",
        "aws events put-targets --rule x --targets 'Id=1,Arm=x'",
        "aws sqs create-queue",
        "aws sqs create-cue --queue-name x",
    ],
)
def test_a_wrong_command_is_found(command: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(command)
