// What pages do by themselves: theme, menu, times in the viewer's zone, copying, the live tick.
(function () {
  "use strict";

  var root = document.documentElement;

  // --- Times ------------------------------------------------------------------------------------

  var forms = {
    list: { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    near: { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    precise: {
      year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
      fractionalSecondDigits: 3, timeZoneName: "short", hourCycle: "h23",
    },
  };

  function localizeTimes(part) {
    part.querySelectorAll("time[data-form]").forEach(function (element) {
      var moment = new Date(element.dateTime);
      element.title = element.dateTime;
      element.textContent = moment.toLocaleString(undefined, forms[element.dataset.form]);
      delete element.dataset.form;
    });
  }

  // --- Announcements ----------------------------------------------------------------------------

  function announce(text) {
    var region = document.getElementById("announcements");
    if (region) region.textContent = text;
  }

  // --- Clicks -----------------------------------------------------------------------------------

  function copy(button) {
    var source = document.getElementById(button.dataset.copy);
    var text = source.textContent;
    var done = function () {
      var label = button.textContent;
      button.textContent = "Copied";
      announce("Copied");
      setTimeout(function () { button.textContent = label; }, 1600);
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, function () { select(source); });
    else select(source);
  }

  // Without HTTPS there is no clipboard: the text is selected, ready for the keyboard.
  function select(element) {
    var range = document.createRange();
    range.selectNodeContents(element);
    var selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    announce("Selected: press Ctrl+C to copy");
  }

  function toggleTheme() {
    var theme = root.dataset.theme === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    try { localStorage.setItem("theme", theme); } catch (error) { /* It lasts for this page then. */ }
    document.dispatchEvent(new Event("themechange"));
  }

  function toggleMenu(button) {
    var side = document.getElementById("side");
    var open = side.classList.toggle("open");
    button.setAttribute("aria-expanded", String(open));
  }

  function showTab(button) {
    var tabs = button.closest("[role=tablist]");
    tabs.querySelectorAll("[role=tab]").forEach(function (tab) {
      var own = tab === button;
      tab.setAttribute("aria-selected", String(own));
      tab.tabIndex = own ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !own;
    });
  }

  document.addEventListener("click", function (event) {
    var button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    else if (button.dataset.act === "theme") toggleTheme();
    else if (button.dataset.act === "menu") toggleMenu(button);
    else if (button.getAttribute("role") === "tab") showTab(button);
    else if (button.dataset.act === "pause") pause(button);
  });

  document.addEventListener("keydown", function (event) {
    var tab = event.target.closest && event.target.closest("[role=tab]");
    var step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (tab && step) {
      var all = Array.from(tab.closest("[role=tablist]").querySelectorAll("[role=tab]"));
      var next = all[(all.indexOf(tab) + step + all.length) % all.length];
      showTab(next);
      next.focus();
    }
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      var search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });

  document.addEventListener("change", function (event) {
    if (event.target.dataset.submit !== undefined) event.target.form.requestSubmit();
  });

  document.addEventListener("submit", function (event) {
    var question = event.submitter && event.submitter.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // --- Live parts -------------------------------------------------------------------------------

  var paused = false;

  function pause(button) {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
  }

  // Parts ask again at each tick, while somebody looks. Lists of requests do so twice a second: a
  // refusal is on record within 0.75 s, and nobody is to see it more than two seconds late.
  var ticks = 0;

  setInterval(function () {
    if (paused || document.visibilityState !== "visible") return;
    document.body.dispatchEvent(new Event("fast-tick"));
    if (ticks++ % 2 === 0) document.body.dispatchEvent(new Event("tick"));
  }, 500);

  // Nobody uses a page that asks by itself: its session ends all the same. The server says so where
  // nothing changed since its last answer.
  var answers = new WeakMap();

  document.addEventListener("htmx:configRequest", function (event) {
    var cause = event.detail.triggeringEvent;
    if (!cause || !/tick$/.test(cause.type)) return;
    event.detail.headers["X-Tick"] = "1";
    var last = answers.get(event.detail.target);
    if (last && last.etag) event.detail.headers["If-None-Match"] = last.etag;
  });

  // A live part replaces its links: who stood on one with the keyboard stands on its successor.
  var focused = null;

  function rememberFocus(part) {
    var element = document.activeElement;
    focused = element && element !== part && part.contains(element) ? element : null;
  }

  function restoreFocus(part) {
    if (!focused || document.contains(focused)) { focused = null; return; }
    var address = focused.getAttribute("href");
    var links = Array.from(part.querySelectorAll("a[href]"));
    var next = links.find(function (link) { return link.getAttribute("href") === address; });
    // A row that fell off the list takes the focus with it; its table or the first link keeps it.
    next = next || part.querySelector("[tabindex='0']") || links[0];
    focused = null;
    if (next) next.focus({ preventScroll: true });
  }

  // What did not change stays as it is, with the focus and what somebody selected.
  document.addEventListener("htmx:beforeSwap", function (event) {
    var part = event.detail.target, xhr = event.detail.xhr, text = event.detail.serverResponse;
    var last = answers.get(part);
    if (xhr.status === 304 || (last && last.text === text)) event.detail.shouldSwap = false;
    else rememberFocus(part);
    if (xhr.status === 200) answers.set(part, { text: text, etag: xhr.getResponseHeader("ETag") });
  });

  var seen = null;

  function markFresh(part) {
    var rows = Array.from(part.querySelectorAll("[data-live] tbody tr"));
    if (!part.querySelector("[data-live]")) return;
    var keys = rows.map(function (row) { var link = row.querySelector("a"); return link ? link.href : ""; });
    if (seen) {
      var fresh = 0;
      rows.forEach(function (row, at) { if (!seen.has(keys[at])) { row.classList.add("fresh"); fresh += 1; } });
      if (fresh) announce(fresh === 1 ? "1 new request" : fresh + " new requests");
    }
    seen = new Set(keys);
  }

  document.addEventListener("htmx:afterSettle", function (event) {
    localizeTimes(event.target.parentElement || event.target);
    restoreFocus(event.detail.target || event.target);
    markFresh(document);
    var news = document.querySelector("[data-announce]");
    if (news && news.dataset.announce) { announce(news.dataset.announce); news.dataset.announce = ""; }
  });

  // On phones the names of pages scroll sideways: where one is, is to be seen.
  document.querySelectorAll(".subnav [aria-current]").forEach(function (link) {
    link.parentElement.scrollLeft = link.offsetLeft - link.parentElement.offsetLeft;
  });

  localizeTimes(document);
  markFresh(document);
})();
