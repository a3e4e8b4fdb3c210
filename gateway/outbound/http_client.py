"""The one outbound door: HTTP/1.1 requests to upstreams, bounded in time and bytes.

Works on plain ``socket`` and ``ssl``, patched by gevent or not. It follows no redirects, reads no
proxy from the environment, keeps no cookies, and adds no credentials.
"""

import os
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial

from gateway.outbound.connection import Connection, Pool
from gateway.outbound.dialing import Dialer, Resolver
from gateway.outbound.errors import (
    Disconnected,
    FirstByteTimeout,
    MalformedReply,
)
from gateway.outbound.exchange import AbortHandle, Exchange, Limits, Origin, Request, request_head
from gateway.outbound.reply import Reply
from gateway.outbound.reply_reader import WireFault

__all__ = ["AbortHandle", "HttpClient", "Limits", "Origin", "Reply"]


class HttpClient:
    """Sends requests over pooled connections. One per process; safe under threads and greenlets.

    At most ``pool_size_per_origin`` idle connections are kept per origin, each for
    ``idle_keep_s``. ``proxy`` is an ``http://host:port`` of the operator's. ``address_allowed``
    may veto each numeric address just before it is dialled. ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        *,
        pool_size_per_origin: int = 200,
        idle_keep_s: float = 30,
        proxy: str | None = None,
        address_allowed: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool_size_per_origin = pool_size_per_origin
        self._idle_keep_s = idle_keep_s
        self._proxy = Origin.parse(proxy) if proxy is not None else None
        if self._proxy is not None and (self._proxy.is_tls or self._proxy.path_prefix):
            raise ValueError("a proxy is given as http://host:port")
        self._address_allowed = address_allowed
        self._clock = clock
        self.reset()
        _CLIENTS.add(self)

    def send(
        self,
        origin: Origin,
        *,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        limits: Limits,
        deadline: float,
        abort_handle: AbortHandle | None = None,
    ) -> Reply:
        """Send one request and return when the head of its answer is complete.

        ``deadline`` is the moment of the door's clock at which the whole call ends, the reading of
        the body included. ``abort_handle`` lets someone else end the call before there is a reply
        to abort. A pooled connection that dies before any byte of an answer is replaced once by a
        fresh one. Raises an OutboundError for the upstream's failings, ValueError for a request
        that must not be sent.
        """
        request = Request(
            head=request_head(
                origin,
                method=method,
                path=path,
                headers=headers,
                body_bytes=len(body),
                absolute_form=self._proxy is not None and not origin.is_tls,
            ),
            body=body,
            is_head=method == "HEAD",
        )
        exchange = Exchange(request, self._clock, deadline, limits, abort_handle or AbortHandle())
        give_back = partial(self._pool.put, origin.pool_key)
        pooled = self._pool.take(origin.pool_key)
        if pooled is not None:
            try:
                return _send_over(pooled, exchange, give_back, reused=True, retried_fresh=False)
            except Disconnected as error:
                if error.bytes_received:
                    raise
        fresh = Connection(self._dialer.dial(origin, exchange))
        return _send_over(
            fresh, exchange, give_back, reused=False, retried_fresh=pooled is not None
        )

    def close_idle(self) -> None:
        """Close every idle connection. Calls in flight go on."""
        self._pool.close_all()

    def reset(self) -> None:
        """Begin with nothing open. A forked child must not speak over its parent's sockets."""
        self._pool = Pool(
            size_per_origin=self._pool_size_per_origin,
            idle_keep_s=self._idle_keep_s,
            clock=self._clock,
        )
        self._dialer = Dialer(
            resolver=Resolver(self._clock),
            proxy=self._proxy,
            address_allowed=self._address_allowed,
        )


def _send_over(
    connection: Connection,
    exchange: Exchange,
    give_back: Callable[[Connection], None],
    *,
    reused: bool,
    retried_fresh: bool,
) -> Reply:
    """Send the request and read the head of its answer, or close the connection."""
    exchange.phase = "head"
    try:
        connection.own(exchange.abort_handle)
        reader = connection.reader
        reader.start(exchange.limits, is_head_request=exchange.request.is_head)
        exchange.check_not_aborted()
        try:
            connection.send(exchange)
        except OSError:
            # An upstream may refuse a large body early and close; its answer can still be read.
            reader.tainted = True
        sent_at = exchange.clock()
        until = sent_at + exchange.limits.first_byte_s
        while not reader.head_done:
            wait_s = exchange.left_s(until, FirstByteTimeout)
            try:
                data = connection.receive(wait_s)
            except OSError as error:
                raise exchange.build_loss_error("the connection broke before the answer") from error
            exchange.check_not_aborted()
            if data is None:
                continue
            if not data:
                raise exchange.build_loss_error("the connection ended before the answer")
            exchange.bytes_received += len(data)
            try:
                reader.feed_bytes(data)
            except WireFault as fault:
                raise exchange.build_error(MalformedReply, str(fault)) from fault
    except BaseException:  # Also a greenlet being killed must not leave a socket behind.
        connection.close()
        raise
    return Reply(
        exchange, connection, give_back, sent_at=sent_at, reused=reused, retried_fresh=retried_fresh
    )


_CLIENTS: weakref.WeakSet[HttpClient] = weakref.WeakSet()


def _reset_clients() -> None:
    for client in list(_CLIENTS):
        client.close_idle()
        client.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_clients)
