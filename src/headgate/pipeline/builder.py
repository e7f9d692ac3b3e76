"""`Pipeline`: tables, queries and code, one call after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.pipeline.functions import FunctionTexts
from headgate.pipeline.text import (
    Columns,
    Option,
    interval_text,
    key_clause,
    name_text,
    statement_text,
    table_text,
    watermark_clause,
)

if TYPE_CHECKING:
    from headgate.pipeline.run import RunResult
    from headgate.process import ProcessOperator

F = TypeVar("F", bound=Callable[..., Any])


class Pipeline:
    """A pipeline under construction. Every call adds a statement and returns the pipeline.

    The statements are those of the SQL text that `to_sql` returns, in the order of the calls:
    what is read must be declared before. Nothing is checked before `plan` or `run`.

    Names may be anything; columns are given as `{name: type}`, where the type is a Python class
    (`int`, `str`, `datetime`, ...) or SQL text with whatever SQL allows after a column's name.
    Options of a connector are keyword arguments, or `options` if a key is no Python name.
    """

    def __init__(self, name: str) -> None:
        # With the state dir it says which job is meant by "the same".
        self.name = name
        self._statements: list[str] = []
        self._functions = FunctionTexts()

    # ---- tables ------------------------------------------------------------------------------

    def source(
        self,
        name: str,
        *,
        connector: str,
        columns: Columns | None = None,
        event_time: str | None = None,
        watermark: str | timedelta | None = None,
        primary_key: str | Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
        **more: Option,
    ) -> Self:
        """Declare a table to read.

        `event_time` is the column with the rows' time, `watermark` how late a row may be (or an
        SQL expression); without it the watermark is the event time itself.
        """
        clauses = [*watermark_clause(event_time, watermark), *key_clause(primary_key)]
        given = {"connector": connector, "type": "source", **(options or {}), **more}
        return self._add(table_text(name, columns=columns, clauses=clauses, options=given))

    def sink(
        self,
        name: str,
        query: str | None = None,
        *,
        connector: str,
        columns: Columns | None = None,
        primary_key: str | Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
        **more: Option,
    ) -> Self:
        """Declare a table to write and, with `query`, what is written into it.

        Without columns it takes those of the query.
        """
        given = {"connector": connector, "type": "sink", **(options or {}), **more}
        clauses = key_clause(primary_key)
        self._add(table_text(name, columns=columns, clauses=clauses, options=given))
        return self if query is None else self.insert(name, query)

    def lookup(
        self,
        name: str,
        *,
        connector: str,
        columns: Columns,
        primary_key: str | Sequence[str],
        options: Mapping[str, Option] | None = None,
        **more: Option,
    ) -> Self:
        """Declare a lookup table: the right side of joins on its primary key."""
        given = {"connector": connector, **(options or {}), **more}
        clauses = key_clause(primary_key)
        text = table_text(name, columns=columns, clauses=clauses, options=given, temporary=True)
        return self._add(text)

    # ---- queries -----------------------------------------------------------------------------

    def view(self, name: str, query: str) -> Self:
        """Name a query."""
        return self._add(f"CREATE VIEW {name_text(name)} AS\n{statement_text(query)}")

    def insert(self, name: str, query: str) -> Self:
        """Write the rows of a query into a sink; several queries may write into one."""
        return self._add(f"INSERT INTO {name_text(name)}\n{statement_text(query)}")

    def preview(self, query: str) -> Self:
        """Show the rows of a query on the terminal."""
        return self._add(statement_text(query))

    def sql(self, statements: str) -> Self:
        """Add SQL as it stands: one statement or several, whatever docs/sql.md has."""
        return self._add(statement_text(statements))

    def updating_ttl(self, length: timedelta) -> Self:
        """Set how long the updating operators of later queries remember an unchanged key."""
        return self._add(f"SET updating_ttl = {interval_text(length)}")

    # ---- code --------------------------------------------------------------------------------

    def process(
        self,
        name: str,
        operator: type[ProcessOperator] | str,
        *,
        input: str,
        columns: Columns,
        keys: Sequence[str] = (),
    ) -> Self:
        """Name the rows that a process operator makes of a table or view.

        `operator` is the class, or `'file.py:Class'`; `columns` are those it returns. The file is
        read where the tasks run: on a cluster it must be on storage that all executors reach.
        """
        code = operator if isinstance(operator, str) else _code_of(operator)
        options: dict[str, Option] = {"process": code, "input": input, "keys": list(keys)}
        return self._add(table_text(name, columns=columns, options=options))

    @overload
    def udf(self, function: F) -> F: ...
    @overload
    def udf(self, *, vectorized: bool = False) -> Callable[[F], F]: ...
    def udf(self, function: F | None = None, *, vectorized: bool = False) -> F | Callable[[F], F]:
        """Make a function known to SQL by its name; as a decorator, or called with it.

        The function must stand at the top level of a file, with type hints. Its text and what it
        uses of that file are sent to the workers.
        """

        def mark(marked: F) -> F:
            self._functions.add(marked, "udf(vectorized=True)" if vectorized else "udf")
            return marked

        return mark if function is None else mark(function)

    def udaf(self, function: F) -> F:
        """Make an aggregate known to SQL: a function of the lists of its arguments' values."""
        self._functions.add(function, "udaf")
        return function

    def udf_file(self, path: str | Path) -> Self:
        """Make all functions of a file known that are marked with `@udf` or `@udaf`."""
        try:
            self._functions.add_file(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the UDF file '{path}': {error}", code="udf") from error
        return self

    # ---- what comes of it --------------------------------------------------------------------

    @property
    def udf_source(self) -> str | None:
        """Return the Python file with the functions that the workers run; None without any."""
        return self._functions.source

    def to_sql(self) -> str:
        """Return the pipeline as SQL: `headgate run` of this text is the same pipeline."""
        return "".join(f"{statement};\n\n" for statement in self._statements)

    def plan(self) -> PipelineGraph:
        """Return the graph. Raises `SqlError` with the position in `to_sql()`."""
        from headgate.planner import plan

        return plan(self.to_sql(), udf_source=self.udf_source)

    def explain(self) -> str:
        """Return the graph for people, as `headgate plan` shows it."""
        from headgate.planner.explain import explain

        return explain(self.plan())

    def run(
        self,
        *,
        state_dir: str | Path | None = None,
        parallelism: int | None = None,
        checkpoint_interval: str | int | float | None = None,
        max_batch_rows: int | None = None,
        master: str | None = None,
        spark: Mapping[str, str] | None = None,
        allow_drop_state: Sequence[str] = (),
        allow_skip_published: bool = False,
        config: Path | None = None,
        name: str | None = None,
        quiet: bool = False,
    ) -> RunResult:
        """Run until the data ends or Ctrl-C stops it; resume where the same name left off.

        Everything that is not given comes from `headgate.toml` and the environment, as for
        `headgate run`. Raises `SqlError` for a wrong query and `PipelineFailed` if it fails.
        """
        from headgate.pipeline.run import RunRequest, run_pipeline

        return run_pipeline(
            RunRequest(
                name=name or self.name,
                sql=self.to_sql(),
                udf_source=self.udf_source,
                state_dir=None if state_dir is None else str(state_dir),
                parallelism=parallelism,
                checkpoint_interval=checkpoint_interval,
                max_batch_rows=max_batch_rows,
                master=master,
                spark=dict(spark or {}),
                allow_drop_state=tuple(allow_drop_state),
                allow_skip_published=allow_skip_published,
                config=config,
                quiet=quiet,
            )
        )

    def _add(self, statement: str) -> Self:
        if not statement:
            raise UserError("the SQL is empty", code="pipeline")
        self._statements.append(statement)
        return self


def _code_of(operator: type[ProcessOperator]) -> str:
    if operator.__qualname__ != operator.__name__:
        raise UserError(
            f"the class {operator.__qualname__} must stand at the top level of its file: workers "
            "find it there by its name",
            code="pipeline",
        )
    try:
        return f"{Path(inspect.getfile(operator)).absolute()}:{operator.__name__}"
    except (OSError, TypeError) as error:
        raise UserError(
            f"the class {operator.__name__} is not in a file that workers could read",
            code="pipeline",
        ) from error
