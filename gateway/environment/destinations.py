"""Where reports of generations are sent, and how."""

from gateway import env
from gateway.environment.section import Section

setting = Section("Destinations")
DESTINATION_PRIVATE_HOSTS = setting(
    "DESTINATION_PRIVATE_HOSTS",
    "hosts of your own network that destinations may name, with commas between",
    env.host_names,
)
DESTINATION_TIMEOUT = setting(
    "DESTINATION_TIMEOUT", "how long one delivery to a destination may take", env.seconds, 10
)
DESTINATION_CONTENT_CHARS = setting(
    "DESTINATION_CONTENT_CHARS",
    "about how many characters of each generation's prompt and answer are sent; the rest is cut",
    env.integer,
    65_536,
    minimum=1024,
    maximum=1_048_576,
)
