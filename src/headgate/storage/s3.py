"""S3 and what speaks its API.

Settings come from the usual environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, ...), overridden by the URL's
query: `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1`. The state of a job and
the folders of its connectors are both opened here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.exceptions import UnknownConfigurationKeyError
from obstore.store import S3Store as S3Backend

from headgate.core.errors import UserError
from headgate.storage.adapter import ObstoreAdapter, answered

# A whole request may carry a run of 128 MiB over a slow line; silence is noticed much earlier.
_REQUEST_TIMEOUT = timedelta(minutes=5)
_READ_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=5)


class S3Store(ObstoreAdapter):
    """The port over a bucket, or a folder in it. The options are those of obstore's `S3Config`."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        config, allow_http = _settings(options)
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


def _settings(options: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """Return obstore's settings, and whether a connection may be plain HTTP."""
    config: dict[str, Any] = {key.removeprefix("aws_"): value for key, value in options.items()}
    if "virtual_hosted_style" in config:
        config["virtual_hosted_style_request"] = config.pop("virtual_hosted_style")
    allow_http = config.pop("allow_http", None)
    endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        config["endpoint"] = endpoint
    if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
        config.setdefault("region", "us-east-1")
    if allow_http is None:
        # An endpoint written with http:// says that it is meant.
        return config, endpoint.startswith("http://")
    return config, str(allow_http).lower() == "true"
