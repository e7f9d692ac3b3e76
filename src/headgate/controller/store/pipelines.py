"""The texts of pipelines, by name. A job keeps the text it was started with; this is the newest."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from headgate.controller.store.dialects import put
from headgate.controller.store.tables import READING, jobs, pipelines
from headgate.core.errors import UserError
from headgate.core.model import model


@model
class StoredPipeline:
    """A pipeline as the database knows it."""

    name: str
    sql: str
    udf_source: str | None
    created_ms: int
    updated_ms: int


class PipelineStore:
    """Every method is one transaction. Database errors are SQLAlchemy's own exceptions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, name: str, sql: str, udf_source: str | None, now_ms: int) -> None:
        """Store a new pipeline; raises `UserError` if the name is taken."""
        row = {"name": name, "sql": sql, "udf_source": udf_source}
        try:
            with self._engine.begin() as connection:
                connection.execute(
                    sa.insert(pipelines).values(**row, created_ms=now_ms, updated_ms=now_ms)
                )
        except IntegrityError as error:
            raise UserError(
                f"there is already a pipeline {name}", code="pipeline_exists"
            ) from error

    def put(self, name: str, sql: str, udf_source: str | None, now_ms: int) -> None:
        """Store a pipeline, or change its text."""
        with self._engine.begin() as connection:
            put_pipeline(connection, name, sql, udf_source, now_ms)

    def get(self, name: str) -> StoredPipeline:
        """Return the pipeline. Raises `UserError` if there is none of this name."""
        with self._engine.connect().execution_options(**{READING: True}) as connection:
            query = sa.select(pipelines).where(pipelines.c.name == name)
            row = connection.execute(query).first()
        if row is None:
            raise UserError(f"there is no pipeline {name}", code="no_such_pipeline")
        return _stored(row)

    def list(self) -> list[StoredPipeline]:
        """Return the pipelines, by name."""
        with self._engine.connect().execution_options(**{READING: True}) as connection:
            rows = connection.execute(sa.select(pipelines).order_by(pipelines.c.name)).all()
        return [_stored(row) for row in rows]

    def delete(self, name: str) -> None:
        """Forget a pipeline that has no jobs. Raises `UserError` if it has some."""
        with self._engine.begin() as connection:
            count = sa.select(sa.func.count()).select_from(jobs).where(jobs.c.pipeline == name)
            if connection.execute(count).scalar_one() > 0:
                raise UserError(
                    f"pipeline {name} has jobs: stop and delete them first", code="pipeline_in_use"
                )
            gone = connection.execute(sa.delete(pipelines).where(pipelines.c.name == name))
            if gone.rowcount == 0:
                raise UserError(f"there is no pipeline {name}", code="no_such_pipeline")


def put_pipeline(
    connection: Connection, name: str, sql: str, udf_source: str | None, now_ms: int
) -> None:
    """Store a pipeline, or change its text, within a transaction."""
    text = {"sql": sql, "udf_source": udf_source, "updated_ms": now_ms}
    put(connection, pipelines, {"name": name}, text, first={"created_ms": now_ms})


def _stored(row: sa.Row[tuple[object, ...]]) -> StoredPipeline:
    return StoredPipeline(**row._mapping)
