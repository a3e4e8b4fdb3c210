"""How people sign in, below /console/. allauth looks for these names, which have no namespace."""

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as passkeys
from django.urls import path
from django.views.generic import RedirectView

from console.page import secure
from console.views import provider_sign_in, sign_in

urlpatterns = [
    path("sign-in", secure(account.login), name="account_login"),
    path("sign-in/admin", secure(sign_in.sign_in_to_admin), name="admin_sign_in"),
    path("sign-in/second-factor", secure(factors.authenticate), name="mfa_authenticate"),
    path("sign-in/passkey", secure(passkeys.login_webauthn), name="mfa_login_webauthn"),
    path(
        "sign-in/at/<str:provider_id>",
        secure(provider_sign_in.go_to_provider),
        name="provider_sign_in",
    ),
    path(
        "sign-in/at/<str:provider_id>/back",
        secure(provider_sign_in.come_back),
        name="provider_back",
    ),
    path(
        "sign-in/address/<str:token>", secure(sign_in.confirm_own_address), name="confirm_address"
    ),
    path("sign-in/forgotten", secure(sign_in.ask_for_link), name="forgotten_password"),
    path("sign-in/inactive", secure(account.account_inactive), name="account_inactive"),
    path("you", secure(sign_in.show_factors), name="mfa_index"),
    path("you/sessions", secure(sign_in.end_sessions), name="end_sessions"),
    path("you/password/new", secure(sign_in.change_password), name="change_password"),
    path("you/password", secure(account.reauthenticate), name="account_reauthenticate"),
    path("you/code", secure(factors.reauthenticate), name="mfa_reauthenticate"),
    path(
        "you/passkey",
        secure(passkeys.reauthenticate_webauthn),
        name="mfa_reauthenticate_webauthn",
    ),
    path("you/app", secure(totp.activate_totp), name="mfa_activate_totp"),
    path("you/app/remove", secure(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path("you/passkeys", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("you/passkeys/new", secure(passkeys.add_webauthn), name="mfa_add_webauthn"),
    path(
        "you/passkeys/<int:pk>/remove",
        secure(passkeys.remove_webauthn),
        name="mfa_remove_webauthn",
    ),
    path("you/recovery", secure(codes.view_recovery_codes), name="mfa_view_recovery_codes"),
    path(
        "you/recovery/new",
        secure(codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
]
