"""`im2win info`, and the lines that open the other commands: what they run on."""

import typer
from rich.console import Console
from rich.markup import escape

from im2win._info import Info
from im2win._info import info as find_info

console = Console(highlight=False)


def info() -> None:
    """Show the version, the devices of this machine and the algorithms."""
    found = find_info()
    print_machine(found)
    for kind, names in found.algorithms.items():
        listed = ", ".join(names) or "none in this build"
        console.print(f"{kind} algorithms, best first: {listed}", soft_wrap=True)
    console.print(f"library: {escape(found.library)}", soft_wrap=True)


def print_machine(found: Info) -> None:
    """Version and devices; in one line, why there is no CUDA if there is none."""
    console.print(f"[bold]im2win {found.version}[/bold]")
    for name, description in found.devices.items():
        console.print(f"{name}: {escape(description)}", soft_wrap=True)
    if found.no_cuda is not None:
        console.print(f"cuda: [yellow]none[/yellow]: {escape(found.no_cuda)}", soft_wrap=True)


def chosen(option: str, names: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the known that a comma-separated option names; all without it.

    Errors: typer.BadParameter, for a name that is not known.
    """
    if names is None:
        return known
    picked = tuple(name.strip() for name in names.split(","))
    for name in picked:
        if name not in known:
            raise typer.BadParameter(f"{option} {name}: expected some of {', '.join(known)}")
    return picked


def chosen_devices(names: str | None, found: Info) -> tuple[str, ...]:
    """The devices that a comma-separated --device names, "cuda" being "cuda:0"; all without it.

    Errors: as `chosen`.
    """
    if names is not None and "cuda" in names and found.no_cuda is not None:
        raise typer.BadParameter(f"--device {names}: {found.no_cuda}")
    if names is not None:
        names = ",".join("cuda:0" if name.strip() == "cuda" else name for name in names.split(","))
    return chosen("--device", names, tuple(found.devices))
