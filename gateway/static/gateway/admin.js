// Boxes that search as one types stand in for a field and have no name of their own: they get its
// label's, once the library has built them.
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
  }

  // They are built when the page stands, and with each further row of a table of fields.
  new MutationObserver(nameBoxes).observe(document.documentElement, { childList: true, subtree: true });
})();
