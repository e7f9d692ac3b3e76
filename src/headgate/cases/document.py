"""What a case file says, checked: every error names the file, the line and what was meant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headgate.cases.yaml_text import Document, YamlError, parse
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import UserError
from headgate.core.suggestions import closest

# Stands for the rows of a bare SELECT, and for the only sink there is.
RESULT = "result"

Row = dict[str, Any]


class CaseFileError(UserError):
    """A case file that cannot be used."""

    code = "case_file"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GivenRows(_Part):
    """Rows of one table: exactly one of these."""

    rows: list[Row] | None = None
    csv: str | None = Field(None, description="a header line and rows; empty values are null")
    jsonl: str | None = Field(None, description="one JSON object per line")
    file: str | None = Field(None, description="a .csv, .json or .jsonl file beside the case file")
    raw: list[str] | None = Field(None, description="lines as the table's format has them")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {"rows": value}
        if isinstance(value, dict) and isinstance(value.get("raw"), str):
            return {**value, "raw": value["raw"].splitlines()}
        return value

    @model_validator(mode="after")
    def _one(self) -> GivenRows:
        said = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(said) != 1:
            raise ValueError("give rows as a list, or exactly one of csv, jsonl, file and raw")
        return self


class ExpectedRows(_Part):
    """What a sink must hold."""

    rows: list[Row] = Field(description="the rows; columns that no row names are not compared")
    ordered: bool = Field(False, description="compare the order, too")
    updating: Literal["final", "changes"] = Field(
        "final", description="of changes: what they come to, or the changes themselves (`_op`)"
    )
    tolerance: float = Field(0.0, ge=0, description="numbers may differ by this much")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"rows": value} if isinstance(value, list) else value

    @field_validator("tolerance", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Given = dict[str, GivenRows]
Expected = dict[str, ExpectedRows]


def _expected(value: Any) -> Any:
    """Rows without a table's name are those of the only sink."""
    if isinstance(value, list):
        return {RESULT: value}
    if isinstance(value, dict) and isinstance(value.get("rows"), list):
        return {RESULT: value}
    return value


def _duration(value: str | None) -> str | None:
    if value is not None:
        parse_nanoseconds(value)
    return value


class Step(_Part):
    """Rows that come together, then time moved by hand, then what must be there."""

    given: Given = {}
    watermark: str | None = Field(None, description="no older row will come: a time")
    advance: str | None = Field(None, description="the watermark moves by this much: `10s`")
    expect: Expected | None = Field(None, description="everything published up to here")

    _short_expect = field_validator("expect", mode="before")(_expected)
    _check_advance = field_validator("advance")(_duration)

    @model_validator(mode="after")
    def _one_time(self) -> Step:
        if self.watermark is not None and self.advance is not None:
            raise ValueError("a step has a watermark or an advance, not both")
        return self


class ExpectedError(_Part):
    """How the pipeline must be refused, or fail."""

    code: str | None = Field(None, description="the code of the error")
    message: str | None = Field(None, description="a part of its text")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"message": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _something(self) -> ExpectedError:
        if self.code is None and self.message is None:
            raise ValueError("say a code, a part of the message, or both")
        return self


class _Pipeline(_Part):
    pipeline: str | None = Field(None, description="the SQL or Python file, beside the case file")
    sql: str | None = Field(None, description="the SQL itself")
    udfs: str | None = Field(None, description="the Python file of its functions")
    lookups: Given = Field({}, description="the rows of lookup tables")

    @model_validator(mode="after")
    def _one_text(self) -> _Pipeline:
        if self.pipeline is not None and self.sql is not None:
            raise ValueError("say `pipeline` or `sql`, not both")
        return self


class Case(_Pipeline):
    """One test."""

    name: str = Field(min_length=1)
    given: Given = Field({}, description="rows that come together, before the stream ends")
    steps: list[Step] | None = Field(None, description="several such, one after the other")
    ends: bool = Field(True, description="the stream ends: what is still open is emitted")
    now: str | None = Field(None, description="the time of day for tables without event time")
    expect: Expected | None = Field(None, description="everything published in the end")
    expect_error: ExpectedError | None = None

    _short_expect = field_validator("expect", mode="before")(_expected)

    @model_validator(mode="after")
    def _complete(self) -> Case:
        if self.steps is not None and self.given:
            raise ValueError("say `given` or `steps`, not both: the first step can have `given`")
        stepwise = any(step.expect is not None for step in self.steps or ())
        if self.expect is None and not stepwise and self.expect_error is None:
            raise ValueError("nothing is expected: say `expect` or `expect_error`")
        if self.expect_error is not None and (self.expect is not None or stepwise):
            raise ValueError("a case expects rows or an error, not both")
        return self


class CaseFile(_Pipeline):
    """A file of cases; what it says of the pipeline holds for all that say nothing else."""

    cases: list[Case] = Field(min_length=1)


@dataclass(frozen=True)
class LocatedCase:
    """A case with where it is from, complete with what its file says."""

    file: Path
    line: int
    case: Case

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def folder(self) -> Path:
        return self.file.parent


def read_cases(file: Path) -> list[LocatedCase]:
    """Read a case file. Raises `CaseFileError` with all that is wrong in it."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError(f"cannot read the case file '{file}': {error}") from error
    try:
        document = parse(text)
    except YamlError as error:
        raise CaseFileError(f"{file}:{error.line}: not YAML: {error.message}") from error
    if not isinstance(document.value, dict):
        raise CaseFileError(f"{file}:1: a case file is a mapping with `cases`: see docs/testing.md")
    try:
        whole = CaseFile.model_validate(document.value)
    except ValidationError as error:
        raise CaseFileError("\n".join(_said(file, document, e) for e in error.errors())) from error
    located = [
        LocatedCase(file, document.line_of(("cases", i)), _completed(whole, case))
        for i, case in enumerate(whole.cases)
    ]
    _check(located)
    return located


def _completed(whole: CaseFile, case: Case) -> Case:
    own = case.pipeline is not None or case.sql is not None
    return case.model_copy(
        update={
            "pipeline": case.pipeline if own else whole.pipeline,
            "sql": case.sql if own else whole.sql,
            "udfs": case.udfs or whole.udfs,
            "lookups": {**whole.lookups, **case.lookups},
        }
    )


def _check(located: list[LocatedCase]) -> None:
    seen: dict[str, int] = {}
    for each in located:
        place = f"{each.file}:{each.line}"
        if each.name in seen:
            raise CaseFileError(
                f"{place}: another case is named '{each.name}' (line {seen[each.name]})"
            )
        seen[each.name] = each.line
        if each.case.pipeline is None and each.case.sql is None:
            raise CaseFileError(
                f"{place}: case '{each.name}' tests no pipeline: say `pipeline: FILE` or `sql:`"
            )


def _said(file: Path, document: Document, error: Any) -> str:
    """Say one error of validation as a person would."""
    path = tuple(error["loc"])
    place = f"{file}:{document.line_of(path)}"
    case = _case_name(document, path)
    within = f" case '{case}':" if case else ""
    key = path[-1] if path else ""
    match error["type"]:
        case "extra_forbidden":
            known = _keys_at(path)
            near = closest(str(key), known)
            hint = f"did you mean '{near}'?" if near else f"known here: {', '.join(known)}"
            text = f"unknown key '{key}': {hint}"
        case "missing":
            text = f"'{key}' is missing"
        case "value_error":
            text = str(error["ctx"]["error"])
        case _:
            text = f"'{key}': {error['msg'][0].lower()}{error['msg'][1:]}"
    return f"{place}:{within} {text}"


def _case_name(document: Document, path: tuple[str | int, ...]) -> str | None:
    if len(path) < 2 or path[0] != "cases":
        return None
    case = document.value["cases"][path[1]]
    name = case.get("name") if isinstance(case, dict) else None
    return None if name is None else str(name)


def _keys_at(path: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are known where a path ends."""
    part: type[BaseModel] = CaseFile
    inside = list(path[:-1])
    if inside[:1] == ["cases"]:
        part, inside = Case, inside[2:]
    if inside[:1] == ["steps"]:
        part, inside = Step, inside[2:]
    if inside[:1] in (["given"], ["lookups"]):
        part = GivenRows
    elif inside[:1] == ["expect"]:
        part = ExpectedRows
    elif inside[:1] == ["expect_error"]:
        part = ExpectedError
    return list(part.model_fields)
