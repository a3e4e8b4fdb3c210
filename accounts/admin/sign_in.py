"""How often somebody tried to sign in and was wrong, to look at."""

from django.contrib import admin

from accounts.models import SignInAttempts
from gateway.admin import ReadOnlyAdmin


@admin.register(SignInAttempts)
class SignInAttemptsAdmin(ReadOnlyAdmin):
    list_display = ("subject", "count", "last_at", "blocked_until")
    # By the index that old rows are found with.
    ordering = ("-last_at",)
    fields = ("subject", "count", "last_at", "blocked_until")
