"""Keys, money and limits of accounts."""

from gateway import env
from gateway.environment.section import Section

setting = Section("Keys and money")
API_KEY_PREFIX = setting(
    "API_KEY_PREFIX",
    "what new keys begin with: at most 20 characters, a hyphen at the end",
    env.key_prefix,
    "sk-rt-v1-",
)
API_KEY_CACHE_SECONDS = setting(
    "API_KEY_CACHE_SECONDS",
    "how old the record of a key may be, in seconds, when a request is checked against it",
    env.decimal,
    0.8,
    minimum=0,
    maximum=1,
)
BYOK_FEE_RATE = setting(
    "BYOK_FEE_RATE",
    "share of the list price that a call on a team's own provider key costs the account",
    env.decimal,
    0,
    maximum=1,
)
BILLING_ENFORCED = setting(
    "BILLING_ENFORCED",
    "`0` lets accounts spend past their credits; limits of keys still hold",
    env.boolean,
    True,
)
HOLD_LEASE_SECONDS = setting(
    "HOLD_LEASE_SECONDS", "when the money that a dead request held is free again", env.seconds, 900
)
HOLD_SWEEP_SECONDS = setting(
    "HOLD_SWEEP_SECONDS", "how often expired holds are looked for", env.seconds, 60
)
LEDGER_TIMEOUT = setting("LEDGER_TIMEOUT", "longest wait for a settlement", env.seconds, 10)
LEDGER_QUEUE_MAX = setting(
    "LEDGER_QUEUE_MAX",
    "queued ledger orders per process; beyond that requests get 503",
    env.integer,
    10_000,
    minimum=1,
)
MANAGEMENT_MAX_BODY_BYTES = setting(
    "MANAGEMENT_MAX_BODY_BYTES",
    "largest body of a management request",
    env.integer,
    1_048_576,
    minimum=1024,
)
OAUTH_S256_ONLY = setting(
    "OAUTH_S256_ONLY",
    "whether apps that ask for a key have to send a `code_challenge` by the method `S256`, as "
    "OAuth 2.1 has it; the vendor's protocol leaves both to the app",
    env.boolean,
    False,
)
PUBLIC_CATALOG = setting(
    "PUBLIC_CATALOG", "`0` asks for a key on `GET /models` and the like", env.boolean, True
)
# Of at most a half something is left of the smallest payment.
CREDIT_FEE_RATE = setting(
    "CREDIT_FEE_RATE", "share of each payment that is kept", env.decimal, 0, maximum=0.5
)
CREDIT_EXPIRY_DAYS = setting(
    "CREDIT_EXPIRY_DAYS",
    "days after which unused credits expire; 0 is never",
    env.integer,
    0,
    maximum=36_500,
)
CREDITS_WEBHOOK_SECRET = setting(
    "CREDITS_WEBHOOK_SECRET",
    "signs `POST /credits/payments`; without it there is no such path",
    env.text,
)

LEDGER_AUDIT_SECONDS = setting(
    "LEDGER_AUDIT_SECONDS", "how often the books are audited", env.seconds, 900
)

rates = Section("Rate limits", "0 is no limit")
RATE_ANALYTICS = rates(
    "RATE_ANALYTICS",
    "analytics queries per account and minute",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
RATE_MANAGEMENT_WRITES = rates(
    "RATE_MANAGEMENT_WRITES",
    "changing management requests per account and minute",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
RATE_MANAGEMENT_READS = rates(
    "RATE_MANAGEMENT_READS",
    "reading management requests per account and minute",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
RATE_FAILED_CREDENTIALS = rates(
    "RATE_FAILED_CREDENTIALS",
    "wrong keys per client address and minute",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
RATE_FAILED_TOKENS = rates(
    "RATE_FAILED_TOKENS",
    "wrong tokens of programs, and wrong codes of apps, per client address and minute",
    env.integer,
    30,
    maximum=env.RATE_MAX,
)
RATE_SIGN_INS = rates(
    "RATE_SIGN_INS",
    "sign-in forms sent per client address and minute, and apart from these sign-ins begun at a "
    "provider or with a passkey",
    env.integer,
    60,
    maximum=env.RATE_MAX,
)
ROUTER_FREE_RPM = rates(
    "ROUTER_FREE_RPM",
    "requests to free variants per account and minute",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
ROUTER_FREE_RPD_LOW = rates(
    "ROUTER_FREE_RPD_LOW",
    "requests to free variants per account and UTC day, below `ROUTER_FREE_CREDIT_THRESHOLD`",
    env.integer,
    0,
    maximum=env.RATE_MAX,
)
ROUTER_FREE_RPD_HIGH = rates(
    "ROUTER_FREE_RPD_HIGH", "the same from that threshold on", env.integer, 0, maximum=env.RATE_MAX
)
ROUTER_FREE_CREDIT_THRESHOLD = rates(
    "ROUTER_FREE_CREDIT_THRESHOLD",
    "credits bought, in USD, from which the higher daily limit holds",
    env.integer,
    0,
    maximum=10**9,
)
ROUTER_KEY_RPM = rates(
    "ROUTER_KEY_RPM", "requests per key and minute", env.integer, 0, maximum=env.RATE_MAX
)
ROUTER_KEY_TPM = rates(
    "ROUTER_KEY_TPM", "tokens per key and minute", env.integer, 0, maximum=env.RATE_MAX
)

guardrails = Section("Guardrails and regions")
REGIONAL_HOSTS = guardrails(
    "REGIONAL_HOSTS",
    "hosts of data regions: `eu.example.com=europe,us.example.com=us`",
    env.regional_hosts,
)
GUARDRAIL_DETECTORS = guardrails(
    "GUARDRAIL_DETECTORS",
    "plug-ins of content filters: `person-name=package.module.function`",
    env.plug_ins,
    allowed=("person-name", "address"),
)
