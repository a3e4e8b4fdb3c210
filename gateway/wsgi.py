"""The WSGI entry point of web processes."""

import os

import django

from gateway.http.lean import load_rest_framework
from gateway.server.front import FrontDoor

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)
load_rest_framework()

application = FrontDoor()
