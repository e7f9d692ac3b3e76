"""The filesystem connector as a lookup table: all files of a folder."""

from __future__ import annotations

import re

from headgate.connectors.filesystem.config import FilesystemLookupOptions
from headgate.connectors.filesystem.source import FilesystemSource, is_visible
from headgate.connectors.lookup import SourceLookup, digest_of
from headgate.connectors.options import parse_options
from headgate.core.errors import UserError
from headgate.operators import LookupJoinSpec
from headgate.storage.folder import open_folder


class FilesystemLookup(SourceLookup):
    """The rows of every file that is in the folder when they are read."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        super().__init__(spec, FilesystemSource)
        options = parse_options(FilesystemLookupOptions, spec.options)
        self._path = options.path
        self._folder = open_folder(options.path, options.storage)
        self._pattern = re.compile(options.regex_pattern or "")

    def version(self) -> str:
        if not self._folder.exists():
            raise UserError(
                f"there is no folder '{self._path}': create it, or correct 'path'", code="path"
            )
        return digest_of(
            sorted(
                (f.path, f.bytes, f.modified_us)
                for f in self._folder.list()
                if is_visible(f.path) and self._pattern.search(f.path)
            )
        )
