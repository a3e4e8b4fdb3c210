// Loaded before Portkey's gateway, which would listen on every address of the machine.
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const callbacks = rest.filter((one) => typeof one === "function");
  return listen.call(this, port, "127.0.0.1", ...callbacks);
};
