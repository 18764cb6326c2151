"""Reads the declared parameters of a request; each refusal names the parameter and says what to type."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request

from rowtide.web.declared import Parameter
from rowtide.web.problems import Problem, ProblemError


def named(request: Request, parameter: Parameter) -> str:
    """Return the value of a parameter in the path: a name, percent-encoded in the address."""
    return unquote(request.path_params[parameter.name])


def given(request: Request, parameter: Parameter) -> str:
    """Return the value of a required parameter.

    Raises:
      ProblemError: it is missing.
    """
    text = request.query_params.get(parameter.name, "")
    if not text:
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'parameter "{parameter.name}" is missing',
            hint=f"Add {parameter.name}=.. to the address.",
        )
    return text


def text(request: Request, parameter: Parameter) -> str:
    """Return the value of a parameter that has a default."""
    return request.query_params.get(parameter.name, str(parameter.default))


def number(request: Request, parameter: Parameter) -> int:
    """Return the value of an integer.

    Raises:
      ProblemError: it is not one of 0 to the greatest.
    """
    text, most = request.query_params.get(parameter.name, str(parameter.default)), parameter.most or 0
    # The length first: Python refuses to read thousands of digits.
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)) or int(text) > most:
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'invalid number of rows in parameter "{parameter.name}": "{text[:40]}"',
            hint=f"It is a whole number of 0 to {most}.",
        )
    return int(text)


def flag(request: Request, parameter: Parameter) -> bool:
    """Return the value of a parameter that is true or false.

    Raises:
      ProblemError: it is neither.
    """
    text = request.query_params.get(parameter.name, str(parameter.default).lower())
    if text not in ("true", "false"):
        raise ProblemError(
            Problem.INVALID_PARAMETER,
            f'invalid value of parameter "{parameter.name}": "{text[:40]}"',
            hint="Write true or false.",
        )
    return text == "true"
