// Passkeys: the browser makes one, or proves that it has one, and the form carries what it says.
(function () {
  "use strict";

  var ways = { make: make, use: use, ask: ask };

  function readOptions() {
    return JSON.parse(document.getElementById("passkey-options").textContent);
  }

  // Without a password the device itself asks who is there.
  function make(form) {
    var options = readOptions().creation_options;
    var alone = form.elements.passwordless.checked;
    var selection = options.publicKey.authenticatorSelection;
    selection.residentKey = alone ? "required" : "discouraged";
    selection.requireResidentKey = alone;
    if (alone) selection.userVerification = "required";
    return webauthnJSON.create(options);
  }

  function use() {
    return webauthnJSON.get(readOptions().request_options);
  }

  function ask(form) {
    return fetch(form.action, { headers: { Accept: "application/json" } })
      .then(function (answer) { return answer.json(); })
      .then(function (data) { return webauthnJSON.get(data.request_options); });
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-passkey]");
    if (!button) return;
    var form = button.form;
    ways[button.dataset.passkey](form).then(
      function (credential) {
        form.elements.credential.value = JSON.stringify(credential);
        form.submit();
      },
      function () {
        document.getElementById("announcements").textContent = "No passkey was used";
      });
  });
})();
