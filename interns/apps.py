from django.apps import AppConfig


class InternsConfig(AppConfig):
    name = "interns"
