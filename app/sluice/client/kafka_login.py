"""Why a secured cluster lets nobody in, in one line: aiokafka logs the reason and raises another error."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from sluice.client.kafka_connection import BEARER, list_addresses
from sluice.client.token_sources import TokenUnavailable

if TYPE_CHECKING:
    from sluice.client.kafka_connection import KafkaCluster, KafkaConnection

PROBE_S = 10.0


class LoginFault(NamedTuple):
    """`is_final`: asking again would not help."""

    message: str
    is_final: bool = True


async def find_login_fault(cluster: KafkaCluster, within_s: float = PROBE_S) -> LoginFault | None:
    """Connect once and see why that fails. None: it works, or nobody listens, or the connection is plain.
    Raises ValueError for addresses that are none."""
    if isinstance(cluster, str) or not cluster.is_secured:
        return None
    for host, port in list_addresses(cluster.bootstrap_servers):
        fault = await _try_address(cluster, host, port, within_s)
        if fault is not None:
            return fault
    return None


async def _try_address(cluster: KafkaConnection, host: str, port: int, within_s: float) -> LoginFault | None:
    arguments = {name: one for name, one in cluster.build_arguments().items() if name != "bootstrap_servers"}
    try:
        connection = await create_conn(host, port, request_timeout_ms=int(within_s * 1000), **arguments)
    except (KafkaError, OSError, TimeoutError) as error:
        return _explain(cluster, f"{host}:{port}", error)
    # aiokafka takes the refusal of a token, and TLS 1.3 that of a certificate, for a good connection. The
    # broker then closes it, or answers that it has no brokers.
    try:
        has_brokers = bool((await connection.send(MetadataRequest([]))).brokers)
    except (KafkaError, OSError, TimeoutError):
        has_brokers = False
    finally:
        connection.close()
    return None if has_brokers else _explain_closed(cluster, f"{host}:{port}")


def _explain(cluster: KafkaConnection, server: str, error: Exception) -> LoginFault | None:
    mechanism = cluster.sasl_mechanism
    match error:
        case TokenUnavailable():
            return LoginFault(f"no token for {server}: {error.args[0]}", is_final=False)
        case ssl.SSLCertVerificationError():
            trusted = cluster.ca_file or "the CAs of this system"
            reason = error.verify_message
            fault = f"the certificate of {server} is not trusted by {trusted}: {reason}"
        case ssl.SSLError():
            fault = f"no TLS with {server}: {error.reason or 'the handshake failed'}"
        case UnsupportedSaslMechanismError():
            fault = f"{server} does not offer {mechanism}"
        case SaslAuthenticationFailed():
            who = "the token" if mechanism == BEARER else f"user {cluster.username}"
            fault = f"{server} refuses {who} ({mechanism}): {error.args[0] if error.args else ''}"
        case KafkaConnectionError():
            return _explain_closed(cluster, server)
        case _:
            return None
    return LoginFault(fault)


def _explain_closed(cluster: KafkaConnection, server: str) -> LoginFault:
    if cluster.sasl_mechanism == BEARER:
        return LoginFault(f"{server} refuses the token ({BEARER}): it is expired, or not for this cluster")
    if cluster.certificate_file is not None:
        return LoginFault(f"{server} closed the connection: it may not trust {cluster.certificate_file}")
    return LoginFault(
        f"{server} closed the connection: it may ask for a client certificate, or for another "
        f"security_protocol than {cluster.security_protocol}"
    )
