// The playground's key, and calls of the API with it.
(function () {
  "use strict";

  var BEFORE_END_MS = 60000, keys = {};

  // `call(path, options)` as `fetch` is, for the element with the key's address and a CSRF token. `readWorkspace` says
  // whose key it is. The string stays in this script; it is asked for anew before it is over.
  window.playground.openKey = function (place, readWorkspace) {
    async function findKey(fresh) {
      var workspace = readWorkspace(), kept = keys[workspace];
      if (!fresh && kept && new Date(kept.expires_at) - Date.now() > BEFORE_END_MS) return kept.key;
      var answer = await fetch(place.dataset.keyUrl, {
        method: "POST", body: new URLSearchParams({ workspace: workspace }),
        headers: { "X-CSRFToken": place.querySelector("[name=csrfmiddlewaretoken]").value },
      });
      var body = await answer.json().catch(function () { return { error: "Sign in again." }; });
      if (!answer.ok) throw new Error(body.error);
      keys[workspace] = body;
      return body.key;
    }

    return async function call(path, options, fresh) {
      var key = await findKey(fresh);
      var headers = { Authorization: "Bearer " + key, "Content-Type": "application/json", "X-Title": "Playground" };
      var answer = await fetch(path, Object.assign({ headers: headers }, options));
      // Somebody rotated the key meanwhile.
      return answer.status === 401 && !fresh ? call(path, options, true) : answer;
    };
  };
})();
