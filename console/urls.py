"""The console's pages. The front page is `/`; all else stands under `/console/`."""

from django.urls import path, re_path

from console.views import home, keys, models, outage, playground, requests, sign_in

app_name = "console"
urlpatterns = [
    path("", sign_in.front_page, name="home"),
    path("console/sign-in", sign_in.sign_in, name="sign_in"),
    path("console/sign-out", sign_in.sign_out, name="sign_out"),
    path("console/link/<str:public_id>/<str:token>", sign_in.link, name="link"),
    path("console/first-request", home.show_first_request, name="first_request"),
    path("console/requests", requests.show_requests, name="requests"),
    path("console/requests/refused/<int:number>", requests.show_refused, name="refused"),
    path("console/requests/<str:generation_id>", requests.show_request, name="request"),
    path("console/playground", playground.show_playground, name="playground"),
    path("console/playground/key", playground.give_key, name="playground_key"),
    path("console/models", models.show_models, name="models"),
    path("console/models/<path:model_id>", models.show_model, name="model"),
    path("console/keys", keys.show_keys, name="keys"),
    path("console/keys/new", keys.make_key, name="new_key"),
    path("console/keys/<int:number>", keys.show_key, name="key"),
    path("console/keys/<int:number>/switch", keys.switch_key, name="switch_key"),
    path("console/keys/<int:number>/rotate", keys.renew_key, name="renew_key"),
    path("console/outage", outage.begin_outage, name="begin_outage"),
    # What is under no other path is a page as well, which says so.
    re_path(r"^console(?:/.*)?$", sign_in.show_nothing, name="nothing"),
]
