"""What a file holds, decoded strictly: each value of its kind, or a sentence on what came."""

import re
from typing import Annotated, Any

import msgspec

FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\\]*$")]
WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "int | float": "a number",
    "null": "nothing",
    "object": "a table",
    "str": "text",
    "str | null": "text, or nothing",
}

BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}


def typed(content: Any, kind: Any) -> Any:
    """What JSON or TOML gave, as ``kind``: nothing is guessed, no text is taken for a number.

    Raises:
        ValueError: names the key, what came and what was expected.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_told(content, str(error))) from error


def _told(content: Any, said: str) -> str:
    expected, _, place = said.removesuffix("`").partition(" - at `$")
    if not expected.startswith("Expected"):
        return said
    known = "[...]" not in place  # msgspec says no key of a table of many
    for name, number in re.findall(r"\.([^.\[]+)|\[(\d+)\]", place) if known else ():
        content = content[name] if name else content[int(number)]
    expected = re.sub(r"`([^`]+)`", lambda word: WORDS.get(word[1], word[0]), expected[9:])
    expected = re.sub(
        r"([<>]=?) ([\d.e+]+)", lambda bound: f"{BOUNDS[bound[1]]} {float(bound[2]):g}", expected
    )
    expected = re.sub("text matching regex .*", "a name without a slash", expected)
    key = place.removeprefix(".") or "all of it"
    came = f" {repr(content)[:60]}" if known else ""
    return f"{key}{came}: expected {expected.partition(', got ')[0]}"
