"use strict";

// A key typed under "Authorize" lives in this page only: persistAuthorization would keep it on disk.
SwaggerUIBundle({
  url: document.getElementById("docs").dataset.document,
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false,
  validatorUrl: null,
});
