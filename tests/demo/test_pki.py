"""The throw-away PKI: files, modes, and TLS with it."""

import asyncio
import ssl
from pathlib import Path

import pytest

from pyrbacproxy.demo.pki import Authority, client_context, server_context, write_secret


def test_keys_are_for_the_owner_alone(tmp_path: Path) -> None:
    pair = Authority(tmp_path).serving("proxy")
    assert [path.stat().st_mode & 0o777 for path in (pair.key_file, pair.combined_file)] == [
        0o600,
        0o600,
    ]
    assert (
        pair.combined_file.read_bytes()
        == pair.certificate_file.read_bytes() + pair.key_file.read_bytes()
    )


def test_a_secret_closes_a_file_that_was_open_to_all(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("longer than before")
    path.chmod(0o644)
    write_secret(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)


async def subject_seen(server: ssl.SSLContext, client: ssl.SSLContext) -> object:
    """Shake hands over loopback by address; returns the client's subject as the server sees it."""
    seen: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.set_result(writer.get_extra_info("peercert"))
        writer.close()

    listening = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        certificate = await seen
        writer.close()
    assert certificate is None or isinstance(certificate, dict)
    return certificate and certificate["subject"]


async def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.serving("server"), authority)
    client = client_context(authority, authority.client("c", "alice", ("dev", "ops")))
    assert await subject_seen(server, client) == (
        (("organizationName", "dev"),),
        (("organizationName", "ops"),),
        (("commonName", "alice"),),
    )


async def test_tls_without_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.serving("server"), authority)
    assert await subject_seen(server, client_context(authority)) is None


async def test_names_beside_loopback(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.serving("server", ["elsewhere.test"]), authority)
    with pytest.raises(ssl.SSLCertVerificationError):
        await subject_seen(server, client_context(authority))
