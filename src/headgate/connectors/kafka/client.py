"""Settings of the client library, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headgate.connectors.kafka.config import KafkaConnection
from headgate.connectors.secrets import Secrets
from headgate.core.errors import ExternalError, HeadgateError, UserError

Settings = Mapping[str, Any]

# What a person has to change: to try again would not help.
_OF_THE_USER = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "topic_missing",
    KafkaError._UNKNOWN_TOPIC: "topic_missing",
    KafkaError._UNKNOWN_PARTITION: "topic_missing",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "authorization",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "authorization",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "authorization",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "authorization",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication",
    KafkaError._AUTHENTICATION: "authentication",
    KafkaError.MSG_SIZE_TOO_LARGE: "message_size",
    KafkaError._INVALID_ARG: "options",
}
_REMEDIES = {
    "topic_missing": "create it, or correct the option 'topic'",
    "authorization": "ask for the right to use it, or log in as somebody else",
    "authentication": "check auth.username, auth.password and auth.mechanism",
    "tls": "name who has signed it, with client.ssl.ca.location",
    "message_size": "raise max.message.bytes of the topic, and set client.message.max.bytes",
    "options": "check the options that begin with client.",
}
# Other failures of TLS may pass: a broker that goes away in the middle has the same number.
_UNTRUSTED = "certificate verify failed"


def client_settings(options: KafkaConnection, secrets: Secrets) -> dict[str, Any]:
    """Return what every client of the table needs, its secrets replaced by their values."""
    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "client.id": "headgate",
        # A broker that comes back is noticed soon.
        "reconnect.backoff.max.ms": 1_000,
        # The library would write to our standard error what we report ourselves.
        "log_level": 0,
    }
    if options.auth_type == "sasl":
        settings |= {
            "security.protocol": options.auth_protocol,
            "sasl.mechanisms": options.auth_mechanism,
            "sasl.username": secrets.resolve("auth.username", options.auth_username or ""),
            "sasl.password": secrets.resolve("auth.password", options.auth_password or ""),
        }
    for name, value in options.client.items():
        settings[name] = secrets.resolve(f"client.{name}", value)
    return settings


def explained(error: KafkaException | KafkaError, doing: str, secrets: Secrets) -> HeadgateError:
    """Return the library's error as one of ours: whose fault it is, and what to do."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    text = secrets.scrub(cause.str() if isinstance(cause, KafkaError) else str(cause))
    code = _OF_THE_USER.get(cause.code()) if isinstance(cause, KafkaError) else None
    if _UNTRUSTED in text:
        code = "tls"
    if code is not None:
        return UserError(f"{doing}: {text}: {_REMEDIES[code]}", code=code)
    return ExternalError(f"{doing}: {text}", code="kafka")
