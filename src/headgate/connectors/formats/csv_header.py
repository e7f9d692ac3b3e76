"""The header of a csv file against the columns of its table. Pure, and pickled into tasks.

Values are told apart by their position alone. A header that names columns of the table in other
places therefore says that every row would be read wrongly, and no value need look wrong for it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from headgate.connectors.formats.options import FormatOptions
from headgate.core.errors import BadDataError
from headgate.operators import SourceSpec


@dataclass(frozen=True)
class CsvHeaderCheck:
    """Refuses a file whose header names a column of the table at another column's place.

    Names that the table does not have say nothing: a file may call its columns as it likes.
    """

    table: str
    columns: tuple[str, ...]
    delimiter: str

    def __call__(self, path: str, header: str) -> None:
        found = header_names(header, self.delimiter)
        places = {name.lower(): place for place, name in enumerate(self.columns)}
        named = ((places.get(name.lower()), place) for place, name in enumerate(found))
        if all(wanted is None or wanted == place for wanted, place in named):
            return
        raise BadDataError(
            f"'{path}': the header names the columns of table {self.table} in another order than "
            f"the table: found {', '.join(found)}; expected {', '.join(self.columns)}. Values of "
            "csv are told apart by their position: declare the columns in the order of the file, "
            "or write the file in the order of the table."
        )


def header_check(spec: SourceSpec, options: FormatOptions) -> CsvHeaderCheck | None:
    """Return the check of the files of a table; None if they have no header."""
    if options.format != "csv" or not options.csv_header:
        return None
    columns = tuple(c.name for c in spec.columns)
    return CsvHeaderCheck(spec.table, columns, options.csv_delimiter)


def header_names(header: str, delimiter: str) -> list[str]:
    """Return the names in a header line, without what surrounds them."""
    fields = next(csv.reader([header.lstrip("\ufeff")], delimiter=delimiter), [])
    return [field.strip() for field in fields]
