"""Pages of the app for people's browsers."""

from django.urls import path

from accounts.views.authorization_page import authorize

urlpatterns = [path("", authorize, name="authorize")]
