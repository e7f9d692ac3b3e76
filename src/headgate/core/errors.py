"""Every error that Headgate raises on purpose.

    HeadgateError
    ├── UserError                the query, the data or the settings are wrong: no retry
    │   ├── SqlError             with line and column
    │   ├── BadDataError         a row that cannot be read, and bad_data = 'fail'
    │   └── UdfError             user code raised
    ├── ExternalError            something outside did not answer: retried with backoff
    │   └── StorageError
    │       ├── ObjectNotFound
    │       └── ObjectExists     create-if-absent found an object: an expected outcome
    └── InternalError            a defect or a damaged file
        └── CheckpointInvalid    a checkpoint that may not be used: set aside, never fatal by itself

Each carries a domain, a retry hint and a stable code; the message says what to do next.
"""

from __future__ import annotations

from enum import StrEnum

from headgate.core.model import model
from headgate.core.space import NO_SPACE, is_no_space, no_space


class ErrorDomain(StrEnum):
    USER = "user"
    EXTERNAL = "external"
    INTERNAL = "internal"


class RetryHint(StrEnum):
    NO_RETRY = "no_retry"
    WITH_BACKOFF = "with_backoff"


@model
class ErrorInfo:
    """An error as data: what travels in messages and is kept in the job's history."""

    message: str
    domain: ErrorDomain = ErrorDomain.INTERNAL
    retry: RetryHint = RetryHint.WITH_BACKOFF
    code: str = "internal"
    operator: str | None = None
    detail: str | None = None


class HeadgateError(Exception):
    """Base of every deliberate error."""

    domain: ErrorDomain = ErrorDomain.INTERNAL
    retry: RetryHint = RetryHint.WITH_BACKOFF
    code: str = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        operator: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operator = operator
        self.detail = detail
        if code is not None:
            self.code = code

    def info(self) -> ErrorInfo:
        """Return this error as data."""
        return ErrorInfo(
            message=self.message,
            domain=self.domain,
            retry=self.retry,
            code=self.code,
            operator=self.operator,
            detail=self.detail,
        )


class UserError(HeadgateError):
    domain = ErrorDomain.USER
    retry = RetryHint.NO_RETRY
    code = "user"


class SqlError(UserError):
    """A refused SQL text. `line` and `column` are 1-based; None if no position is known.

    It is the first error of a text; `others` are those that have nothing to do with it.
    """

    code = "sql"

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        others: tuple[SqlError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.others = others

    def every(self) -> list[SqlError]:
        """Return all errors of the text, this one first."""
        return [self, *(e for other in self.others for e in other.every())]


class BadDataError(UserError):
    code = "bad_data"


class UdfError(UserError):
    code = "udf"


class ExternalError(HeadgateError):
    domain = ErrorDomain.EXTERNAL
    code = "external"


class StorageError(ExternalError):
    code = "storage"


class ObjectNotFound(StorageError):
    code = "object_not_found"


class ObjectExists(StorageError):
    code = "object_exists"


class InternalError(HeadgateError):
    code = "internal"


class CheckpointInvalid(InternalError):
    """`code` says how: missing, truncated, corrupt, foreign, future_version, inconsistent."""

    code = "checkpoint_invalid"


# The codes of what is damaged. A newer version's state is not: it is whole, and not for us.
DAMAGE_CODES = frozenset(
    {"checkpoint_invalid", "missing", "truncated", "corrupt", "foreign", "inconsistent"}
)


def error_info(error: BaseException) -> ErrorInfo:
    """Describe any exception; what we did not raise ourselves is internal and is retried."""
    if isinstance(error, HeadgateError):
        return error.info()
    if is_no_space(error):
        path = getattr(error, "filename", None) or error
        return ErrorInfo(message=no_space(path), domain=ErrorDomain.EXTERNAL, code=NO_SPACE)
    return ErrorInfo(message=f"{type(error).__name__}: {error}", code="unexpected")
