// Before the page is painted: the theme that was chosen, else the system's.
(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    var chosen = null;
    try { chosen = localStorage.getItem("theme"); } catch (error) { /* Storage is switched off. */ }
    document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light");
  }
  apply();
  dark.addEventListener("change", function () {
    apply();
    document.dispatchEvent(new Event("themechange"));
  });
})();
