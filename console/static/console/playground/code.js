// A request as lines to paste: for curl, Python and Node. `$API_KEY` stands where a key goes.
(function () {
  "use strict";

  // What the official Python clients take as arguments; the rest travels in `extra_body`.
  var ARGUMENTS = {
    chat: "model messages temperature top_p max_tokens stream tools tool_choice response_format stop seed reasoning_effort",
    messages: "model messages system max_tokens temperature top_p stream tools tool_choice stop_sequences thinking",
    responses: "model input instructions max_output_tokens temperature top_p stream tools tool_choice reasoning text",
  };
  var CALLS = { chat: "chat.completions", messages: "messages", responses: "responses" };
  var LINE_MAX = 88;

  function quote(text) { return "'" + text.replace(/'/g, "'\\''") + "'"; }

  // Long content of files is shown as dots.
  function shorten(body) {
    return JSON.parse(JSON.stringify(body, function (name, value) {
      return typeof value === "string" && value.length > 4000 ? value.slice(0, 60) + "…" : value;
    }));
  }

  function writePython(value, indent) {
    if (value === true) return "True";
    if (value === false) return "False";
    if (value === null) return "None";
    if (typeof value !== "object") return JSON.stringify(value);
    var isList = Array.isArray(value), inner = indent + "    ";
    var parts = isList
      ? value.map(function (each) { return writePython(each, inner); })
      : Object.keys(value).map(function (name) { return JSON.stringify(name) + ": " + writePython(value[name], inner); });
    var marks = isList ? "[]" : "{}", short = marks[0] + parts.join(", ") + marks[1];
    if (short.length + indent.length <= LINE_MAX && short.indexOf("\n") < 0) return short;
    return marks[0] + "\n" + inner + parts.join(",\n" + inner) + ",\n" + indent + marks[1];
  }

  function python(format, root, body) {
    var taken = ARGUMENTS[format].split(" "), beside = {}, lines = [];
    Object.keys(body).forEach(function (name) {
      if (taken.indexOf(name) < 0) beside[name] = body[name];
      else lines.push("    " + name + "=" + writePython(body[name], "    ") + ",");
    });
    // This client wants a limit.
    if (format === "messages" && !body.max_tokens) lines.push("    max_tokens=1024,");
    if (Object.keys(beside).length) lines.push("    extra_body=" + writePython(beside, "    ") + ",");
    var isMessages = format === "messages";
    return [
      "import os",
      isMessages ? "from anthropic import Anthropic" : "from openai import OpenAI", "",
      isMessages
        ? 'client = Anthropic(base_url="' + root + '/api", auth_token=os.environ["API_KEY"])'
        : 'client = OpenAI(base_url="' + root + '/api/v1", api_key=os.environ["API_KEY"])',
      "answer = client." + CALLS[format] + ".create(",
    ].concat(lines, ")", body.stream ? ["for event in answer:", "    print(event)"] : ["print(answer)"]).join("\n");
  }

  function node(format, root, body) {
    var isMessages = format === "messages";
    if (isMessages && !body.max_tokens) body = Object.assign({}, body, { max_tokens: 1024 });
    var name = isMessages ? "Anthropic" : "OpenAI";
    var way = isMessages ? 'baseURL: "' + root + '/api", authToken' : 'baseURL: "' + root + '/api/v1", apiKey';
    return [
      "import " + name + ' from "' + (isMessages ? "@anthropic-ai/sdk" : "openai") + '";', "",
      "const client = new " + name + "({ " + way + ": process.env.API_KEY });",
      "const answer = await client." + CALLS[format] + ".create(" + JSON.stringify(body, null, 2) + ");",
      body.stream ? "for await (const event of answer) console.log(event);" : "console.log(answer);",
    ].join("\n");
  }

  function curl(root, path, body) {
    return [
      "curl " + (body.stream ? "-N " : "") + root + path + " \\",
      '  -H "Authorization: Bearer $API_KEY" \\',
      '  -H "Content-Type: application/json" \\',
      "  -d " + quote(JSON.stringify(body, null, 2)),
    ].join("\n");
  }

  // The texts by the client's name. Without a format (interns, decisions) there is curl alone.
  window.playground.writeCode = function (root, path, format, body) {
    body = shorten(body);
    var none = "This has no client of its own: ask it as curl does.";
    return {
      curl: curl(root, path, body),
      python: format ? python(format, root, body) : none,
      node: format ? node(format, root, body) : none,
    };
  };
})();
