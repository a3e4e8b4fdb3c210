// The tools of a request as a form: those that the gateway runs, and functions whose calls the person answers.
(function () {
  "use strict";

  var NAME = /^[A-Za-z0-9_-]{1,64}$/;
  var place = document.getElementById("tools");
  if (!place) return;
  var functions = document.getElementById("functions");

  function copy(id) { return document.getElementById(id).content.firstElementChild.cloneNode(true); }

  function read(row, name) { return row.querySelector("." + name).value.trim(); }

  function removeBy(row, button) {
    row.querySelector(button).addEventListener("click", function () {
      var next = row.parentElement.parentElement;
      row.remove();
      next.querySelector("button").focus();
    });
  }

  function addParameter(row) {
    var parameter = copy("tool-parameter");
    removeBy(parameter, ".tool-parameter-remove");
    row.querySelector(".tool-parameters").append(parameter);
    parameter.querySelector("input").focus();
  }

  document.getElementById("add-function").addEventListener("click", function () {
    var row = copy("tool-function");
    row.querySelector(".tool-add").addEventListener("click", function () { addParameter(row); });
    removeBy(row, ".tool-remove");
    functions.append(row);
    row.querySelector("input").focus();
  });

  function checkName(name, what) {
    if (!NAME.test(name)) throw new Error(what + " needs a name of letters, digits, “_” and “-”: “" + name + "” is none.");
    return name;
  }

  // The JSON schema of a function's rows.
  function readParameters(row) {
    var properties = {}, required = [];
    row.querySelectorAll(".tool-parameter").forEach(function (each) {
      var name = checkName(read(each, "tool-name"), "A parameter"), type = read(each, "tool-type");
      properties[name] = type === "array" ? { type: type, items: { type: "string" } } : { type: type };
      if (read(each, "tool-about")) properties[name].description = read(each, "tool-about");
      if (each.querySelector(".tool-required").checked) required.push(name);
    });
    var schema = { type: "object", properties: properties };
    if (required.length) schema.required = required;
    return schema;
  }

  // Tools as `{type}` or `{name, description, parameters}`. Throws an `Error` with words for people.
  function readTools() {
    var own = Array.from(place.querySelectorAll("[name=server-tool]:checked")).map(function (each) { return { type: each.value }; });
    return own.concat(Array.from(functions.children).map(function (row) {
      var tool = { name: checkName(read(row, "tool-name"), "A function"), parameters: readParameters(row) };
      if (read(row, "tool-about")) tool.description = read(row, "tool-about");
      return tool;
    }));
  }

  // A form for what came of the calls; `send` gets `[{id, text}]`.
  function buildResults(calls, send) {
    var form = document.createElement("form");
    form.className = "play-results";
    calls.forEach(function (call, at) {
      var label = document.createElement("label"), name = document.createElement("span"), field = document.createElement("textarea");
      label.className = "field";
      name.className = "label";
      name.textContent = "What " + call.name + " gives" + (calls.length > 1 ? " (" + (at + 1) + ")" : "");
      field.rows = 2;
      field.required = true;
      label.append(name, field);
      form.append(label);
    });
    var button = document.createElement("button");
    button.textContent = "Send the result" + (calls.length > 1 ? "s" : "");
    form.append(button);
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      send(Array.from(form.querySelectorAll("textarea")).map(function (field, at) { return { id: calls[at].id, text: field.value }; }));
    });
    return form;
  }

  window.playground.tools = { read: readTools, buildResults: buildResults };
})();
