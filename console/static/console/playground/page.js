// The playground: columns of models, each with its own conversation, asked the same and answered side by side.
(function () {
  "use strict";

  var place = document.getElementById("playground");
  if (!place) return;
  var kit = window.playground, formats = kit.formats;
  var data = JSON.parse(document.getElementById("playground-data").textContent);
  var COLUMNS_MAX = 4, TRIES = 8, STOPPED = "Stopped.", QUESTION = "router.provide_input";
  var columns = [], count = 0;
  var call = kit.openKey(place, function () { return find("workspace").value; });

  function find(id) { return document.getElementById(id); }

  function make(tag, name, text) {
    var element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function announce(text) { find("announcements").textContent = text; }

  var files = kit.openFiles(find("file"), find("files"), announce);

  function wait(ms) { return new Promise(function (done) { setTimeout(done, ms); }); }

  // --- Columns --------------------------------------------------------------------------------------

  function addColumn(model, format) {
    if (columns.length >= COLUMNS_MAX) return;
    count += 1;
    var element = find("column").content.firstElementChild.cloneNode(true);
    var column = {
      element: element, model: element.querySelector(".play-model"), format: element.querySelector(".play-format"),
      log: element.querySelector(".play-log"), turns: [], session: null, control: null,
    };
    [["model", column.model], ["format", column.format]].forEach(function (pair) {
      pair[1].id = pair[0] + "-" + count;
      pair[1].previousElementSibling.htmlFor = pair[1].id;
    });
    column.model.value = model;
    if (format in formats) column.format.value = format;
    column.log.setAttribute("aria-label", "Conversation " + count);
    column.model.addEventListener("change", function () { showFormat(column); });
    element.querySelector(".play-remove").addEventListener("click", function () { removeColumn(column); });
    columns.push(column);
    find("columns").append(element);
    showFormat(column);
    countColumns();
    return column;
  }

  function removeColumn(column) {
    if (column.control) column.control.abort();
    columns.splice(columns.indexOf(column), 1);
    column.element.remove();
    countColumns();
    columns[0].model.focus();
  }

  function countColumns() {
    find("columns").dataset.count = columns.length;
    find("add").disabled = columns.length >= COLUMNS_MAX;
    columns.forEach(function (each) { each.element.querySelector(".play-remove").hidden = columns.length < 2; });
  }

  function findIntern(column) {
    return data.targets.find(function (each) {
      return each.intern_id && each.name === column.model.value.trim() && each.workspace === find("workspace").value;
    });
  }

  // An intern has a conversation of its own kind.
  function showFormat(column) { column.format.disabled = Boolean(findIntern(column)); }

  function listTargets() {
    var workspace = find("workspace").value, list = find("targets");
    list.replaceChildren.apply(list, data.targets.filter(function (each) {
      return !each.workspace || each.workspace === workspace;
    }).map(function (each) {
      var option = make("option", "", each.label);
      option.value = each.name;
      return option;
    }));
  }

  // --- What is asked --------------------------------------------------------------------------------

  function readNumber(id) { var text = find(id).value; return text === "" ? null : Number(text); }

  function readList(id) {
    return find(id).value.split(",").map(function (each) { return each.trim(); }).filter(Boolean);
  }

  // Throws an `Error` with words for people where JSON or a tool is none.
  function readSettings() {
    var provider = {}, extra = {}, text = find("extra").value.trim();
    if (find("sort").value) provider.sort = find("sort").value;
    if (readList("only").length) provider.only = readList("only");
    if (readList("ignore").length) provider.ignore = readList("ignore");
    if (!find("fallbacks").checked) provider.allow_fallbacks = false;
    if (find("deny").checked) provider.data_collection = "deny";
    if (find("zdr").checked) provider.zdr = true;
    if (text) {
      try { extra = JSON.parse(text); } catch (error) { throw new Error("“Anything else” is no JSON: " + error.message); }
    }
    return {
      temperature: readNumber("temperature"), top_p: readNumber("top_p"), max_tokens: readNumber("max_tokens"),
      effort: find("effort").value, stream: find("stream").checked, provider: provider, tools: isDeciding() ? [] : kit.tools.read(), extra: extra,
    };
  }

  // `{path, body, format}` of the column's next request; the format is empty for interns and decisions.
  function buildRequest(column, turns) {
    var settings = readSettings(), model = column.model.value.trim(), intern = findIntern(column);
    if (isDeciding()) return { path: kit.decisions.path, body: kit.decisions.build(model, settings), format: "" };
    if (intern) {
      var last = turns[turns.length - 1], body = { stream: true, messages: [{ role: "user", content: last ? last.text : "" }] };
      if (column.session) body.session_id = column.session;
      return { path: "/api/v1/interns/" + intern.intern_id + "/chat/completions", body: body, format: "" };
    }
    var format = column.format.value;
    var wish = { model: model, system: find("system").value.trim(), turns: turns, settings: settings };
    return { path: formats[format].path, body: formats[format].build(wish), format: format };
  }

  function isDeciding() { return !find("decider").hidden; }

  // --- Answers --------------------------------------------------------------------------------------

  function addTurn(column, turn, name) {
    var empty = column.log.querySelector(".play-empty");
    if (empty) empty.remove();
    var element = make("article", "play-turn " + turn.role);
    element.append(make("h3", "", name), make("div", "play-text", turn.text));
    if ((turn.files || []).length) {
      element.append(make("p", "soft", turn.files.map(function (file) { return file.name; }).join(", ")));
    }
    column.log.append(element);
    column.log.scrollTop = column.log.scrollHeight;
    return element;
  }

  function showAnswer(element, answer) {
    element.querySelector(".play-text").textContent = answer.text;
    if (answer.thinking) {
      var box = element.querySelector("details");
      if (!box) {
        box = make("details", "soft");
        box.append(make("summary", "", "Reasoning"), make("div", "play-text"));
        element.querySelector("h3").after(box);
      }
      box.lastChild.textContent = answer.thinking;
    }
  }

  function showEnd(element, answer) {
    answer.calls.filter(Boolean).forEach(function (each) {
      if (each.name === QUESTION) { element.append(make("p", "", "It asks something, and waits for the answer on its page.")); return; }
      element.append(make("p", "soft", "It calls a tool:"), make("code", "play-call", each.name + " " + each.input));
    });
    if (answer.error) element.append(make("p", "notice bad", answer.error));
  }

  function formatUsd(usd) {
    var digits = usd.toFixed(9).replace(/0+$/, "");
    return "$" + digits + "0".repeat(Math.max(0, 2 - digits.split(".")[1].length));
  }

  function formatMs(ms) { return ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toPrecision(3) + " s"; }

  // Cost, tokens, times and the way to why: from the request's record, which stands before the answer ends.
  async function showFacts(element, generation, times, stopped, usage, intern, refused) {
    var line = make("p", "play-facts"), record = null;
    element.append(line);
    for (var tried = 0; generation && !record && tried < TRIES; tried += 1) {
      // Of a stopped one the record comes a moment later.
      if (tried || stopped) await wait(400 * Math.max(tried, 1));
      var answer = await call("/api/v1/generation?id=" + encodeURIComponent(generation), {});
      if (answer.ok) record = (await answer.json()).data;
    }
    var words = [];
    if (record) {
      words.push(["Cost", formatUsd(Number(record.total_cost))]);
      words.push(["Tokens", (record.tokens_prompt || 0) + " → " + (record.tokens_completion || 0)]);
    }
    if (intern && usage) {
      words.push(["Cost", formatUsd(usage.cost || 0)]);
      words.push(["Tokens", usage.prompt_tokens + " → " + usage.completion_tokens]);
    }
    if (times.first) words.push(["First token", formatMs(times.first)]);
    words.push(["Time", formatMs(times.whole)]);
    if (record && record.provider_name) words.push(["Provider", record.provider_name]);
    words.forEach(function (pair) {
      var item = make("span");
      item.append(make("span", "soft", pair[0] + " "), make("strong", "", pair[1]));
      line.append(item);
    });
    var link = make("a", "", intern ? "Go on with it" : generation ? "Why it went there" : "All requests");
    link.href = place.dataset.requestUrl + (generation ? "/" + encodeURIComponent(generation) : "");
    if (refused) {
      link.textContent = "Why it was refused";
      link.href = place.dataset.requestUrl + "?text=" + encodeURIComponent(refused);
    }
    if (intern) link.href = place.dataset.internUrl + "/" + intern.intern_id;
    line.append(link);
  }

  async function ask(column, turns) {
    var name = column.model.value.trim(), element = addTurn(column, { role: "assistant", text: "" }, name);
    var answer = { text: "", thinking: "", calls: [], error: "", session: null, usage: null };
    var began = performance.now(), times = { first: 0, whole: 0 }, generation = "", refused = "";
    var request = null, forms = column.element.querySelectorAll(".play-results");
    column.control = new AbortController();
    element.classList.add("busy");
    try {
      request = buildRequest(column, turns);
      var format = formats[request.format] || formats.chat;
      var response = await call(request.path, {
        method: "POST", body: JSON.stringify(request.body), signal: column.control.signal,
      });
      generation = response.headers.get("X-Generation-Id") || "";
      if (!response.ok && !generation) refused = response.headers.get("X-Request-Id") || "";
      if (!response.ok) answer.error = await kit.readError(response);
      else if ((response.headers.get("Content-Type") || "").indexOf("text/event-stream") === 0) {
        var draw = kit.drawSeldom(function () {
          showAnswer(element, answer);
          column.log.scrollTop = column.log.scrollHeight;
        });
        await kit.readEvents(response, function (event) {
          format.readEvent(event, answer);
          if (!times.first && (answer.text || answer.thinking)) times.first = performance.now() - began;
          draw();
        });
      } else if (isDeciding()) kit.decisions.draw((await response.json()).answers.question, element);
      else format.readWhole(await response.json(), answer);
    } catch (error) {
      answer.error = error.name === "AbortError" ? STOPPED : error.message;
    }
    times.whole = performance.now() - began;
    showAnswer(element, answer);
    showEnd(element, answer);
    element.classList.remove("busy");
    column.control = null;
    // A new conversation has begun meanwhile.
    if (column.turns !== turns) return;
    // What a person typed can be sent again until its answer is there.
    if (!answer.error) forms.forEach(function (each) { each.remove(); });
    if (answer.session) column.session = answer.session;
    if (answer.text) column.turns.push({ role: "assistant", text: answer.text });
    else column.turns = turns.slice(0, turns.map(function (each) { return each.role; }).lastIndexOf("user"));
    if (answer.calls.length && !answer.error && request.format) askForResults(column, element, turns, answer);
    try { await showFacts(element, generation, times, answer.error === STOPPED, answer.usage, findIntern(column), refused); } catch (error) { /* The answer stands without them. */ }
    column.log.scrollTop = column.log.scrollHeight;
  }

  // Until they are there, the calls are no part of the conversation: another message leaves them out.
  function askForResults(column, element, turns, answer) {
    turns = turns.slice(0, answer.text ? -1 : undefined);
    element.append(kit.tools.buildResults(answer.calls.filter(Boolean), function (results) {
      var called = { role: "assistant", text: answer.text, calls: answer.calls.filter(Boolean) };
      var result = { role: "tool", results: results, text: results.map(function (each) { return each.text; }).join("\n") };
      askEach([column], result, "Result", turns.concat(called, result));
    }));
    // Another column may still answer.
    setBusy(true);
  }

  function setBusy(isBusy) {
    find("stop").hidden = !isBusy;
    place.querySelectorAll("#send, #decide, .play-results button").forEach(function (each) { each.disabled = isBusy; });
  }

  // Asks each column to answer the turn after its conversation, or after `all` with the turn.
  async function askEach(asked, turn, name, all) {
    setBusy(true);
    await Promise.all(asked.map(function (column) {
      addTurn(column, turn, name);
      column.turns = isDeciding() ? [] : all || column.turns.concat(turn);
      return ask(column, column.turns);
    }));
    setBusy(false);
    announce(asked.length === 1 ? "The answer is there" : "All answers are there");
  }

  function clear() {
    columns.forEach(function (column) {
      if (column.control) column.control.abort();
      column.turns = [];
      column.session = null;
      column.log.replaceChildren(make("p", "soft play-empty", "Nothing asked yet."));
    });
    find("prompt").focus();
  }

  // --- Code and presets -----------------------------------------------------------------------------

  function showCode() {
    var column = columns[Number(find("code-of").value)] || columns[0], texts;
    var prompt = find("prompt").value.trim() || "Hello";
    try {
      var request = buildRequest(column, column.turns.concat({ role: "user", text: prompt, files: files.read() }));
      texts = kit.writeCode(data.root, request.path, request.format, request.body);
      texts.preset = kit.writeCode(data.root, presetPath(request), "", buildRequest(column, []).body).curl;
    } catch (error) { texts = { curl: error.message, python: "", node: "", preset: "" }; }
    Object.keys(texts).forEach(function (id) { find("text-" + id).textContent = texts[id]; });
  }

  function presetPath(request) {
    var slug = find("preset-slug").value.trim() || "name";
    return "/api/v1/presets/" + encodeURIComponent(slug) + "/" + (formats[request.format] || formats.chat).preset;
  }

  function openCode() {
    find("code-of").replaceChildren.apply(find("code-of"), columns.map(function (column, at) {
      var option = make("option", "", column.model.value);
      option.value = at;
      return option;
    }));
    find("preset-said").textContent = "";
    showCode();
    find("code-box").showModal();
  }

  async function savePreset() {
    var column = columns[Number(find("code-of").value)] || columns[0], said = find("preset-said");
    try {
      var request = buildRequest(column, []);
      if (!request.format) throw new Error("Presets are made of requests for answers.");
      var answer = await call(presetPath(request), { method: "POST", body: JSON.stringify(request.body) });
      if (!answer.ok) throw new Error(await kit.readError(answer));
      var version = (await answer.json()).data.designated_version.version, slug = find("preset-slug").value.trim();
      said.textContent = "Saved as version " + version + " of @preset/" + slug + ".";
      data.targets.push({ name: "@preset/" + slug, label: slug, workspace: find("workspace").value });
      listTargets();
    } catch (error) { said.textContent = error.message; }
  }

  // --- The page -------------------------------------------------------------------------------------

  find("composer").addEventListener("submit", function (event) {
    event.preventDefault();
    var text = find("prompt").value.trim();
    if (!text || find("send").disabled) return;
    askEach(columns, { role: "user", text: text, files: files.read() }, "You");
    find("prompt").value = "";
    files.clear();
  });
  find("decider").addEventListener("submit", function (event) {
    event.preventDefault();
    if (!find("decide").disabled) askEach(columns, { role: "user", text: find("question").value }, "Question");
  });
  find("panel-preset").addEventListener("submit", function (event) { event.preventDefault(); savePreset(); });
  find("prompt").addEventListener("keydown", function (event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("composer").requestSubmit();
  });
  find("stop").addEventListener("click", function () {
    columns.forEach(function (each) { if (each.control) each.control.abort(); });
  });
  find("clear").addEventListener("click", clear);
  find("add").addEventListener("click", function () {
    var last = columns[columns.length - 1];
    addColumn(last.model.value, last.format.value).model.select();
  });
  find("code").addEventListener("click", openCode);
  find("code-close").addEventListener("click", function () { find("code-box").close(); });
  find("code-of").addEventListener("change", showCode);
  find("preset-slug").addEventListener("input", showCode);
  find("workspace").addEventListener("change", function () { listTargets(); columns.forEach(showFormat); });
  if (matchMedia("(min-width: 1200px)").matches) {
    place.querySelectorAll("[data-wide-open]").forEach(function (each) { each.open = true; });
  }

  listTargets();
  data.start.models.forEach(function (model) { addColumn(model, data.start.format); });
  if (data.start.turns) {
    find("system").value = data.start.system;
    var turns = data.start.turns.slice();
    if (turns.length && turns[turns.length - 1].role === "user") find("prompt").value = turns.pop().text;
    turns.forEach(function (turn) {
      columns[0].turns.push(turn);
      addTurn(columns[0], turn, turn.role === "user" ? "You" : "Answer then");
    });
  }
})();
