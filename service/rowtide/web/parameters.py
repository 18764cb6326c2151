"""Reads the declared parameters of a request; each refusal names the parameter and says what to type."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request

from rowtide.web.declared import JSON, Parameter
from rowtide.web.problems import Problem, ProblemError

KINDS = {"string": str, "integer": int, "boolean": bool, "integers": list}
"""The values of JSON that a field of a body may have, by the kind of its parameter."""
_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "boolean": "a boolean",
    "integers": "an array of integers",
}


async def read_body(request: Request, fields: tuple[Parameter, ...]) -> None:
    """Read the body of a request, a JSON object with these fields, for ``given`` and ``flag``.

    Raises:
      ProblemError: it is something else, or a field is missing, unknown or has another type.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ProblemError(
            Problem.BODY_TYPE,
            "the body is not declared as JSON",
            hint=f"Send the header Content-Type: {JSON}.",
        )
    try:
        found = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _invalid_body(f"the body is not JSON: {error}", fields) from error
    if not isinstance(found, dict):
        raise _invalid_body("the body is not a JSON object", fields)
    known = {each.name: each for each in fields}
    if unknown := sorted(found.keys() - known.keys()):
        raise _invalid_body(f'the body has an unknown field "{unknown[0][:80]}"', fields)
    for each in fields:
        if each.name not in found and each.default is not None:
            found[each.name] = each.default
            continue
        value = found.get(each.name)
        if value is None or (value == "" and each.default is None):
            raise _invalid_body(f'field "{each.name}" of the body is missing', fields)
        if (wrong := _fault(each, value)) is not None:
            raise _invalid_body(f'field "{each.name}" of the body {wrong}', fields)
    request.state.body = found


def _fault(field: Parameter, value: object) -> str | None:
    """Return what is wrong with the value of a field; None: nothing."""
    # A bool is an int of Python.
    if type(value) is not KINDS[field.kind]:
        return f"is not {_NAMES[field.kind]}"
    numbers: list[Any] = [value] if field.kind == "integer" else []
    if isinstance(value, list):
        numbers = value
    if any(type(each) is not int for each in numbers):
        return f"is not {_NAMES[field.kind]}"
    if field.most is not None and not all(0 <= each <= field.most for each in numbers):
        return f"is not within 0 to {field.most}"
    if field.most_items is not None and len(numbers) > field.most_items:
        return f"has more than {field.most_items} numbers"
    return None


def _invalid_body(message: str, fields: tuple[Parameter, ...]) -> ProblemError:
    known = ", ".join(f"{each.name} ({each.kind})" for each in fields)
    return ProblemError(Problem.INVALID_BODY, message, hint=f"It is a JSON object with {known}.")


def named(request: Request, parameter: Parameter) -> str:
    """Return the value of a parameter in the path: a name, percent-encoded in the address."""
    return unquote(request.path_params[parameter.name])


def given(request: Request, parameter: Parameter) -> str:
    """Return the value of a required text.

    Raises:
      ProblemError: it is missing.
    """
    if parameter.where == "path":
        return named(request, parameter)
    if parameter.where == "body":
        return str(request.state.body[parameter.name])
    text = request.query_params.get(parameter.name, "")
    if not text:
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'parameter "{parameter.name}" is missing',
            hint=f"Add {parameter.name}=.. to the address.",
        )
    return text


def optional(request: Request, parameter: Parameter) -> str | None:
    """Return the value of a text that may be missing, or empty."""
    if parameter.where == "body":
        return str(request.state.body[parameter.name]) or None
    return request.query_params.get(parameter.name) or None


def numbers(request: Request, parameter: Parameter) -> tuple[int, ...]:
    """Return the value of an array of integers in the body."""
    return tuple(request.state.body[parameter.name])


def number(request: Request, parameter: Parameter) -> int:
    """Return the value of an integer.

    Raises:
      ProblemError: it is not one of 0 to the greatest.
    """
    if parameter.where == "body":
        return int(request.state.body[parameter.name])
    text, most = request.query_params.get(parameter.name, str(parameter.default)), parameter.most or 0
    # The length first: Python refuses to read thousands of digits.
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)) or int(text) > most:
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'invalid number in parameter "{parameter.name}": "{text[:40]}"',
            hint=f"It is a whole number of 0 to {most}.",
        )
    return int(text)


def flag(request: Request, parameter: Parameter) -> bool:
    """Return the value of a parameter that is true or false.

    Raises:
      ProblemError: it is neither.
    """
    if parameter.where == "body":
        return bool(request.state.body[parameter.name])
    text = request.query_params.get(parameter.name, str(parameter.default).lower())
    if text not in ("true", "false"):
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'invalid value of parameter "{parameter.name}": "{text[:40]}"',
            hint="Write true or false.",
        )
    return text == "true"
