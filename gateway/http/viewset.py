"""The viewset base of the API: DRF's face, without its per-request set-up.

Stock dispatch negotiates content, builds parsers and renderers and wraps the request, which costs a
third of an inference request. Routing (`as_view({"post": "create"})`) and the OpenAPI description
stay DRF's; reading, authenticating and answering are ours.
"""

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import classonlymethod
from gevent import GreenletExit
from rest_framework.viewsets import GenericViewSet

from gateway.database.db import DATABASE_GONE
from gateway.http.errors import DatabaseGone, GatewayError, MethodNotAllowed, Unavailable
from gateway.http.jsonio import JsonObject
from gateway.http.once import find_carrier
from gateway.http.refusal_lines import refusal_lines
from gateway.http.responses import error_response, log


class LeanViewSet(GenericViewSet[Any]):
    """Base of every API viewset; actions take `(request, **path)` and return a response.

    They raise `GatewayError` for what the caller can act on. `self.beside` holds what stands beside
    `error` in the body, such as `user_id`.
    """

    queryset = None
    authentication_classes: ClassVar[list[Any]] = []  # type: ignore[misc]  # DRF declares it per instance.
    permission_classes: ClassVar[list[Any]] = []  # type: ignore[misc]  # DRF declares it per instance.
    # Whether an `Idempotency-Key` is looked at here; inference does so by itself.
    once_by_key: ClassVar[bool] = True
    # Names of actions whose answers hold a secret that is shown once, and so are kept nowhere.
    secret_answers: ClassVar[frozenset[str]] = frozenset()
    # Not where each request has a line anyhow.
    logs_refusals: ClassVar[bool] = True
    # The error of a caller when the database does not answer.
    outage_error: ClassVar[Callable[[], GatewayError]] = DatabaseGone
    action_map: dict[str, str]
    beside: JsonObject

    @classonlymethod
    def as_view(  # type: ignore[override]  # DRF's stubs want its own types of actions and request.
        cls, actions: dict[str, str], **initkwargs: object
    ) -> Callable[..., HttpResponseBase]:
        """The same view to DRF and its schema; each request costs one plain object.

        DRF's own view binds the actions to the instance: a cycle that keeps the whole request until
        the garbage collector finds it.
        """
        face = super().as_view(actions, **initkwargs)  # type: ignore[arg-type]  # The stubs differ.
        if "get" in actions:
            actions = {"head": actions["get"], **actions}

        def view(request: HttpRequest, **kwargs: object) -> HttpResponseBase:
            self = cls(**initkwargs)
            self.action_map = actions
            return self.dispatch(request, **kwargs)

        # `gateway.server.front` looks for it: failures are answered here, not by Django's handler.
        view.answers_everything = True  # type: ignore[attr-defined]  # As DRF itself does.
        return update_wrapper(view, face)

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        self.beside = {}
        method = (request.method or "").lower()
        try:
            if method not in self.action_map:
                allowed = ", ".join(sorted(map(str.upper, self.action_map)))
                raise MethodNotAllowed(headers={"Allow": allowed})
            act = getattr(self, self.action_map[method])
            if method == "post" and self.once_by_key and "HTTP_IDEMPOTENCY_KEY" in request.META:
                act = partial(find_carrier(), self, act)
            response: HttpResponseBase = act(request, **kwargs)
            if method == "get" and "HTTP_AUTHORIZATION" in request.META:
                # It is for the holder of the key, and no browser's to keep.
                response.headers.setdefault("Cache-Control", "no-store")
        except DatabaseGone:
            return self._refuse(request, type(self).outage_error())
        except GatewayError as error:
            return self._refuse(request, error)
        except DATABASE_GONE as error:
            log.warning("%s %s: database: %s", request.method, request.path_info, error)
            return self._refuse(request, type(self).outage_error())
        except GreenletExit:
            # The worker stops and this request's time is up; its caller still gets an answer.
            return self._refuse(request, Unavailable())
        except Exception as error:  # noqa: BLE001 - The last line of defence: a bug becomes a JSON 500.
            # A 500 says whose request it was and nothing about routing.
            log.error("%s %s failed", request.method, request.path_info, exc_info=error)
            self.beside = {name: value for name, value in self.beside.items() if name == "user_id"}
            return self._refuse(request, GatewayError())
        return response

    def _refuse(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        # Bugs and their like have a line of their own.
        if self.logs_refusals and error.status != 500:
            refusal_lines.write(self.name_request(request), error.status, error.record_reason)
        return self.refusal(request, error)

    def name_request(self, request: HttpRequest) -> str:
        """What log lines call it."""
        return f"{request.method} {request.path_info}"

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpResponseBase:
        """The response of a failure."""
        return error_response(error, **self.beside)
