"""`headgate state`: SQL over what the operators remember."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from headgate.cli.inspection.opened import (
    EPOCH_HELP,
    AsJson,
    JobName,
    StateDir,
    find_epoch,
    open_job,
)
from headgate.cli.render import count, print_json, print_table, standard_console
from headgate.core.ids import Epoch, JobId
from headgate.state.recovery.examine import Examiner

ROWS_MAX = 1000


def state(
    sql: Annotated[str | None, typer.Argument(help="A query, e.g. 'SELECT * FROM bins'.")] = None,
    state_dir: StateDir = None,
    job: JobName = None,
    epoch: Annotated[str, typer.Option(help=EPOCH_HELP)] = "latest",
    tables: Annotated[
        bool, typer.Option("--tables", help="List the tables and their columns.")
    ] = False,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Add the columns _hash and _subtask to every table.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=0, help="Most rows to print; 0 = all of them.")
    ] = ROWS_MAX,
    as_json: AsJson = False,
) -> None:
    """Query the state tables of a checkpoint with SQL.

    Rows are the state as the operators see it: the newest row of each key, nothing deleted or
    expired, all subtasks together. Exit codes: 0 answered, 1 failed, 2 refused SQL.
    """
    from headgate.state.inspection.logical import StateReader, tables_of
    from headgate.state.inspection.query import named_tables, plain_rows, run_query

    if (sql is None) != tables:
        raise typer.BadParameter("give either a query or --tables", param_hint="SQL")
    opened = open_job(state_dir, job)
    chosen = find_epoch(opened, epoch)
    examiner = Examiner(opened.store, opened.job)
    found = named_tables(tables_of(examiner.metadata(examiner.manifest(chosen))))
    if sql is None:
        listed = [_described(named, hidden=hidden) for named in found]
        _show_tables(opened.job, chosen, listed, as_json=as_json)
        return
    with StateReader(opened.store) as reader:
        # One more than is shown tells whether there are more.
        answer = run_query(reader, found, sql, hidden=hidden, rows_max=limit + 1 if limit else None)
    more = bool(limit) and answer.height > limit
    rows = plain_rows(answer.head(limit) if more else answer)
    columns = {name: str(kind) for name, kind in answer.schema.items()}
    if as_json:
        document = {"job": opened.job, "epoch": chosen, "columns": columns}
        print_json({**document, "rows": rows, "truncated": more})
        return
    console = standard_console()
    figures = [name for name, kind in answer.schema.items() if kind.is_numeric()]
    print_table(console, list(columns), [[*row.values()] for row in rows], right=figures)
    shown = f"first {limit:,} rows (see --limit)" if more else count(len(rows), "row")
    console.print(f"\n[dim]{shown}, epoch {chosen} of job {opened.job}[/]")


def _described(named: Any, *, hidden: bool) -> dict[str, Any]:
    """Describe one table (a `NamedTable`) for people and programs."""
    table = named.table
    runs = table.runs.values()
    return {
        "name": named.names[-1],
        "names": list(named.names),
        "operator": table.operator,
        "operator_kind": table.operator_kind,
        "kind": "bag" if table.state.bag else table.state.kind,
        "keys": list(table.state.keys),
        "columns": {field.name: str(field.type) for field in named.columns(hidden=hidden)},
        # Versions and deleted rows included: what is left of them only a scan can tell.
        "stored_rows": sum(run.rows for run in runs),
        "stored_bytes": sum(run.bytes for run in runs),
        "runs": len(table.runs),
    }


def _show_tables(job: JobId, epoch: Epoch, listed: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json({"job": job, "epoch": epoch, "tables": listed})
        return
    console: Console = standard_console()
    if not listed:
        console.print(f"epoch {epoch} of job {job} has no state tables")
    for table in listed:
        others = [name for name in table["names"] if name != table["name"]]
        console.print(f"[bold]{table['name']}[/]" + (f"  or {', '.join(others)}" if others else ""))
        by = f" by {', '.join(table['keys'])}" if table["keys"] else ""
        console.print(
            f"  {table['kind']}{by}, of {table['operator']} ({table['operator_kind']}); "
            f"{count(table['stored_rows'], 'stored row')} in {count(table['runs'], 'run')}",
            markup=False,
        )
        shown = ", ".join(f"{name} {kind}" for name, kind in table["columns"].items())
        console.print(f"  {shown}", markup=False)
