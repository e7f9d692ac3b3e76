"""S3 and what speaks its API.

Settings come from the usual environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP, ...), overridden by the URL's
query: `s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.store import S3Store as S3Backend

from headgate.core.errors import UserError
from headgate.storage.adapter import ObstoreAdapter, translated

_OPTIONS = {
    "endpoint": "endpoint",
    "region": "region",
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "virtual_hosted_style": "virtual_hosted_style_request",
    "skip_signature": "skip_signature",
}
# A whole request may carry a run of 128 MiB over a slow line; silence is noticed much earlier.
_REQUEST_TIMEOUT = timedelta(minutes=5)
_READ_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=5)


class S3Store(ObstoreAdapter):
    """The port over a bucket, or a folder in it."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        unknown = set(options) - set(_OPTIONS) - {"allow_http"}
        if unknown:
            raise UserError(
                f"unknown option of an s3:// URL: {', '.join(sorted(unknown))}; known are "
                f"{', '.join([*sorted(_OPTIONS), 'allow_http'])}",
                code="state_url",
            )
        config: dict[str, Any] = {_OPTIONS[k]: v for k, v in options.items() if k in _OPTIONS}
        endpoint = options.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
        if endpoint:
            config["endpoint"] = endpoint
        if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
            config.setdefault("region", "us-east-1")
        allow_http = options.get("allow_http", "").lower() == "true" or (
            # An endpoint written with http:// says that it is meant.
            endpoint.startswith("http://") and "allow_http" not in options
        )
        client: dict[str, Any] = {
            "timeout": _REQUEST_TIMEOUT,
            "read_timeout": _READ_TIMEOUT,
            "connect_timeout": _CONNECT_TIMEOUT,
        }
        if allow_http:
            client["allow_http"] = True
        with translated("open", f"s3://{bucket}"):
            backend = S3Backend(
                bucket,
                prefix=prefix or None,
                config=config,  # type: ignore[arg-type]
                client_options=client,  # type: ignore[arg-type]
                # Retries have one home, `RetryingStore`.
                retry_config={"max_retries": 0, "retry_timeout": _REQUEST_TIMEOUT},
            )
        super().__init__(backend)
