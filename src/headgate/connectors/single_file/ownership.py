"""Whose a file is: a note beside it names the job, and the generation of the job that began it."""

from __future__ import annotations

import glob
import json
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import UserError
from headgate.core.ids import Generation, JobId
from headgate.storage.durable import sweep_temporaries, write_durable


@dataclass(frozen=True)
class Owner:
    job: JobId
    # The generation that began the file; 0 = the note does not say.
    generation: Generation


class Ownership:
    """The note of one file, as one worker sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = path.with_name(f".{path.name}.headgate.json")
        # Of this worker; None = nobody has said.
        self.generation: Generation | None = None

    def read(self) -> Owner | None:
        """Return who has claimed the file; None if nobody has."""
        try:
            data = self._note.read_bytes()
        except FileNotFoundError:
            return None
        try:
            value = json.loads(data)
            return Owner(JobId(value["job"]), Generation(int(value.get("generation", 0))))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"'{self._note}' says which job writes '{self._path}', but cannot be read "
                f"({error}): if it is this job, remove '{self._note}' and start again",
                code="target",
            ) from error

    def claim(self, job: JobId) -> None:
        sweep_temporaries(self._note.parent, f"{glob.escape(self._note.name)}.*")
        value = {"job": job, "generation": self.generation or 0}
        write_durable(self._note, json.dumps(value).encode())

    def check(self, job: JobId) -> None:
        """Refuse what belongs to another job, or to a later life of this one."""
        owner = self.read()
        if owner is not None and owner.job != job:
            raise UserError(
                f"'{self._path}' now belongs to job {owner.job}: give this job another path",
                code="target",
            )
        self._check_generation(owner)

    def check_not_begun_since(self, job: JobId) -> None:
        """Refuse to begin what a later worker of this job has begun already."""
        try:
            owner = self.read()
        except UserError:
            # It is damaged, and the file is to be replaced, whosever it was.
            return
        if owner is not None and owner.job == job:
            self._check_generation(owner)

    def _check_generation(self, owner: Owner | None) -> None:
        if owner is None or self.generation is None or owner.generation <= self.generation:
            return
        raise UserError(
            f"generation {owner.generation} of this job has begun '{self._path}', so generation "
            f"{self.generation} must not write to it: it should have ended. If the state of the "
            f"job was removed since, and its generations began anew, remove '{self._note}'",
            code="target",
        )
