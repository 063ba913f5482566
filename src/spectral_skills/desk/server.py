"""A viser server where it was asked for, or a clear word on why not."""

import errno
import io
import socket
from contextlib import redirect_stdout

import viser

PORT = 8080
_PORTS_TRIED = 50


def open_server(host: str, port: int | None) -> viser.ViserServer:
    """A server on a port, or on the first free one if none is asked for."""
    if port is not None and not 0 < port < 1 << 16:
        raise ValueError(f"port {port}, must be 1 to 65535")
    chosen = port if port is not None else PORT
    if port is None:
        while not _free(host, chosen) and chosen < PORT + _PORTS_TRIED:
            chosen += 1
    if not _free(host, chosen):
        raise ValueError(
            f"port {chosen} of {host} is taken; stop what uses it, or open the desk on "
            f"another: --port {chosen + 1}"
        )
    with redirect_stdout(io.StringIO()):  # it draws a box of its own
        server = viser.ViserServer(host=host, port=chosen, verbose=False)
    if port is not None and server.get_port() != port:
        server.stop()
        raise ValueError(f"port {port} of {host} was taken a moment ago; try again")
    # A public address through somebody else's machine is nothing a page may ask for.
    server.request_share_url = lambda verbose=True: None  # type: ignore
    return server


def _free(host: str, port: int) -> bool:
    """Whether a port can be bound; says so if the host itself cannot."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ValueError(f"cannot open {host} port {port}: {error}") from None
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind(address)
        except PermissionError:
            raise ValueError(
                f"port {port} needs rights; take one from 1024 on"
            ) from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(f"{host} is no address of this machine") from None
            return False
    return True


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    here = host in ("127.0.0.1", "::1", "0.0.0.0", "::")
    return f"http://{'localhost' if here else host}:{port}"
