"""Tables in Markdown."""

import re
from collections.abc import Iterable
from typing import Any

_NUMBER = re.compile(r"-?[\d.]+(?: |$)")


def table(header: list[str], rows: Iterable[list[Any]]) -> str:
    """Numbers to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    columns = ([row[i] for row in rows if row[i]] for i in range(len(header)))
    rule = ["---:" if all(map(_NUMBER.match, column)) else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))
