"""Refusals with an HTTP status."""

from routing.simulator.call import Call
from routing.simulator.faults.base import Fault
from routing.simulator.formats import Complaint

ADJUSTABLE = ("temperature", "top_p", "seed", "logprobs", "stop", "tools", "response_format")

INVALID = "invalid_request_error"
SERVER = "server_error"
RATE_LIMIT = "Simulated rate limit reached."
TOO_LONG = "This model's maximum context length is 8 tokens."
BAD_KEY = "Incorrect API key provided."
NO_MODEL = "The model does not exist."
OVERLOAD = "Simulated overload."
# What a provider of the messages format says in its own words.
IN_MESSAGES = {
    TOO_LONG: "prompt is too long: 9 tokens > 8 maximum",
    BAD_KEY: "invalid x-api-key",
    NO_MODEL: "model: simulated",
    OVERLOAD: "Overloaded",
}


def worded(call: Call, message: str) -> str:
    return IN_MESSAGES.get(message, message) if call.format.name == "messages" else message


def refusal(
    status: int, message: str, kind: str, code: str | None = None, description: str = ""
) -> Fault:
    async def run(call: Call) -> None:
        call.refuse(Complaint(status, worded(call, message), kind, code))

    return Fault(description or f"{status}: {message}", run)


async def too_many_requests(call: Call) -> None:
    wait_s = call.options.text("retry_after", "7")
    told = Complaint(429, RATE_LIMIT, "rate_limit_error", "rate_limit")
    call.refuse(told, [("Retry-After", wait_s)])


async def unsupported_parameter(call: Call) -> None:
    param = next((name for name in ADJUSTABLE if name in call.body), ADJUSTABLE[0])
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    if call.format.name == "messages":
        message = f"{param}: Extra inputs are not permitted"
    call.refuse(Complaint(400, message, INVALID, "unsupported_parameter", param))


async def redirect(call: Call) -> None:
    location = call.options.text("location", f"/{call.persona}/v1/redirect-target")
    call.exchange.answer(302, b"", "text/plain", [("Location", location)])


FAULTS = {
    "429": Fault("429 with Retry-After: 7 (retry_after)", too_many_requests),
    "429-no-hint": refusal(429, RATE_LIMIT, "rate_limit_error", "rate_limit"),
    "400": refusal(400, "Simulated rejection of the request.", INVALID),
    "400-unsupported-parameter": Fault(
        "400 that names a parameter of the request as unsupported", unsupported_parameter
    ),
    "400-context-length": refusal(400, TOO_LONG, INVALID, "context_length_exceeded"),
    "401": refusal(401, BAD_KEY, INVALID, "invalid_api_key"),
    "402": refusal(402, "Simulated provider balance is empty.", "billing_error", "no_balance"),
    "403": refusal(403, "This key may not use this model.", "permission_error", "forbidden"),
    "403-policy": refusal(
        403,
        "The request violates the content policy.",
        "content_policy_violation",
        "content_policy",
    ),
    "404": refusal(404, NO_MODEL, INVALID, "model_not_found"),
    "408": refusal(408, "Simulated request timeout.", "timeout_error"),
    "413": refusal(413, "Simulated request too large.", INVALID),
    "422": refusal(422, "Simulated unprocessable request.", INVALID),
    "500": refusal(500, "Simulated internal error.", SERVER),
    "502": refusal(502, "Simulated bad gateway.", SERVER),
    "503": refusal(503, "Simulated service unavailable.", SERVER),
    "504": refusal(504, "Simulated gateway timeout.", SERVER),
    "529": refusal(529, OVERLOAD, "overloaded_error"),
    "redirect": Fault("302 to a path that logs whoever follows it (location)", redirect),
}
