"use strict";

// The key lives in this variable and nowhere else.
let key = "";
let session = null;
let running = null;

const by = (id) => document.getElementById(id);

function show(kind, text = "") {
  const item = document.createElement("li");
  item.className = kind;
  item.textContent = text;
  by("log").append(item);
  item.scrollIntoView({ block: "end" });
  return item;
}

async function problemOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The gateway answered ${response.status}.`;
  }
}

function ask(path, body, signal) {
  const headers = { Authorization: `Bearer ${key}` };
  if (body === undefined) {
    return fetch(path, { headers, signal, cache: "no-store" });
  }
  headers["Content-Type"] = "application/json";
  return fetch(path, { method: "POST", headers, signal, body: JSON.stringify(body) });
}

async function enter(event) {
  event.preventDefault();
  key = by("key").value.trim();
  const problem = by("door-problem");
  problem.hidden = true;
  try {
    const response = await ask("/");
    if (!response.ok) throw new Error(await problemOf(response));
    tell(await response.json());
  } catch (error) {
    problem.textContent = error instanceof TypeError ? "The gateway does not answer." : error.message;
    problem.hidden = false;
    key = "";
    return;
  }
  by("key").value = "";
  by("door").hidden = true;
  by("room").hidden = by("leave").hidden = false;
  by("text").focus();
}

function tell(intern) {
  by("name").textContent = document.title = String(intern.name);
  by("status").textContent = intern.model ? `${intern.status}, ${intern.model}` : intern.status;
}

function leave() {
  location.reload();
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ") && part !== "data: [DONE]") yield JSON.parse(part.slice(6));
    }
  }
}

async function converse(body) {
  const mine = (running = new AbortController());
  busy(true);
  let asked = null;
  try {
    const response = await ask("/-/chat", body, mine.signal);
    if (response.status === 202) {
      show("thought", "Passed on to the turn that is running.");
    } else if (!response.ok) {
      show("problem", await problemOf(response));
      return response.status;
    } else {
      asked = await follow(response);
    }
  } catch (error) {
    show("problem", error.name === "AbortError" ? "Stopped." : "The connection was lost.");
  } finally {
    if (running === mine) busy(false);
  }
  if (asked) question(asked);
  return 200;
}

async function follow(response) {
  let item = null;
  let kind = "";
  let call = null;
  const say = (as, text) => {
    if (kind !== as) [item, kind] = [show(as), as];
    item.textContent += text;
    item.scrollIntoView({ block: "end" });
  };
  for await (const chunk of events(response)) {
    if (chunk.session_id) session = chunk.session_id;
    for (const { delta } of chunk.choices) {
      if (delta.reasoning) say("thought", delta.reasoning);
      if (delta.content) say("theirs", delta.content);
      if (delta.tool_calls) call = delta.tool_calls[0];
    }
    if (chunk.error) show("problem", chunk.error.message);
  }
  return call;
}

function busy(yes) {
  by("stop").hidden = !yes;
  if (!yes) running = null;
}

function send(event) {
  event.preventDefault();
  const text = by("text").value;
  if (!text) return;
  by("text").value = "";
  show("mine", text);
  const body = { stream: true, messages: [{ role: "user", content: text }] };
  body.approval_mode = by("manual").checked ? "manual" : "self-drive";
  if (session) body.session_id = session;
  if (running) pass(body);
  else converse(body);
}

// While a stream is open a second request only steers it.
async function pass(body) {
  try {
    const response = await ask("/-/chat", body);
    if (response.status === 202) show("thought", "Passed on to the turn that is running.");
    else if (response.ok) await follow(response);
    else show("problem", await problemOf(response));
  } catch {
    show("problem", "The connection was lost.");
  }
}

function question(call) {
  const asked = JSON.parse(call.function.arguments);
  const item = show("asked");
  const form = document.createElement("form");
  const text = document.createElement("p");
  text.textContent =
    asked.kind === "permission" ? `May I: ${asked.operation ?? "go on"}?` : asked.message;
  form.append(text);
  const reply = async (answer) => {
    for (const each of form.elements) each.disabled = true;
    const messages = [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: answer },
    ];
    const status = await converse({ stream: true, session_id: session, messages });
    if (status === 400 || status === 502) for (const each of form.elements) each.disabled = false;
    else form.remove(), (item.textContent = `${text.textContent} ✓`);
  };
  if (asked.kind === "permission") permission(form, asked, reply);
  else elicitation(form, asked, reply);
  item.append(form);
  item.scrollIntoView({ block: "end" });
}

function button(text, act, plain = true) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  if (plain) made.className = "plain";
  made.addEventListener("click", act);
  return made;
}

function permission(form, asked, reply) {
  const row = document.createElement("div");
  row.className = "row";
  for (const option of asked.options) {
    row.append(button(option.replace("_", " "), () => reply(option), option !== "allow_once"));
  }
  form.append(row);
}

function elicitation(form, asked, reply) {
  const inputs = asked.fields.map((field) => {
    const label = document.createElement("label");
    label.textContent = field.required ? field.name : `${field.name} (optional)`;
    const input = control(field);
    label.append(input);
    form.append(label);
    return [field, input];
  });
  const row = document.createElement("div");
  row.className = "row";
  const accept = () => {
    const content = {};
    for (const [field, input] of inputs) {
      if (field.type === "boolean") content[field.name] = input.checked;
      else if (input.value !== "") content[field.name] = valueOf(field, input.value);
    }
    reply(JSON.stringify({ action: "accept", content }));
  };
  row.append(button("Answer", accept, false));
  row.append(button("Decline", () => reply(JSON.stringify({ action: "decline" }))));
  form.append(row);
  form.addEventListener("submit", (event) => (event.preventDefault(), accept()));
}

function control(field) {
  if (field.options) {
    const select = document.createElement("select");
    if (!field.required) select.append(new Option("", ""));
    for (const option of field.options) select.append(new Option(String(option), option));
    return select;
  }
  const input = document.createElement("input");
  input.type = { boolean: "checkbox", string: "text" }[field.type] ?? "number";
  if (field.type === "number") input.step = "any";
  return input;
}

function valueOf(field, text) {
  return field.type === "string" ? text : Number(text);
}

by("door").addEventListener("submit", enter);
by("prompt").addEventListener("submit", send);
by("leave").addEventListener("click", leave);
by("stop").addEventListener("click", () => running && running.abort());
by("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) send(event);
});
