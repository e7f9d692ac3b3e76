"""Whom a client trusts when it speaks TLS with a service."""

from __future__ import annotations

import ssl

from headgate.core.errors import UserError


def trusting(ca: str | None) -> ssl.SSLContext:
    """Return how to check a service's certificate: with this authority, or the machine's own."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise UserError(
            f"cannot read the certificate of an authority '{ca}': {error}. Name a PEM file with the"
            " setting client.ca, or HEADGATE_CA",
            code="tls",
        ) from error


def not_trusted(url: str, error: Exception) -> UserError:
    """Return what to say about a certificate that was refused."""
    return UserError(
        f"the certificate of {url} is not to be trusted: {error}. If an authority of your own has"
        " signed it, name its PEM file with --ca, the setting client.ca, or HEADGATE_CA",
        code="tls",
    )
