"""The single_file connector as a lookup table: the lines of one file."""

from __future__ import annotations

import os

from headgate.connectors.lookup import SourceLookup, digest_of
from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileLookupOptions
from headgate.connectors.single_file.source import SingleFileSource
from headgate.core.errors import UserError
from headgate.operators import LookupJoinSpec
from headgate.storage.folder import local_path


class SingleFileLookup(SourceLookup):
    """The rows that the file has when it is read. Replace it by a rename: it is read whole."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        super().__init__(spec, SingleFileSource)
        self._path = local_path(parse_options(SingleFileLookupOptions, spec.options).path)

    def version(self) -> str:
        try:
            found = os.stat(self._path)
        except FileNotFoundError as error:
            raise UserError(f"there is no file '{self._path}'", code="path") from error
        return digest_of((found.st_size, found.st_mtime_ns, found.st_ino))
