"""The C API's page, from the comments of its header.

What the header has is blocks between blank lines. A block is a section's title, or declarations
with or without a comment before them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

HEADER = Path(__file__).parents[2] / "libim2win/include/im2win/im2win.h"
_TITLE = re.compile(r"/\* ---- (.*?) -* \*/$")
_COMMENT = re.compile(r"/\* ?(.*?) ?\*/\n?", re.DOTALL)
_NAME = re.compile(r"\b(im2win_\w+)(?=\()|\} (im2win_\w+);|^typedef struct (\w+) \1;|enum \{ (\w+)")
_CODE = re.compile(
    r"\*?\bim2win_\w+(?:\(\))?|\bIM2WIN_\w+|\*\w+|&\w+|\w+(?:->|\.)\w+"
    r"|\w+\[[^\]]*\](?!\()(?: \.\. \w+\))?|\b[a-z]+_[a-z_]+\b"
)


def markdown() -> str:
    """All of the header but its preprocessor's lines."""
    header = HEADER.read_text(encoding="utf-8")
    introduction = _COMMENT.match(header)
    assert introduction is not None
    return "\n\n".join([_text(introduction[1]), *map(_block, _blocks(header))])


def _blocks(header: str) -> Iterator[str]:
    """What lies inside of `extern "C"`, comments with what they are about."""
    inside = header.split('extern "C" {\n#endif\n')[1].split("#ifdef __cplusplus")[0]
    kept = ""
    for block in inside.strip().split("\n\n"):
        kept += block
        if kept.count("{") == kept.count("}") and kept.count("/*") == kept.count("*/"):
            yield kept
            kept = ""
        else:
            kept += "\n\n"  # of a struct or a comment
    assert not kept


def _block(block: str) -> str:
    title = _TITLE.match(block)
    if title:
        return f"## {title[1]}"
    comment = _COMMENT.match(block)
    code = block[comment.end() :] if comment else block
    names = [next(filter(None, found)) for found in _NAME.findall(code)]
    parts = ["### " + ", ".join(f"`{name}`" for name in names)] if names else []
    if comment:
        parts.append(_text(comment[1]))
    if code:
        parts.append(f"```c\n{code.replace('IM2WIN_API ', '')}\n```")
    return "\n\n".join(parts)


def _text(comment: str) -> str:
    """A comment as Markdown: indented lines are code."""
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in comment.splitlines()]
    text: list[str] = []
    indented = False
    for line in lines:
        if line.startswith("- ") and not text[-1].startswith(("- ", "  ")):
            text.append("")  # or it would be no list
        is_indented = line.startswith("  ") and not text[-1].startswith("- ")
        if is_indented != indented:
            text.append("```")
        text.append(line if is_indented else _marked(line))
        indented = is_indented
    if indented:
        text.append("```")
    return "\n".join(text)


def _marked(line: str) -> str:
    """Names of the code as code, and nothing else as Markdown."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else _CODE.sub(r"`\g<0>`", part) for part in parts)
