"""Refusals with an HTTP status."""

from routing.simulator.call import Call, error_body
from routing.simulator.exchange import JSON
from routing.simulator.faults.base import Fault

ADJUSTABLE = ("temperature", "top_p", "seed", "logprobs", "stop", "tools", "response_format")


def refusal(
    status: int, message: str, kind: str, code: str | None = None, description: str = ""
) -> Fault:
    async def run(call: Call) -> None:
        call.exchange.answer(status, error_body(message, kind, code=code))

    return Fault(description or f"{status}: {message}", run)


async def too_many_requests(call: Call) -> None:
    wait_s = call.options.text("retry_after", "7")
    body = error_body("Simulated rate limit reached.", "rate_limit_error", code="rate_limit")
    call.exchange.answer(429, body, JSON, [("Retry-After", wait_s)])


async def unsupported_parameter(call: Call) -> None:
    param = next((name for name in ADJUSTABLE if name in call.body), ADJUSTABLE[0])
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    body = error_body(message, "invalid_request_error", code="unsupported_parameter", param=param)
    call.exchange.answer(400, body)


async def redirect(call: Call) -> None:
    location = call.options.text("location", f"/{call.persona}/v1/redirect-target")
    call.exchange.answer(302, b"", "text/plain", [("Location", location)])


INVALID = "invalid_request_error"
SERVER = "server_error"

FAULTS = {
    "429": Fault("429 with Retry-After: 7 (retry_after)", too_many_requests),
    "429-no-hint": refusal(429, "Simulated rate limit reached.", "rate_limit_error", "rate_limit"),
    "400": refusal(400, "Simulated rejection of the request.", INVALID),
    "400-unsupported-parameter": Fault(
        "400 that names a parameter of the request as unsupported", unsupported_parameter
    ),
    "400-context-length": refusal(
        400, "This model's maximum context length is 8 tokens.", INVALID, "context_length_exceeded"
    ),
    "401": refusal(401, "Incorrect API key provided.", INVALID, "invalid_api_key"),
    "402": refusal(402, "Simulated provider balance is empty.", "billing_error", "no_balance"),
    "403": refusal(403, "This key may not use this model.", "permission_error", "forbidden"),
    "403-policy": refusal(
        403,
        "The request violates the content policy.",
        "content_policy_violation",
        "content_policy",
    ),
    "404": refusal(404, "The model does not exist.", INVALID, "model_not_found"),
    "408": refusal(408, "Simulated request timeout.", "timeout_error"),
    "413": refusal(413, "Simulated request too large.", INVALID),
    "422": refusal(422, "Simulated unprocessable request.", INVALID),
    "500": refusal(500, "Simulated internal error.", SERVER),
    "502": refusal(502, "Simulated bad gateway.", SERVER),
    "503": refusal(503, "Simulated service unavailable.", SERVER),
    "504": refusal(504, "Simulated gateway timeout.", SERVER),
    "529": refusal(529, "Simulated overload.", "overloaded_error"),
    "redirect": Fault("302 to a path that logs whoever follows it (location)", redirect),
}
