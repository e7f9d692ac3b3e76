"""Whose fault an error of Postgres is: whether to try again, or to tell the user."""

from __future__ import annotations

import psycopg

from headgate.connectors.secrets import Secrets
from headgate.core.errors import ExternalError, HeadgateError, UserError

# Classes of SQLSTATE that another try does not help: the data, the statement, rights, constraints.
_OF_THE_USER = ("0A", "21", "22", "23", "28", "2B", "2F", "3D", "3F", "42", "44", "P0")
# An error of connecting has no SQLSTATE. These words are the server's, if it speaks English;
# otherwise the job is restarted as after any other failure.
_REFUSED = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "invalid connection option",
    "invalid URI",
)


def explained(error: psycopg.Error, doing: str, secrets: Secrets) -> HeadgateError:
    """Return the error as one of ours, without secrets."""
    primary = error.diag.message_primary or str(error).strip() or type(error).__name__
    parts = [primary, error.diag.message_detail, error.diag.message_hint]
    text = secrets.scrub(". ".join(part.rstrip(".") for part in parts if part))
    state = error.sqlstate
    message = f"{doing}: {text}" + (f" (SQLSTATE {state})" if state else "")
    if state is None:
        if any(word in text for word in _REFUSED):
            return UserError(f"{message}. See the options 'url' and 'password'", code="postgres")
        return ExternalError(message, code="postgres")
    if state[:2] in _OF_THE_USER:
        return UserError(message, code="postgres")
    return ExternalError(message, code="postgres")
