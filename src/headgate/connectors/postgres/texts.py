"""Texts as bytes that Postgres takes, or an error that names what it does not."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.postgres.types import WireType
from headgate.core.errors import BadDataError

_NUL_ESCAPE = r"(^|[^\\])(\\\\)*\\u0000"


def text_bytes(text: pa.Array, wire: WireType, name: str) -> pa.Array:
    """Return the bytes of texts, all of which Postgres takes."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadDataError(f"column '{name}' has a text that is not UTF-8: {error}") from error
    if _has_nul(text):
        raise BadDataError(
            f"column '{name}' has a text with the character U+0000, which Postgres cannot hold: "
            f"take it out in the query, for example replace({name}, chr(0), '')"
        )
    if wire.name != "jsonb":
        return text.cast(pa.binary())
    if pc.any(pc.match_substring_regex(text, _NUL_ESCAPE)).as_py():
        raise BadDataError(
            f"column '{name}' has JSON with the character \\u0000, which a jsonb column cannot "
            "hold: take it out in the query, or make the column json"
        )
    # The version of the form of jsonb, then its text.
    return pc.binary_join_element_wise(pa.scalar(b"\x01"), text.cast(pa.binary()), b"")


def _has_nul(text: pa.Array) -> bool:
    """Whether there is a zero in the bytes of the texts; a null has none."""
    offsets, data = offsets_of(text), text.buffers()[2]
    if data is None or np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].all():
        return False
    # Mostly not asked: behind a null there may be any bytes.
    return bool(pc.any(pc.match_substring(text, "\x00")).as_py())


def check_json(text: pa.Array, name: str) -> None:
    """Refuse a text that is no JSON. Row by row: no kernel can tell."""
    for value in text.to_pylist():
        if value is None:
            continue
        try:
            json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise BadDataError(
                f"column '{name}' goes into a JSON column, but {value[:80]!r} is no JSON ({error}):"
                " repair it in the query, or make the column text"
            ) from error


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no value of JSON")


def offsets_of(values: pa.Array) -> npt.NDArray[np.int32]:
    """Return where the values of a column of bytes begin, and where the last one ends."""
    found = np.frombuffer(values.buffers()[1], np.int32)
    return found[values.offset : values.offset + len(values) + 1]
