"""Requests for inference: their bounds, their way, and what is kept of them."""

from gateway import env
from gateway.environment.section import Section

setting = Section("Inference")
ROUTER_REGION = setting("ROUTER_REGION", "name of this gateway's region", env.text, "local")
# The author of models that are named without one on /systemone.
ROUTER_SYSTEMONE_NAMESPACE = setting(
    "ROUTER_SYSTEMONE_NAMESPACE",
    "author of models that are named without one on `/systemone`",
    env.text,
    "typesafe",
)
ROUTER_MAX_BODY_BYTES = setting(
    "ROUTER_MAX_BODY_BYTES",
    "largest inference request, as it comes and inflated (`Content-Encoding: gzip` or `deflate`); "
    "more than a million JSON values are 413 too",
    env.integer,
    33_554_432,
    minimum=1024,
)
ROUTER_BODY_MEMORY_BYTES = setting(
    "ROUTER_BODY_MEMORY_BYTES",
    "bodies over 64 KiB of requests in progress, per process; beyond that requests get 503",
    env.integer,
    536_870_912,
    minimum=ROUTER_MAX_BODY_BYTES,
)
ROUTER_HEADER_TIMEOUT = setting(
    "ROUTER_HEADER_TIMEOUT", "how long the head of a request may take to arrive", env.seconds, 10
)
ROUTER_BODY_TIMEOUT = setting(
    "ROUTER_BODY_TIMEOUT", "how long the body of a request may take to arrive", env.seconds, 30
)
ROUTER_MAX_ANSWER_BYTES = setting(
    "ROUTER_MAX_ANSWER_BYTES",
    "largest answer of an upstream",
    env.integer,
    67_108_864,
    minimum=1024,
)
ROUTER_MAX_EVENT_BYTES = setting(
    "ROUTER_MAX_EVENT_BYTES",
    "largest event of an upstream's stream",
    env.integer,
    16_777_216,
    minimum=1024,
)
ROUTER_STREAM_COMMIT_SECONDS = setting(
    "ROUTER_STREAM_COMMIT_SECONDS", "when the headers of a silent stream are sent", env.seconds, 10
)
ROUTER_KEEPALIVE_SECONDS = setting(
    "ROUTER_KEEPALIVE_SECONDS",
    "silence of a stream after which a comment keeps it alive",
    env.seconds,
    10,
)
ROUTER_CONNECT_TIMEOUT = setting(
    "ROUTER_CONNECT_TIMEOUT",
    "longest connection to an upstream; also per provider",
    env.seconds,
    10,
)
ROUTER_FIRST_BYTE_TIMEOUT = setting(
    "ROUTER_FIRST_BYTE_TIMEOUT",
    "longest wait for an upstream's first byte; also per provider",
    env.seconds,
    120,
)
ROUTER_FIRST_BYTE_P99_FACTOR = setting(
    "ROUTER_FIRST_BYTE_P99_FACTOR",
    "how many times an endpoint's p99 a stream waits for its first byte, where nobody set a limit "
    "and another endpoint is left; 0: off",
    env.decimal,
    5,
)
ROUTER_IDLE_TIMEOUT = setting(
    "ROUTER_IDLE_TIMEOUT",
    "longest silence of an upstream within an answer; also per provider",
    env.seconds,
    60,
)
ROUTER_TOTAL_TIMEOUT = setting(
    "ROUTER_TOTAL_TIMEOUT", "deadline of a whole upstream call", env.seconds, 600
)
ROUTER_STALLED_READER_SECONDS = setting(
    "ROUTER_STALLED_READER_SECONDS",
    "a caller that reads nothing for so long is cut off",
    env.seconds,
    30,
)
ROUTER_OUTAGE_WINDOW_SECONDS = setting(
    "ROUTER_OUTAGE_WINDOW_SECONDS", "how long an outage puts an endpoint last", env.seconds, 30
)
ROUTER_STATS_WINDOW_SECONDS = setting(
    "ROUTER_STATS_WINDOW_SECONDS",
    "how far latency and throughput look back, in seconds",
    env.decimal,
    300,
    minimum=10,
    maximum=600,
)
ROUTER_STICKY_SECONDS = setting(
    "ROUTER_STICKY_SECONDS", "how long an idle conversation keeps its endpoint", env.seconds, 600
)
ROUTER_HISTORY_DAYS = setting(
    "ROUTER_HISTORY_DAYS",
    "days for which the samples of the charts are kept",
    env.integer,
    7,
    minimum=1,
    maximum=3650,
)
ROUTER_MAX_ATTEMPTS = setting(
    "ROUTER_MAX_ATTEMPTS", "attempts per request", env.integer, 10, minimum=1, maximum=100
)
ROUTER_AUTO_MODELS = setting(
    "ROUTER_AUTO_MODELS",
    "models that `router/auto` picks from: ids, aliases, patterns with `*`, with commas between; "
    "by default all that write text",
    env.model_patterns,
)
ROUTER_MAX_MODELS = setting(
    "ROUTER_MAX_MODELS",
    "longest `models` list of a request",
    env.integer,
    3,
    minimum=1,
    maximum=100,
)
ROUTER_CREDENTIAL_PARK_SECONDS = setting(
    "ROUTER_CREDENTIAL_PARK_SECONDS",
    "how long a credential of a provider's pool is not used after 401, 402 or 403 without a hint "
    "(after 402 and 403 for the account that met it)",
    env.seconds,
    300,
)
ROUTER_ENDPOINT_RETRIES = setting(
    "ROUTER_ENDPOINT_RETRIES",
    "rounds of retries with the same endpoints once none is left: after connection errors, 408, "
    "409, 5xx and 429 that ask for 2 s at most, before any content",
    env.integer,
    2,
    maximum=10,
)
ROUTER_RETRY_BACKOFF = setting(
    "ROUTER_RETRY_BACKOFF",
    "wait before the first such round, give or take half; each further one doubles it",
    env.seconds,
    0.4,
)
ROUTER_RETRY_BUDGET = setting(
    "ROUTER_RETRY_BUDGET",
    "retries per process and account, as a share of its requests",
    env.decimal,
    0.2,
    maximum=100,
)
ROUTER_RETRY_FLOOR = setting(
    "ROUTER_RETRY_FLOOR",
    "retries that a process may always make in 10 s; the accounts that send requests divide them",
    env.integer,
    100,
)
ROUTER_HEDGE_DELAY_SECONDS = setting(
    "ROUTER_HEDGE_DELAY_SECONDS",
    "after which time without content a second endpoint is asked where a request wants that "
    "(`provider.hedge`), names no time, and too little is known of the first",
    env.seconds,
    5,
)
ROUTER_QUEUE_SECONDS = setting(
    "ROUTER_QUEUE_SECONDS",
    "how long a request waits for a place, accounts in turn, where each endpoint has as many "
    "requests under way as its `rate_limits` allow; 0 refuses it at once with 429",
    env.decimal,
    0,
    minimum=0,
    maximum=600,
)
ROUTER_QUEUE_MAX = setting(
    "ROUTER_QUEUE_MAX",
    "requests that may wait so in a process; beyond it the account with most of them gives way",
    env.integer,
    500,
    minimum=1,
    maximum=10_000,
)
ROUTER_ESTIMATE_OUTPUT_CAP = setting(
    "ROUTER_ESTIMATE_OUTPUT_CAP",
    "bounds the hold of requests that name no maximum, in tokens",
    env.optional_integer,
    minimum=1,
)
ROUTER_EXPOSE_RAW_ERRORS = setting(
    "ROUTER_EXPOSE_RAW_ERRORS", "shows callers the provider's own error text", env.boolean, True
)
ROUTER_UPSTREAM_PROXY = setting(
    "ROUTER_UPSTREAM_PROXY", "`http://host:port` for all upstream calls", env.proxy
)
ROUTER_POOL_SIZE = setting(
    "ROUTER_POOL_SIZE", "idle connections kept per provider", env.integer, 200, minimum=1
)
ROUTER_MAX_CONCURRENCY = setting(
    "ROUTER_MAX_CONCURRENCY", "requests in progress per process", env.integer, 1000, minimum=1
)
GENERATION_DAYS = setting(
    "GENERATION_DAYS",
    "days for which single requests stay on record: generations, their contents and figures, "
    "refusals; 0 is for ever. Sums of days and the ledger stay",
    env.integer,
    0,
    maximum=36_500,
)
GENERATION_CONTENT_DAYS = setting(
    "GENERATION_CONTENT_DAYS",
    "days for which logged prompts and answers are kept",
    env.integer,
    30,
    minimum=1,
    maximum=3650,
)
GENERATION_CONTENT_BYTES = setting(
    "GENERATION_CONTENT_BYTES",
    "about how many characters of each generation are kept",
    env.integer,
    1_048_576,
    minimum=1024,
    maximum=16_777_216,
)
ANALYTICS_TIMEOUT = setting(
    "ANALYTICS_TIMEOUT", "how long an analytics query may take before it is 408", env.seconds, 10
)
CATALOGUE_POLL_SECONDS = setting(
    "CATALOGUE_POLL_SECONDS", "how often processes look for a new catalogue", env.seconds, 0.5
)
