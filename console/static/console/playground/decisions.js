// Decisions: a question from the form, and its answer as bars.
(function () {
  "use strict";

  function field(id) { return document.getElementById(id).value.trim(); }

  // Lines such as `billing: money and invoices`, in their order.
  function readOptions() {
    return field("options").split("\n").map(function (line) {
      var at = line.indexOf(":");
      return at < 0 ? [line.trim(), null] : [line.slice(0, at).trim(), line.slice(at + 1).trim() || null];
    }).filter(function (pair) { return pair[0]; });
  }

  function buildQuestion() {
    var kind = field("kind"), question = { type: kind, instructions: field("question") };
    if (kind === "score") {
      question.criteria = readOptions().map(function (pair) { return pair[1] ? pair[0] + ": " + pair[1] : pair[0]; });
    } else if (kind === "choice") {
      question.criteria = {};
      readOptions().forEach(function (pair) { question.criteria[pair[0]] = pair[1]; });
    }
    return question;
  }

  // `[label, probability]` of each option, in the order of the question.
  function listShares(answer) {
    if (answer.type === "noul") return [["yes", answer.noul], ["no", 1 - answer.noul]];
    return Object.keys(answer.probabilities).map(function (label) {
      var level = answer.legend && answer.legend[label];
      return [level ? label + " " + level : label, answer.probabilities[label]];
    });
  }

  function draw(answer, place) {
    var shares = listShares(answer), most = Math.max.apply(null, shares.map(function (each) { return each[1]; }));
    var list = document.createElement("ul");
    list.className = "bars";
    shares.forEach(function (each) {
      var row = document.createElement("li"), name = document.createElement("span");
      var number = document.createElement("span"), bar = document.createElement("progress");
      var percent = (each[1] * 100).toFixed(1) + " %";
      name.className = "name";
      name.textContent = each[0];
      number.className = "num";
      number.textContent = percent;
      bar.max = 1;
      bar.value = each[1];
      bar.setAttribute("aria-label", each[0]);
      if (each[1] === most) { bar.className = "good"; name.classList.add("play-likeliest"); }
      row.append(name, number, bar);
      list.append(row);
    });
    place.append(list);
    var words = [];
    if (answer.type === "score") words.push("score " + answer.score.toFixed(2));
    if (answer.confidence !== undefined) words.push("confidence " + answer.confidence.toFixed(2) + " (0 is chance, 1 is certain)");
    if (words.length) {
      var line = document.createElement("p");
      line.className = "soft";
      line.textContent = words.join(", ");
      place.append(line);
    }
  }

  function showOptions() { document.getElementById("options-field").hidden = field("kind") === "noul"; }

  window.playground.decisions = {
    path: "/api/alpha/decisions",
    build: function (model, settings) {
      var body = { model: model, state: field("state"), questions: { question: buildQuestion() } };
      if (Object.keys(settings.provider).length) body.provider = settings.provider;
      return Object.assign(body, settings.extra);
    },
    draw: draw,
  };

  if (document.getElementById("kind")) {
    document.getElementById("kind").addEventListener("change", showOptions);
    showOptions();
  }
})();
