"""Results for programs: JUnit's XML, which every CI reads, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from headgate.cases.comparing import Difference
from headgate.cases.running import Result, TableDifferences, plain


def status(result: Result) -> str:
    """Say how a case ended: passed, failed or invalid."""
    if result.invalid:
        return "invalid"
    return "passed" if result.passed else "failed"


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """Return all results as one JSON object."""
    counts = {s: sum(status(r) == s for r in results) for s in ("passed", "failed", "invalid")}
    return {**counts, "cases": [_case(result) for result in results]}


def _case(result: Result) -> dict[str, Any]:
    return {
        "file": str(result.located.file),
        "line": result.located.line,
        "name": result.located.name,
        "status": status(result),
        "seconds": round(result.seconds, 3),
        "problems": result.problems,
        "differences": [
            {
                "table": table.table,
                "step": None if table.step is None else table.step + 1,
                "kind": difference.kind,
                "expected": plain(difference.expected),
                "actual": plain(difference.actual),
            }
            for table in result.differences
            for difference in table.differences
        ],
        "chaos_seeds": result.chaos_seeds,
    }


def as_junit(results: Sequence[Result]) -> str:
    """Return all results as JUnit's XML: a suite per file."""
    root = ElementTree.Element("testsuites", _counts(results))
    for file in dict.fromkeys(result.located.file for result in results):
        of_file = [result for result in results if result.located.file == file]
        suite = ElementTree.SubElement(root, "testsuite", {"name": str(file), **_counts(of_file)})
        for result in of_file:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                {
                    "classname": str(file),
                    "name": result.located.name,
                    "file": str(file),
                    "line": str(result.located.line),
                    "time": f"{result.seconds:.3f}",
                },
            )
            if not result.passed:
                kind = "error" if result.invalid else "failure"
                said = failure_lines(result)
                failed = ElementTree.SubElement(case, kind, {"message": _printable(said[0])})
                failed.text = _printable("\n".join(said))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(results: Sequence[Result]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(status(r) == "failed" for r in results)),
        "errors": str(sum(r.invalid for r in results)),
        "time": f"{sum(r.seconds for r in results):.3f}",
    }


def _printable(text: str) -> str:
    """Return a text that XML can hold: it has no place for most control characters."""
    return "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in text)


def failure_lines(result: Result) -> list[str]:
    """Say why a case failed, in plain lines."""
    lines = list(result.problems)
    for table in result.differences:
        lines.append(f"{heading(table)}:")
        lines += [f"  {_difference_line(d)}" for d in table.differences]
    return lines


def heading(table: TableDifferences) -> str:
    """Say which rows differ, and how many."""
    when = "" if table.step is None else f" after step {table.step + 1}"
    count = len(table.differences)
    return f"{table.table}{when}: {count} {'row differs' if count == 1 else 'rows differ'}"


def _difference_line(difference: Difference) -> str:
    expected, actual = plain(difference.expected), plain(difference.actual)
    match difference.kind:
        case "missing":
            return f"missing: {expected}"
        case "unexpected":
            return f"unexpected: {actual}"
        case "moved":
            return f"out of order: {expected}"
        case "changed":
            return f"changed: expected {expected}, found {actual}"
