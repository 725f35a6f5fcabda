"""What command-line options name."""

from collections.abc import Iterable

import typer


def require_known(option: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise typer.BadParameter(f"{option} {name}: expected one of {', '.join(known)}")


def some(option: str, names: str, known: Iterable[str]) -> list[str]:
    """Those that a comma-separated option names; all of the known if it is empty."""
    picked = names.split(",") if names else list(known)
    for name in picked:
        require_known(option, name, known)
    return picked
