"""Variables of the environment in a configuration, so that no secret stands in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from ....errors import ConfigError

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{([^}]*)\}")


def expand(
    text: str,
    variables: Mapping[str, str],
    *,
    whose: str,
    found: Callable[[str], object] | None = None,
) -> str:
    """Replace `${NAME}` and `${NAME:-default}`; an unset variable is an error, never empty.

    `found` hears the values that came from the environment: a default stands in the file.
    """

    def value(match: re.Match[str]) -> str:
        name, default, foreign = cast("tuple[str | None, str | None, str | None]", match.groups())
        if name is None:
            raise ConfigError(
                f"{whose} uses ${{{foreign}}}, which only another client can fill in.",
                hint="Write ${NAME} and set that environment variable.",
            )
        given = variables.get(name)
        if given and found is not None:
            found(given)
        given = given or default
        if given is None:
            raise ConfigError(
                f"{whose} needs the environment variable {name}, which is not set.",
                hint=f"Set {name}, or write ${{{name}:-default}}.",
            )
        return given

    return _VARIABLE.sub(value, text)
