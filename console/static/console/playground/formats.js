// The three formats: the body of a request in each, and text out of what comes back.
//
// A `wish` is `{model, system, turns, settings}`; a turn is `{role, text, files, calls}` or `{role: "tool", results}`, a file
// `{name, type, url}` with its content as a data URL, a call `{id, name, input}`, a result `{id, text}`.
// An `answer` is `{text, thinking, calls, error, usage, session}`, filled in place.
(function () {
  "use strict";

  function isImage(file) { return file.type.indexOf("image/") === 0; }

  function base64(file) { return file.url.slice(file.url.indexOf(",") + 1); }

  // Fields that are empty are left to the model.
  function clean(fields) {
    Object.keys(fields).forEach(function (name) {
      var value = fields[name];
      if (value === "" || value === null || value === undefined) delete fields[name];
    });
    return fields;
  }

  // `build` makes a function of what the form says; the gateway's own tools are the same in each format.
  function finish(wish, fields, build) {
    var settings = wish.settings;
    if (settings.tools.length) fields.tools = settings.tools.map(function (each) { return each.type ? each : build(each); });
    if (Object.keys(settings.provider).length) fields.provider = settings.provider;
    if (settings.stream) fields.stream = true;
    return Object.assign(clean(fields), settings.extra);
  }

  function content(turn, text, image, file) {
    var files = turn.files || [];
    if (!files.length) return turn.text;
    return [{ type: text, text: turn.text }].concat(files.map(function (each) {
      // Every model reads text, whatever the format has for files.
      if (each.text !== undefined) return { type: text, text: "\n" + each.name + ":\n" + each.text };
      return isImage(each) ? image(each) : file(each);
    }));
  }

  // What `build` makes of each turn, in one list.
  function listAll(turns, build) { return [].concat.apply([], turns.map(build)); }

  function readText(answer, text) { if (text) answer.text += text; }

  // --- Chat -----------------------------------------------------------------------------------------

  function readChatDelta(delta, answer) {
    readText(answer, delta.content);
    if (delta.reasoning) answer.thinking += delta.reasoning;
    (delta.tool_calls || []).forEach(function (call, number) {
      var at = call.index === undefined ? number : call.index;
      var own = answer.calls[at] = answer.calls[at] || { name: "", input: "", id: "" };
      if (call.id) own.id = call.id;
      if (call.function && call.function.name) own.name = call.function.name;
      if (call.function && call.function.arguments) own.input += call.function.arguments;
    });
  }

  var chat = {
    label: "Chat", path: "/api/v1/chat/completions", preset: "chat/completions",
    build: function (wish) {
      var messages = listAll(wish.turns, function (turn) {
        if (turn.results) return turn.results.map(function (each) { return { role: "tool", tool_call_id: each.id, content: each.text }; });
        var message = { role: turn.role, content: content(turn, "text",
          function (file) { return { type: "image_url", image_url: { url: file.url } }; },
          function (file) { return { type: "file", file: { filename: file.name, file_data: file.url } }; }) };
        if (turn.calls) message.tool_calls = turn.calls.map(function (each) {
          return { id: each.id, type: "function", function: { name: each.name, arguments: each.input || "{}" } };
        });
        return message;
      });
      if (wish.system) messages.unshift({ role: "system", content: wish.system });
      var settings = wish.settings;
      return finish(wish, {
        model: wish.model, messages: messages, temperature: settings.temperature, top_p: settings.top_p,
        max_tokens: settings.max_tokens, reasoning: settings.effort ? { effort: settings.effort } : null,
      }, function (tool) { return { type: "function", function: tool }; });
    },
    readEvent: function (event, answer) {
      if (event.error) answer.error = event.error.message;
      if (event.session_id) answer.session = event.session_id;
      if (event.usage) answer.usage = event.usage;
      var choice = (event.choices || [])[0];
      if (!choice) return;
      if (choice.error) answer.error = choice.error.message;
      readChatDelta(choice.delta || {}, answer);
    },
    readWhole: function (body, answer) { readChatDelta(body.choices[0].message, answer); },
  };

  // --- Messages -------------------------------------------------------------------------------------

  function readBlock(block, answer) {
    readText(answer, block.text);
    if (block.thinking) answer.thinking += block.thinking;
    if (block.type === "tool_use") answer.calls.push({ id: block.id, name: block.name, input: JSON.stringify(block.input || {}) });
  }

  function buildMessage(turn) {
    if (turn.results) return { role: "user", content: turn.results.map(function (each) {
      return { type: "tool_result", tool_use_id: each.id, content: each.text };
    }) };
    if (!turn.calls) return { role: turn.role, content: content(turn, "text", source("image"), source("document")) };
    var text = turn.text ? [{ type: "text", text: turn.text }] : [];
    return { role: turn.role, content: text.concat(turn.calls.map(function (each) {
      return { type: "tool_use", id: each.id, name: each.name, input: JSON.parse(each.input || "{}") };
    })) };
  }

  var messages = {
    label: "Messages", path: "/api/v1/messages", preset: "messages",
    build: function (wish) {
      var settings = wish.settings;
      return finish(wish, {
        model: wish.model, system: wish.system, max_tokens: settings.max_tokens,
        messages: wish.turns.map(buildMessage),
        temperature: settings.temperature, top_p: settings.top_p,
        output_config: settings.effort ? { effort: settings.effort } : null,
      }, function (tool) { return clean({ name: tool.name, description: tool.description, input_schema: tool.parameters }); });
    },
    readEvent: function (event, answer) {
      if (event.type === "error") answer.error = event.error.message;
      if (event.type === "content_block_start" && event.content_block.type === "tool_use") {
        answer.calls.push({ id: event.content_block.id, name: event.content_block.name, input: "" });
      }
      if (event.type !== "content_block_delta") return;
      readText(answer, event.delta.text);
      if (event.delta.thinking) answer.thinking += event.delta.thinking;
      if (event.delta.partial_json && answer.calls.length) answer.calls[answer.calls.length - 1].input += event.delta.partial_json;
    },
    readWhole: function (body, answer) {
      body.content.forEach(function (block) { readBlock(block, answer); });
    },
  };

  function source(type) {
    return function (file) {
      return { type: type, source: { type: "base64", media_type: file.type, data: base64(file) } };
    };
  }

  // --- Responses ------------------------------------------------------------------------------------

  var responses = {
    label: "Responses", path: "/api/v1/responses", preset: "responses",
    build: function (wish) {
      var settings = wish.settings;
      var input = listAll(wish.turns, function (turn) {
        if (turn.results) return turn.results.map(function (each) { return { type: "function_call_output", call_id: each.id, output: each.text }; });
        if (turn.calls) return (turn.text ? [{ role: turn.role, content: turn.text }] : []).concat(turn.calls.map(function (each) {
          return { type: "function_call", call_id: each.id, name: each.name, arguments: each.input || "{}" };
        }));
        return { role: turn.role, content: content(turn, "input_text",
          function (file) { return { type: "input_image", image_url: file.url, detail: "auto" }; },
          function (file) { return { type: "input_file", filename: file.name, file_data: file.url }; }) };
      });
      return finish(wish, {
        model: wish.model, instructions: wish.system, input: input, max_output_tokens: settings.max_tokens,
        temperature: settings.temperature, top_p: settings.top_p,
        reasoning: settings.effort ? { effort: settings.effort } : null,
      }, function (tool) { return Object.assign({ type: "function" }, tool); });
    },
    readEvent: function (event, answer) {
      if (event.type === "response.output_text.delta") readText(answer, event.delta);
      else if (/^response\.reasoning.*\.delta$/.test(event.type)) answer.thinking += event.delta;
      else if (event.type === "response.output_item.done" && event.item.type === "function_call") {
        answer.calls.push({ id: event.item.call_id, name: event.item.name, input: event.item.arguments });
      } else if (event.type === "response.failed") answer.error = event.response.error.message;
      else if (event.type === "error") answer.error = event.message || (event.error || {}).message;
    },
    readWhole: function (body, answer) {
      body.output.forEach(function (item) {
        if (item.type === "function_call") answer.calls.push({ id: item.call_id, name: item.name, input: item.arguments });
        (item.content || []).forEach(function (part) {
          if (item.type === "reasoning") answer.thinking += part.text || "";
          else readText(answer, part.text);
        });
      });
    },
  };

  // --- What comes back ------------------------------------------------------------------------------

  // Laying out a long answer for each of its words would keep the page from hearing a click.
  function drawSeldom(draw) {
    var timer = 0;
    return function () {
      if (!timer) timer = setTimeout(function () { timer = 0; draw(); }, 80);
    };
  }

  // Calls `read` with each event of a stream, as an object.
  async function readEvents(response, read) {
    var reader = response.body.getReader(), decoder = new TextDecoder(), rest = "";
    for (;;) {
      var piece = await reader.read();
      if (piece.done) return;
      rest += decoder.decode(piece.value, { stream: true });
      var lines = rest.split("\n");
      rest = lines.pop();
      lines.forEach(function (line) {
        if (line.indexOf("data:") !== 0) return;
        var text = line.slice(5).trim();
        if (text && text !== "[DONE]") read(JSON.parse(text));
      });
    }
  }

  async function readError(response) {
    try {
      var body = await response.json();
      return body.error.message || String(body.error);
    } catch (error) { return "The gateway answered " + response.status; }
  }

  window.playground = {
    formats: { chat: chat, messages: messages, responses: responses }, readEvents: readEvents, drawSeldom: drawSeldom, readError: readError,
  };
})();
