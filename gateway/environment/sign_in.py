"""How people sign in to pages."""

from gateway import env
from gateway.env import Section
from gateway.environment.process import PRODUCTION

setting = Section("Sign-in of people")
STAFF_SECOND_FACTOR = setting(
    "STAFF_SECOND_FACTOR",
    "whether operators see pages only once they have a second factor; by default in production",
    env.boolean,
    PRODUCTION,
)
SESSION_HOURS = setting(
    "SESSION_HOURS",
    "hours after which people sign in again",
    env.integer,
    24,
    minimum=1,
    maximum=8760,
)
