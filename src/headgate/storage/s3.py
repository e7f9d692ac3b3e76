"""S3 and what speaks its API.

Settings come from the usual environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, ...), overridden by the URL's
query: `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1`. The state of a job and
the folders of its connectors are both opened here.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.exceptions import UnknownConfigurationKeyError
from obstore.store import S3Store as S3Backend

from headgate.core.errors import ObjectExists, UserError
from headgate.storage.adapter import ObstoreAdapter, answered

# A whole request may carry a run of 128 MiB over a slow line; silence is noticed much earlier.
_REQUEST_TIMEOUT = timedelta(minutes=5)
_READ_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=5)


# The stores that were found to refuse a second create, by where they are.
_fit: set[tuple[str, str, str]] = set()
_fit_lock = threading.Lock()


class S3Store(ObstoreAdapter):
    """The port over a bucket, or a folder in it. The options are those of obstore's `S3Config`."""

    # Of one caller: see `side_by_side.py`. S3 takes thousands a second below one prefix.
    requests_at_once = 16

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        config, allow_http = _settings(options)
        self._where = (str(config.get("endpoint", "")), bucket, prefix)
        client: dict[str, Any] = {
            "timeout": _REQUEST_TIMEOUT,
            "read_timeout": _READ_TIMEOUT,
            "connect_timeout": _CONNECT_TIMEOUT,
        }
        if allow_http:
            client["allow_http"] = True
        with answered("open", f"s3://{bucket}"):
            try:
                backend = S3Backend(
                    bucket,
                    prefix=prefix or None,
                    config=config,  # type: ignore[arg-type]
                    client_options=client,  # type: ignore[arg-type]
                    # Retries have one home, `RetryingStore`.
                    retry_config={"max_retries": 0, "retry_timeout": _REQUEST_TIMEOUT},
                )
            except UnknownConfigurationKeyError as error:
                raise UserError(
                    f"unknown option of s3://{bucket}: {str(error).partition(chr(10))[0]} Known "
                    "are endpoint, region, access_key_id, secret_access_key, session_token, "
                    "virtual_hosted_style_request, skip_signature, allow_http and obstore's others",
                    code="state_url",
                ) from error
        super().__init__(backend)

    def create(self, path: str, data: bytes) -> None:
        self._check_create_once()
        super().create(path, data)

    def _check_create_once(self) -> None:
        """Refuse a store that ignores the condition of a create, before anything relies on it.

        Some servers of the S3 API do: they answer each `If-None-Match: *` with a success. Create
        is the only fence there is, so two controllers would both believe that they go on alone.
        Asked once per process and store.
        """
        with _fit_lock:
            if self._where in _fit:
                return
            probe = f".headgate/create-once-{uuid.uuid4().hex}"
            super().create(probe, b"first")
            try:
                super().create(probe, b"second")
            except ObjectExists:
                _fit.add(self._where)
            else:
                endpoint, bucket, _ = self._where
                raise UserError(
                    f"s3://{bucket}{f' at {endpoint}' if endpoint else ''} creates an object that "
                    "exists already: it ignores 'If-None-Match: *', without which two controllers "
                    "can both record a checkpoint. Keep the state in a store that honours it.",
                    code="store_unfit",
                )
            finally:
                self.delete(probe)


def endpoint_of(options: Mapping[str, str]) -> str:
    """Return the server that is asked; empty = Amazon's."""
    given = options.get("endpoint") or options.get("aws_endpoint")
    return given or os.environ.get("AWS_ENDPOINT_URL", "")


def _settings(options: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """Return obstore's settings, and whether a connection may be plain HTTP."""
    config: dict[str, Any] = {key.removeprefix("aws_"): value for key, value in options.items()}
    if "virtual_hosted_style" in config:
        config["virtual_hosted_style_request"] = config.pop("virtual_hosted_style")
    allow_http = config.pop("allow_http", None)
    endpoint = endpoint_of(options)
    if endpoint:
        config["endpoint"] = endpoint
    if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
        config.setdefault("region", "us-east-1")
    if allow_http is None:
        # An endpoint written with http:// says that it is meant.
        return config, endpoint.startswith("http://")
    return config, str(allow_http).lower() == "true"
