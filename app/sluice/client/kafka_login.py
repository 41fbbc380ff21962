"""Why a secured cluster lets nobody in, in one line: aiokafka logs the reason and raises another error."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

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
    """`is_final`: asking again would not help, as the login or a certificate is refused. A closed connection,
    no answer and no token are not: so is a broker that starts or stops, and a proxy in front of one."""

    message: str
    is_final: bool = False


async def find_login_fault(cluster: KafkaCluster, within_s: float = PROBE_S) -> LoginFault | None:
    """Connect to all addresses at once and see why none lets us in. None: one does, or the connection is
    plain. A refusal goes before what may pass. Raises ValueError for addresses that are none."""
    if isinstance(cluster, str) or not cluster.is_secured:
        return None
    # Made before any address is asked: it raises for a file that cannot be used.
    arguments = {
        name: argument for name, argument in cluster.build_arguments().items() if name != "bootstrap_servers"
    }
    arguments["request_timeout_ms"] = int(within_s * 1000)
    addresses = list_addresses(cluster.bootstrap_servers)
    tries = {
        asyncio.create_task(_try_address(cluster, host, port, arguments)): f"{host}:{port}"
        for host, port in addresses
    }
    faults = []
    try:
        async with asyncio.timeout(within_s):
            for attempt in asyncio.as_completed(tries):
                fault = await attempt
                if fault is None:
                    return None
                faults.append(fault)
    except TimeoutError:
        silent = ", ".join(server for task, server in tries.items() if not task.done())
        faults.append(LoginFault(f"{silent} did not answer within {within_s:g} s"))
    finally:
        for attempt in tries:
            attempt.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    refused = next((login_fault for login_fault in faults if login_fault.is_final), None)
    return refused or LoginFault("; ".join(login_fault.message for login_fault in faults))


async def _try_address(
    cluster: KafkaConnection, host: str, port: int, arguments: dict[str, Any]
) -> LoginFault | None:
    server = f"{host}:{port}"
    try:
        connection = await create_conn(host, port, **arguments)
    except (KafkaError, OSError, TimeoutError) as error:
        return _explain(cluster, server, error)
    # aiokafka takes the refusal of a token, and TLS 1.3 that of a certificate, for a good connection. The
    # broker then closes it, or answers that it has no brokers.
    try:
        if (await connection.send(MetadataRequest([]))).brokers:
            return None
    except TimeoutError:
        return LoginFault(f"{server} answers no request")
    except (KafkaError, OSError):
        return _explain_closed(cluster, server)
    finally:
        connection.close()
    return _explain_closed(cluster, server, "names no brokers")


def _explain(cluster: KafkaConnection, server: str, error: Exception) -> LoginFault:
    mechanism = cluster.sasl_mechanism
    match error:
        case TokenUnavailable():
            return LoginFault(f"no token for {server}: {error.args[0]}")
        case ssl.SSLCertVerificationError():
            trusted = cluster.ca_file or "the CAs of this system"
            reason = error.verify_message
            fault = f"the certificate of {server} is not trusted by {trusted}: {reason}"
        case ssl.SSLError():
            reason = error.reason or "the handshake failed"
            return LoginFault(f"no TLS with {server}: {reason}", is_final=_is_certificate_refused(reason))
        case UnsupportedSaslMechanismError():
            fault = f"{server} does not offer {mechanism}"
        case SaslAuthenticationFailed():
            who = "the token" if mechanism == BEARER else f"user {cluster.username}"
            fault = f"{server} refuses {who} ({mechanism}): {error.args[0] if error.args else ''}"
        case KafkaConnectionError():
            return _explain_closed(cluster, server)
        case _:
            return LoginFault(f"{server} does not answer ({error.__class__.__name__})")
    return LoginFault(fault, is_final=True)


def _is_certificate_refused(reason: str) -> bool:
    """Whether OpenSSL's reason is the broker's alert about the client's certificate (RFC 8446, 6.2)."""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


def _explain_closed(cluster: KafkaConnection, server: str, what: str = "closed the connection") -> LoginFault:
    if cluster.sasl_mechanism == BEARER:
        return LoginFault(
            f"{server} refuses the token ({BEARER}) or {what}: it may be expired, or for another cluster"
        )
    if cluster.certificate_file is not None:
        return LoginFault(f"{server} {what}: it may not trust {cluster.certificate_file}")
    return LoginFault(
        f"{server} {what}: it may be starting, or ask for a client certificate or for another "
        f"security_protocol than {cluster.security_protocol}"
    )
