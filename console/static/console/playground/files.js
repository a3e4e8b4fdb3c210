// Files that go with the next message.
(function () {
  "use strict";

  var BYTES_MAX = 5e6;

  // `{read, clear}` of the files that the person chose in `input`, which `list` shows. What is too large is refused aloud.
  window.playground.openFiles = function (input, list, announce) {
    var files = [];

    function add(chosen) {
      Array.from(chosen).forEach(function (file) {
        if (file.size > BYTES_MAX) { refuse(file.name + " is larger than 5 MB and was left out"); return; }
        var reader = new FileReader(), isText = !/^image\/|^application\/pdf$/.test(file.type);
        reader.onload = function () {
          files.push(isText ? { name: file.name, text: reader.result } : { name: file.name, type: file.type, url: reader.result });
          show();
        };
        if (isText) reader.readAsText(file);
        else reader.readAsDataURL(file);
      });
    }

    function refuse(text) {
      var row = document.createElement("li");
      row.className = "error";
      row.textContent = text;
      list.append(row);
      announce(text);
    }

    function show() {
      list.replaceChildren.apply(list, files.map(function (file) {
        var row = document.createElement("li"), name = document.createElement("span"), button = document.createElement("button");
        name.textContent = file.name;
        button.type = "button";
        button.className = "quiet small";
        button.textContent = "Remove";
        button.addEventListener("click", function () { files.splice(files.indexOf(file), 1); show(); });
        row.append(name, button);
        return row;
      }));
    }

    input.addEventListener("change", function (event) { add(event.target.files); event.target.value = ""; });
    return { read: function () { return files; }, clear: function () { files = []; show(); } };
  };
})();
