"""The Celery application of worker and beat. A task message only says "look now"."""

import os

from celery import Celery

from gateway import broker
from gateway.home import home, private_folder

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
# Django's checks read every page and path, which takes a worker longer than all else it loads.
# Migrating, which comes before any worker, has made them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

# Beat keeps its schedule in the first, the broker without Redis its messages in the second; each
# process may be the first of its home.
for folder in ("run", "queue"):
    private_folder(home() / folder)

broker.register()
app = Celery("gateway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
