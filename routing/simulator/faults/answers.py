"""Refusals with a status, bodies that break their promise, and answers that say something false."""

import struct
import zlib
from collections.abc import Awaitable, Callable

from routing.simulator.encoding import dumps, encode_text
from routing.simulator.exchange import JSON, SSE, SimulatedCall
from routing.simulator.faults.base import Fault, content_type
from routing.simulator.formats import Complaint
from routing.simulator.prompt import read_token_limit

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


def translate_message(call: SimulatedCall, message: str) -> str:
    return IN_MESSAGES.get(message, message) if call.format.name == "messages" else message


def build_refusal(
    status: int, message: str, kind: str, code: str | None = None, description: str = ""
) -> Fault:
    async def run(call: SimulatedCall) -> None:
        call.refuse(Complaint(status, translate_message(call, message), kind, code))

    return Fault(description or f"{status}: {message}", run)


async def too_many_requests(call: SimulatedCall) -> None:
    wait_s = call.options.text("retry_after", "7")
    complaint = Complaint(429, RATE_LIMIT, "rate_limit_error", "rate_limit")
    call.refuse(complaint, [("Retry-After", wait_s)])


async def unsupported_parameter(call: SimulatedCall) -> None:
    param = next((name for name in ADJUSTABLE if name in call.body), ADJUSTABLE[0])
    message = f"Unsupported parameter: '{param}' is not supported with this model."
    if call.format.name == "messages":
        message = f"{param}: Extra inputs are not permitted"
    call.refuse(Complaint(400, message, INVALID, "unsupported_parameter", param))


async def redirect(call: SimulatedCall) -> None:
    location = call.options.text("location", f"/{call.persona}/v1/redirect-target")
    call.exchange.answer(302, b"", "text/plain", [("Location", location)])


STATUS_FAULTS = {
    "429": Fault("429 with Retry-After: 7 (retry_after)", too_many_requests),
    "429-no-hint": build_refusal(429, RATE_LIMIT, "rate_limit_error", "rate_limit"),
    "400": build_refusal(400, "Simulated rejection of the request.", INVALID),
    "400-unsupported-parameter": Fault(
        "400 that names a parameter of the request as unsupported", unsupported_parameter
    ),
    "400-context-length": build_refusal(400, TOO_LONG, INVALID, "context_length_exceeded"),
    "401": build_refusal(401, BAD_KEY, INVALID, "invalid_api_key"),
    "402": build_refusal(
        402, "Simulated provider balance is empty.", "billing_error", "no_balance"
    ),
    "403": build_refusal(403, "This key may not use this model.", "permission_error", "forbidden"),
    "403-policy": build_refusal(
        403,
        "The request violates the content policy.",
        "content_policy_violation",
        "content_policy",
    ),
    "404": build_refusal(404, NO_MODEL, INVALID, "model_not_found"),
    "408": build_refusal(408, "Simulated request timeout.", "timeout_error"),
    "413": build_refusal(413, "Simulated request too large.", INVALID),
    "422": build_refusal(422, "Simulated unprocessable request.", INVALID),
    "500": build_refusal(500, "Simulated internal error.", SERVER),
    "502": build_refusal(502, "Simulated bad gateway.", SERVER),
    "503": build_refusal(503, "Simulated service unavailable.", SERVER),
    "504": build_refusal(504, "Simulated gateway timeout.", SERVER),
    "529": build_refusal(529, OVERLOAD, "overloaded_error"),
    "redirect": Fault("302 to a path that logs whoever follows it (location)", redirect),
}


HTML = b"<!doctype html><title>Simulated</title><h1>502 Bad Gateway</h1><p>A proxy's page.</p>"
LENGTH_LIE_BYTES = 1000
UNCLOSED_BYTES = 4
DATA = b"data: "
MIB = 1024 * 1024
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
GZIP_WINDOW_BITS = 31
GZIP_HEADERS = [("Content-Encoding", "gzip")]


async def html(call: SimulatedCall) -> None:
    call.exchange.answer(200, HTML, "text/html; charset=utf-8")


async def wrong_content_type(call: SimulatedCall) -> None:
    call.exchange.answer(200, call.payload(), "text/plain")


async def bad_utf8(call: SimulatedCall) -> None:
    body = call.payload(text="Gr\u00fc\u00dfe aus dem Simulator")
    call.exchange.answer(200, body.decode().encode("latin-1"), content_type(call))


async def truncated_json(call: SimulatedCall) -> None:
    if not call.stream:
        body = call.json_body()
        call.exchange.answer(200, body[: len(body) // 2])
        return
    events = call.events()
    first = events.content[0].rstrip()
    call.exchange.answer_stream([events.opening, first[:-UNCLOSED_BYTES] + b"\n\n"])


async def null_body(call: SimulatedCall) -> None:
    call.exchange.answer(200, b"null")


async def empty_body(call: SimulatedCall) -> None:
    call.exchange.answer(200, b"", content_type(call))


async def empty_choices(call: SimulatedCall) -> None:
    document, events = call.format.build_hollow(call.body, call.answer())
    if call.stream:
        call.exchange.answer_stream(events)
    else:
        call.exchange.answer(200, encode_text(dumps(document)))


async def long_content_length(call: SimulatedCall) -> None:
    body = call.payload()
    call.exchange.head(200, content_type(call), length=len(body) + LENGTH_LIE_BYTES)
    call.exchange.send(body)
    call.exchange.cut()


async def short_content_length(call: SimulatedCall) -> None:
    body = call.payload()
    call.exchange.head(200, content_type(call), length=len(body) // 2)
    call.exchange.send(body)
    call.exchange.cut()


async def gzip_body(call: SimulatedCall) -> None:
    compressor = zlib.compressobj(wbits=GZIP_WINDOW_BITS)
    if not call.stream:
        body = compressor.compress(call.json_body()) + compressor.flush()
        call.exchange.answer(200, body, JSON, GZIP_HEADERS)
        return
    call.exchange.head(200, SSE, GZIP_HEADERS)
    for item in call.events().events():
        call.exchange.send(compressor.compress(item) + compressor.flush(zlib.Z_SYNC_FLUSH))
    call.exchange.send(compressor.flush())
    call.exchange.finish()


async def gzip_bomb(call: SimulatedCall) -> None:
    """A valid answer behind `decoded_mib` MiB of spaces, at one KiB on the wire for each MiB.

    A full flush makes the compressed form of a block independent of what stood before it. So one
    block is compressed once and sent again and again.
    """
    exchange, payload = call.exchange, call.payload()
    at = payload.index(DATA) + len(DATA) if call.stream else 0
    start, rest = payload[:at] or b" ", payload[at:]
    spaces, blocks = b" " * MIB, int(call.options.number("decoded_mib", 1024))
    compressor = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    exchange.head(200, content_type(call), GZIP_HEADERS)
    opening = compressor.compress(start) + compressor.flush(zlib.Z_FULL_FLUSH)
    exchange.send(GZIP_HEADER + opening)
    checksum = zlib.crc32(start)
    block = compressor.compress(spaces) + compressor.flush(zlib.Z_FULL_FLUSH)
    for _ in range(blocks):
        checksum = zlib.crc32(spaces, checksum)
        exchange.send(block)
        await exchange.drain()
    checksum = zlib.crc32(rest, checksum)
    size = (len(start) + blocks * MIB + len(rest)) % 2**32
    exchange.send(compressor.compress(rest) + compressor.flush(zlib.Z_FINISH))
    exchange.send(struct.pack("<II", checksum, size))
    exchange.finish()


BODY_FAULTS = {
    "html": Fault("an HTML page with 200", html),
    "wrong-content-type": Fault("a good body labelled text/plain", wrong_content_type),
    "bad-utf8": Fault("a good body in Latin-1, which is not UTF-8", bad_utf8),
    "truncated-json": Fault("JSON that stops half-way in a complete response", truncated_json),
    "null-body": Fault("the JSON document null with 200", null_body),
    "empty-body": Fault("200 with no body at all", empty_body),
    "empty-choices": Fault(
        "a good answer but for its answering part: choices: [], no content, no output",
        empty_choices,
    ),
    "long-content-length": Fault("Content-Length larger than the body", long_content_length),
    "short-content-length": Fault("Content-Length half the body", short_content_length),
    "gzip": Fault("a good answer, gzip-encoded", gzip_body),
    "gzip-bomb": Fault("a small gzip body that decodes to decoded_mib (1024)", gzip_bomb),
}


ABSURD = 10**12
FaultRun = Callable[[SimulatedCall], Awaitable[None]]


def override_answer(**override: object) -> FaultRun:
    """A fault that is the normal answer with parts replaced."""

    async def run(call: SimulatedCall) -> None:
        call.reply(**override)

    return run


def override_usage(
    prompt_tokens: object, completion_tokens: object, total_tokens: object
) -> FaultRun:
    return override_answer(
        usage={
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": total_tokens,
        }
    )


async def over_limit(call: SimulatedCall) -> None:
    said: dict[str, int] = dict(call.answer().usage)
    completion = 2 * (read_token_limit(call.asked) or said["completion_tokens"]) + 10
    await override_usage(said["prompt_tokens"], completion, said["prompt_tokens"] + completion)(
        call
    )


async def zero_completion(call: SimulatedCall) -> None:
    prompt_tokens = call.answer().usage["prompt_tokens"]
    claimed = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 0,
        "total_tokens": prompt_tokens,
    }
    call.reply(text="", finish_reason=None, usage=claimed)


PARTIAL = "Simulated answer"

CLAIM_FAULTS = {
    "missing-usage": Fault("a good answer without usage", override_answer(usage=None)),
    "usage-negative": Fault("negative token counts", override_usage(-5, -7, -12)),
    "usage-absurd": Fault("10^12 tokens of each kind", override_usage(ABSURD, ABSURD, 2 * ABSURD)),
    "usage-string": Fault("token counts as strings", override_usage("12", "34", "46")),
    "error-finish": Fault(
        "partial text with finish_reason error",
        override_answer(text=PARTIAL, finish_reason="error"),
    ),
    "refusal": Fault(
        "the model refuses in a normal answer",
        override_answer(refusal="Simulated refusal: I cannot help with that."),
    ),
    "content-filter": Fault(
        "partial text with finish_reason content_filter",
        override_answer(text=PARTIAL, finish_reason="content_filter"),
    ),
    "over-limit": Fault("reports more completion tokens than the request allowed", over_limit),
    "zero-completion": Fault("no text, no finish reason, no completion tokens", zero_completion),
}
