"""The WSGI entry point of web processes."""

import os

import django

from gateway.http.front import FrontDoor

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup(set_prefix=False)

application = FrontDoor()
