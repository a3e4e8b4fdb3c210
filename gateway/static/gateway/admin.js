// What the libraries of the admin leave without a name or a role gets one, once they have built it.
// Boxes that search as one types stand in for a field: they are named by its label.
(function () {
  "use strict";

  function nameBoxes() {
    document.querySelectorAll("select.select2-hidden-accessible").forEach(function (field) {
      var label = field.labels && field.labels[0];
      var box = field.nextElementSibling;
      if (!label || !box) return;
      box.querySelectorAll('[role="combobox"], [role="textbox"], [role="searchbox"]').forEach(function (part) {
        part.setAttribute("aria-label", label.textContent.replace("*", "").trim());
      });
    });
    // A name needs a role, and a plain span has none.
    document.querySelectorAll("span.help-tooltip[aria-label]:not([role])").forEach(function (icon) {
      icon.setAttribute("role", "img");
    });
  }

  // They are built when the page stands, and with each further row of a table of fields.
  new MutationObserver(nameBoxes).observe(document.documentElement, { childList: true, subtree: true });
})();
