"""The Celery application of worker and beat. A task message only says "look now"."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
# Django's checks read every page and path, which takes a worker longer than all else it loads.
# Migrating, which comes before any worker, has made them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("gateway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
