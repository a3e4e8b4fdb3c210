// Talking to one intern: prompts, its answers as they come, and the questions that it asks.
(function () {
  "use strict";

  var place = document.getElementById("talk"), log = document.getElementById("log"), control = null;
  if (!place) return;

  // What can be done to it changes with its status: the page begins anew.
  document.addEventListener("htmx:afterSettle", function () {
    var status = document.querySelector("#now [data-status]");
    if (status && status.dataset.status !== place.dataset.status && !control) location.reload();
  });
  if (!log) return;

  var kit = window.playground, data = JSON.parse(document.getElementById("talk-data").textContent);
  var call = kit.openKey(place, function () { return data.workspace; });
  var path = "/api/v1/interns/" + data.intern + "/chat/completions";
  var session = data.session;
  var LABELS = {
    allow_once: "Allow this once", allow_always: "Always allow it", reject_once: "Refuse this once", reject_always: "Always refuse it",
  };

  function find(id) { return document.getElementById(id); }

  function make(tag, name, text) {
    var element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function addTurn(role, name, text) {
    var empty = log.querySelector(".play-empty"), turn = make("article", "play-turn " + role);
    if (empty) empty.remove();
    turn.append(make("h3", "", name), make("div", "play-text", text));
    log.append(turn);
    log.scrollTop = log.scrollHeight;
    return turn;
  }

  function setBusy(busy) {
    find("send").disabled = busy;
    find("stop").hidden = !busy;
  }

  // An answer goes to the conversation that asked, which can be another person's: a prompt never does.
  async function send(message, asker) {
    var turn = addTurn("assistant busy", "Intern", "");
    var answer = { text: "", thinking: "", calls: [], error: "", session: null, usage: null };
    var body = { stream: true, messages: [message] };
    if (asker || session) body.session_id = asker || session;
    if (message.role === "user" && find("manual").checked) body.approval_mode = "manual";
    control = new AbortController();
    setBusy(true);
    try {
      var response = await call(path, { method: "POST", body: JSON.stringify(body), signal: control.signal });
      if (!response.ok) answer.error = await kit.readError(response);
      else if (response.status === 202) answer.text = "It takes this into the turn that it is at.";
      else {
        var draw = kit.drawSeldom(function () {
          turn.querySelector(".play-text").textContent = answer.text;
          log.scrollTop = log.scrollHeight;
        });
        await kit.readEvents(response, function (event) {
          kit.formats.chat.readEvent(event, answer);
          draw();
        });
      }
    } catch (error) {
      answer.error = error.name === "AbortError" ? "Stopped." : error.message;
    }
    turn.querySelector(".play-text").textContent = answer.text;
    turn.classList.remove("busy");
    if (answer.session && !asker) session = answer.session;
    if (answer.error) turn.append(make("p", "notice bad", answer.error));
    var asked = answer.calls.filter(Boolean)[0];
    if (asked) {
      if (!answer.text) turn.remove();
      showQuestion(asked.id, JSON.parse(asked.input), asker || session);
    } else if (answer.usage) {
      turn.append(make("p", "play-facts", answer.usage.total_tokens + " tokens, $" + Number(answer.usage.cost || 0).toFixed(9).replace(/0+$/, "")));
    }
    log.scrollTop = log.scrollHeight;
    control = null;
    setBusy(false);
    find("announcements").textContent = asked ? "It asks something" : "It answered";
  }

  // --- Questions ------------------------------------------------------------------------------------

  function reply(id, content, words, asker) {
    find("question").hidden = true;
    addTurn("user", "You", words);
    send({ role: "tool", tool_call_id: id, content: content }, asker);
  }

  function addButton(row, text, act, name) {
    var button = make("button", name || "", text);
    button.type = "button";
    button.addEventListener("click", act);
    row.append(button);
  }

  function showQuestion(id, asked, asker) {
    var form = find("question"), row = make("p", "buttons");
    form.replaceChildren();
    form.onsubmit = function (event) { event.preventDefault(); };
    if (asked.kind === "permission") {
      form.append(make("h3", "", "May it do this?"), make("code", "", asked.operation || "something that it does not name"));
      asked.options.forEach(function (option) {
        addButton(row, LABELS[option] || option, function () { reply(id, option, LABELS[option] || option, asker); });
      });
    } else {
      form.append(make("h3", "", asked.message));
      asked.fields.forEach(function (field, at) { form.append(makeField(field, at)); });
      addButton(row, "Answer", function () {
        if (form.reportValidity()) {
          var content = readFields(asked.fields);
          reply(id, JSON.stringify({ action: "accept", content: content }), Object.values(content).join(", "), asker);
        }
      }, "main");
      addButton(row, "Do not say", function () { reply(id, JSON.stringify({ action: "decline" }), "I do not say.", asker); });
    }
    form.append(row);
    form.hidden = false;
    (form.querySelector("input, select") || form.querySelector("button")).focus();
  }

  function makeField(field, at) {
    var box = make("div", "field"), label = make("label", "", field.name), input;
    if (field.options) {
      input = make("select");
      field.options.forEach(function (option) { input.append(make("option", "", String(option))); });
    } else {
      input = make("input");
      input.type = { boolean: "checkbox", number: "number", integer: "number" }[field.type] || "text";
      if (field.type === "number") input.step = "any";
    }
    input.id = label.htmlFor = "answer-" + at;
    input.required = field.required && field.type !== "boolean";
    box.append(label, input);
    return box;
  }

  function readFields(fields) {
    var content = {};
    fields.forEach(function (field, at) {
      var input = find("answer-" + at), number = field.type === "number" || field.type === "integer";
      if (field.type === "boolean") content[field.name] = field.options ? input.value === "true" : input.checked;
      else if (input.value !== "") content[field.name] = number ? Number(input.value) : input.value;
    });
    return content;
  }

  // --- The page -------------------------------------------------------------------------------------

  find("say").addEventListener("submit", function (event) {
    event.preventDefault();
    var text = find("prompt").value.trim();
    if (!text || find("send").disabled) return;
    find("prompt").value = "";
    addTurn("user", "You", text);
    send({ role: "user", content: text });
  });
  find("prompt").addEventListener("keydown", function (event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("say").requestSubmit();
  });
  find("stop").addEventListener("click", function () { if (control) control.abort(); });
  log.scrollTop = log.scrollHeight;
  if (data.question) showQuestion(data.question.id, data.question.asked, data.question.session);
})();
