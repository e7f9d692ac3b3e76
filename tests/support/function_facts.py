"""What Spark says of its functions: how many arguments, of which types, and what comes out.

`python -m tests.support.function_facts` asks Catalyst and writes the answers where the planner's
checker of types reads them; with names of functions it asks about these only. Nothing is known
better than Spark knows it: a number of arguments or a combination of types is refused if Spark's
analyzer refuses it with the very error for that.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import start_session
from headgate.planner.spark_functions import SPARK_FUNCTIONS
from headgate.planner.typecheck.facts import ARITY_MAX, FACTS_FILE, LETTERS, NOT_ASKED, OPERATORS

# The types of three arguments: all fifteen would be thousands of questions for each function.
_FEW = "BISYTR"
# What cannot be asked as a call: it is syntax, or asks for a file or a class.
_COLUMNS = {letter: f"c_{letter}" for letter in LETTERS if letter != "Q"}
_ARGUMENTS = {**_COLUMNS, "Q": "'1'"}

# Conditions of Spark about what an argument is, not of which type.
_OF_VALUES = ("NON_FOLDABLE", "INVALID_ARG_VALUE", "VALUE_OUT_OF_RANGE")

# Answers the expressions over one row of every type, each with one character: the letter of its
# type, `-` for refused types, `#` for a refused number of arguments, `?` for anything else.
Ask = Callable[[list[str]], str]


def asker(spark: SparkSession) -> Ask:
    """Return what asks the analyzer of a session.

    Many at once, without the check at the end of an analysis, which stops at the first refusal.
    """
    row = ", ".join(
        f"CAST(NULL AS {LETTERS[letter]}) AS {name}" for letter, name in _COLUMNS.items()
    )
    spark.sql(f"SELECT {row}").createOrReplaceTempView("facts")
    session: Any = spark._jsparkSession
    parser = session.sessionState().sqlParser()
    analyzer = session.sessionState().analyzer()

    def analyzed(exprs: list[str]) -> Any:
        listed = ", ".join(f"{expr} AS x{number}" for number, expr in enumerate(exprs))
        return analyzer.execute(parser.parsePlan(f"SELECT {listed} FROM facts"))

    def ask(exprs: list[str]) -> str:
        if not exprs:
            return ""
        try:
            plan = analyzed(exprs)
            # An unresolved output begins with a quote.
            outputs = str(plan.output().mkString(",")).split(",")
            if len(outputs) == len(exprs):
                fine = [e for e, o in zip(exprs, outputs, strict=True) if not o.startswith("'")]
                kinds = iter(_kinds(analyzed(fine)) if fine else "")
                found = plan.expressions()
                return "".join(
                    _reason(found.apply(n)) if o.startswith("'") else next(kinds)
                    for n, o in enumerate(outputs)
                )
        except (PySparkException, Py4JJavaError) as error:
            if len(exprs) == 1:
                return _refusal(error)
        if len(exprs) == 1:
            return "?"
        half = len(exprs) // 2
        return ask(exprs[:half]) + ask(exprs[half:])

    return ask


def _kinds(plan: Any) -> str:
    fields = StructType.fromJson(json.loads(plan.schema().json())).fields
    return "".join(_letter(field.dataType.simpleString()) for field in fields)


def _reason(named: Any) -> str:
    """Return why an expression is not resolved: only its types are of interest."""
    expr = named.child()
    while not expr.childrenResolved():
        # An aggregate function stands below what makes it one.
        children = expr.children()
        below = map(children.apply, range(children.size()))
        expr = next(child for child in below if not child.resolved())
    reason = str(expr.checkInputDataTypes().toString())
    return "-" if reason.startswith("DataTypeMismatch") and not _of_value(reason) else "?"


def _refusal(error: PySparkException | Py4JJavaError) -> str:
    condition = str(error.getCondition() or "") if isinstance(error, PySparkException) else ""
    if condition.startswith("WRONG_NUM_ARGS"):
        return "#"
    if condition.startswith("DATATYPE_MISMATCH") and not _of_value(condition):
        return "-"
    return "?"


def _of_value(reason: str) -> bool:
    """Whether the value of an argument is refused: another one of its type may be taken."""
    return any(word in reason for word in _OF_VALUES)


def _letter(kind: str) -> str:
    if kind.startswith("decimal"):
        return "N"
    if kind.startswith("struct<"):
        return "U"
    return {kind: letter for letter, kind in LETTERS.items() if letter != "Q"}.get(kind, "?")


def facts_of_function(ask: Ask, name: str) -> dict[str, Any]:
    """Return {arity, one, two, returns} of a function."""
    arity = [n for n in range(ARITY_MAX + 1) if _takes(ask, name, n)]
    found: dict[str, Any] = {"arity": arity}
    templates = {n: f"{name}({', '.join(['{}'] * n)})" for n in (1, 2, 3)}
    constant: dict[int, str] = {}
    if 0 in arity:
        constant[0] = ask([f"{name}()"])
    for n in (1, 2):
        if n in arity:
            found[str(n)] = answers(ask, templates[n], n, LETTERS)
            constant[n] = _constant(found[str(n)])
    if 3 in arity:
        constant[3] = _constant(answers(ask, templates[3], 3, _FEW))
    found["returns"] = {str(n): kind for n, kind in constant.items() if kind in LETTERS}
    return found


def _takes(ask: Ask, name: str, n: int) -> bool:
    return any(ask([f"{name}({', '.join([argument] * n)})"]) != "#" for argument in ("c_I", "c_S"))


def answers(ask: Ask, template: str, n: int, letters: Iterable[str]) -> str:
    """Return the answer for every combination of types, in the order of the letters."""
    combinations = itertools.product(letters, repeat=n)
    return ask([template.format(*(_ARGUMENTS[a] for a in c)) for c in combinations]).replace(
        "#", "?"
    )


def _constant(found: str) -> str:
    kinds = set(found) - {"-"}
    return kinds.pop() if len(kinds) == 1 else "?"


def packed(found: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without what says nothing: answers that refuse nothing and are constant."""
    result = {k: v for k, v in found.items() if k in ("arity", "returns") and v != {}}
    for key in ("1", "2"):
        text = found.get(key, "")
        if len(set(text)) > 1 or (text and text[0] not in "?"):
            result[key] = text if len(set(text)) > 1 else text[0]
    return result


def _told(ask: Ask, name: str) -> dict[str, Any]:
    found = packed(facts_of_function(ask, name))
    print(name, json.dumps(found), flush=True)
    return found


def facts_of(ask: Ask, names: Iterable[str], operators: Iterable[str]) -> dict[str, Any]:
    """Ask about functions and operators. All of them take ten minutes."""
    asked, signs = sorted(names), list(operators)
    with ThreadPoolExecutor(2) as pool:
        functions = dict(zip(asked, pool.map(partial(_told, ask), asked), strict=True))
        found = dict(zip(signs, pool.map(partial(facts_of_operator, ask), signs), strict=True))
    return {"functions": functions, "operators": found}


def facts_of_operator(ask: Ask, sign: str) -> str:
    template = OPERATORS[sign]
    return answers(ask, template, template.count("{}"), LETTERS)


def written(facts: dict[str, Any]) -> str:
    """Return the text of the file: one line for each function."""
    lines = [f'{{"spark": {json.dumps(facts["spark"])},']
    for key in ("functions", "operators"):
        lines.append(f'"{key}": {{')
        items = [f"{json.dumps(n)}: {json.dumps(v)}" for n, v in sorted(facts[key].items())]
        lines.append(",\n".join(items))
        lines.append("}," if key == "functions" else "}}")
    return "\n".join(lines) + "\n"


def main(names: Sequence[str]) -> None:
    """Write what Spark says of all functions, or of some that are new."""
    # PySpark writes every refusal with its stack: there are tens of thousands.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    facts: dict[str, Any] = {"functions": {}, "operators": {}}
    if names:
        facts = json.loads(FACTS_FILE.read_text())
    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings(
            state_url=f"{folder}/state", scratch_dir=f"{folder}/scratch", master="local[2]"
        )
        spark = start_session(settings, parallelism=1, app_name="headgate facts")
        try:
            every = SPARK_FUNCTIONS - NOT_ASKED
            found = facts_of(asker(spark), names or every, () if names else OPERATORS)
            facts["spark"] = spark.version
        finally:
            spark.stop()
    for key in ("functions", "operators"):
        facts[key] |= found[key]
    FACTS_FILE.write_text(written(facts))


if __name__ == "__main__":
    main(sys.argv[1:])
